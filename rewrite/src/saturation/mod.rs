//! Equality saturation over graph functions: rules of `proofs/theorems/` are applied to regions of calls that never stop
//! the program, in an e-graph, and a cheap form is taken out.
//!
//! A rule is applied where its conditions are proved, where deduction leaves nothing of the other side to run time,
//! and where both sides have one annotation; all of that is asked of the prover under what is declared of the
//! function's dims. A form replaces a region where it is proved to cost no more for all dims
//! ([`cost`]). Regions that differ in names alone are saturated once. Explanations are egg's; matching is our own,
//! because rules bind dims, groups of axes and element types, of which egg's patterns know nothing.

mod binding;
mod candidates;
mod comparison;
pub mod cost;
mod emit;
mod encode;
pub mod explain;
mod extract;
mod fused;
mod fused_versions;
mod graph;
mod guards;
mod instantiate;
mod matching;
mod optimal;
pub mod own_rules;
mod polynomial;
mod prepare;
mod questions;
mod region;
mod replay;
mod report;
mod rulebook;
mod samples;
mod search;
mod solve;
mod spelling;
mod term;
mod undecided;
mod versions;
mod walk;
mod witness;

pub use crate::guarded::Guard;
pub use fused::{Constants, FusedCost, Fusion, Units};
pub use polynomial::Polynomial;
pub use prepare::{prepared, tidied};
pub use report::{FormCounts, FunctionReport, Kept, RegionReport, Report};
pub use search::{Limits, Uses};
pub use versions::{Version, Versioned, version_module};
pub use walk::{Extraction, saturate_module};
pub use witness::Witness;

use relax_syntax::Name;
use relax_theorems::rules::{FAMILIES, PRODUCTS, Rule};
use std::sync::Arc;

/// What a saturation is asked for.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The families of rules of this program; all of them, if none is listed here.
    pub families: Option<Vec<Name>>,
    /// The families of which rules over the reals are used too; all of those above, if none is listed here.
    pub families_of_reals: Option<Vec<Name>>,
    /// Rules beside those. That they hold is the caller's word: see `relax_theorems::rules::judge`.
    pub own: Vec<Arc<Rule>>,
    /// How far each region goes.
    pub limits: Limits,
    /// Whether it is said which rules led to each form: what the passes report then.
    pub explain: bool,
    /// The passes after which forms are compared; without, each call counts as a kernel.
    pub fusion: Option<Fusion>,
    /// What a form must save to be taken, in percent of the cost after fusion.
    pub least_gain: u8,
    /// Tells nanoseconds, where rules shall be timed. Nothing depends on what it tells.
    pub clock: Option<fn() -> u64>,
}

impl Options {
    /// Of builds for which nobody asked for rules: few steps, and nothing is changed for next to no gain. Of the rules over the reals only
    /// those of products are used, which form sums in another order. Others are as true, and lose digits: exponentials without a
    /// maximum overflow, and a variance of squares cancels.
    #[must_use]
    pub fn of_builds() -> Self {
        let families_of_reals = Some(vec![Name::new(PRODUCTS)]);
        let limits = Limits::OF_BUILDS;
        Self { families_of_reals, limits, explain: true, least_gain: 2, ..Self::default() }
    }

    /// The family of a name.
    ///
    /// # Errors
    /// There is none; those there are.
    pub fn family(name: &str) -> Result<Name, String> {
        let known = FAMILIES.iter().any(|(family, _)| *family == name);
        let names = || FAMILIES.iter().map(|(family, _)| *family).collect::<Vec<_>>().join(", ");
        known
            .then(|| Name::new(name))
            .ok_or_else(|| format!("there is no family `{name}` of rules; there are {}", names()))
    }

    /// Sets a limit: `nodes=1000`.
    ///
    /// # Errors
    /// What was expected.
    pub fn set_limit(&mut self, text: &str) -> Result<(), String> {
        let expected = "expected nodes=N, iterations=N, classes=N, matches=N or extraction=N";
        let (name, value) = text.split_once('=').ok_or(expected)?;
        let value: usize = value.parse().map_err(|_| expected)?;
        match name {
            "nodes" => self.limits.nodes = value,
            "iterations" => self.limits.iterations = value,
            "classes" => self.limits.classes = value,
            "matches" => self.limits.matches = value,
            "extraction" => self.limits.extraction = value,
            _ => return Err(expected.to_owned()),
        }
        Ok(())
    }
}

/// How near the rules are that may be used.
pub use relax_theorems::rules::Kind as RuleKind;
