//! Floor 3: placements of distributed tensors. [`propagate`] chooses a placement for each value of a function, [`lower`]
//! makes of it one program that every rank of the mesh runs on its own shards, [`run`](mod@run) runs that program.
//!
//! Functions are operator calls, branches that all ranks take alike, and checks of what all have; anything else is refused with its place.

pub mod annotated;
mod beam;
mod branches;
mod calls;
mod chosen;
pub mod data;
pub mod layout;
pub mod lower;
pub mod movement;
mod overlap;
mod plan;
mod program;
pub mod propagate;
mod rewritten;
pub mod run;
pub mod signature;
mod stages;
mod steps;
pub mod tensor;
pub mod versions;

use chosen::chosen;
use relax_semantics::check::{Phase, check};
use relax_syntax::Name;
use relax_syntax::diagnostic::{Diagnostic, Severity};
use relax_syntax::facts::Facts;
use relax_syntax::ir::{Definition, Function, Module};
use std::collections::BTreeMap;
use versions::{Version, versions};

/// A function with its layouts, and its local program.
#[derive(Clone, Debug)]
pub struct Sharded {
    /// The layouts and redistributions.
    pub plan: propagate::Plan,
    /// Other ones for some sizes, which the local program chooses among first.
    pub others: Vec<Version>,
    /// The local program, checked.
    pub local: Module,
}

impl Sharded {
    /// Whether layouts were left out that may move fewer bytes.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.plan.is_truncated || self.others.iter().any(|own| own.plan.is_truncated)
    }
}

/// Shards a function of a checked module; costs are compared at `sizes` of symbolic dims.
///
/// # Errors
/// What is not supported, with its place.
pub fn shard(
    module: &Module,
    function: &Function,
    sizes: &BTreeMap<Name, i64>,
    facts: &mut dyn Facts,
) -> Result<Sharded, Diagnostic> {
    let plan = propagate::propagate(module, function, sizes, facts)?;
    made(module, function, (Vec::new(), plan), facts)
}

/// The same, with a local program that chooses among plans for other sizes ([`versions`](mod@versions)).
///
/// # Errors
/// What is not supported, with its place.
pub fn shard_in_versions(
    module: &Module,
    function: &Function,
    sizes: &BTreeMap<Name, i64>,
    facts: &mut dyn Facts,
) -> Result<Sharded, Diagnostic> {
    let (others, plan) = versions(module, function, sizes, facts)?;
    made(module, function, (others, plan), facts)
}

fn made(
    module: &Module,
    function: &Function,
    (others, plan): (Vec<Version>, propagate::Plan),
    facts: &mut dyn Facts,
) -> Result<Sharded, Diagnostic> {
    let mut local = lower::lower(module, function, &plan, facts);
    if !others.is_empty() {
        let of = |module: Module| match module.definitions.into_iter().next() {
            Some(Definition::Graph(own)) => own,
            _ => unreachable!("invariant: a local program is one function"),
        };
        let mut ways: Vec<_> = others
            .iter()
            .map(|own| (own.guard.clone(), of(lower::lower(module, function, &own.plan, facts))))
            .collect();
        let attrs = std::mem::take(&mut local.attrs);
        ways.push((Vec::new(), of(local)));
        local = Module { attrs, definitions: vec![Definition::Graph(chosen(ways))] };
    }
    let checked = check(&local, facts, Phase::Surface);
    let mut errors = checked.diagnostics.iter().filter(|found| found.severity == Severity::Error);
    if let Some(first) = errors.next() {
        let message = format!(
            "the local program of `{}` is not well-formed: {}",
            function.name, first.message
        );
        return Err(propagate::refused(first.primary.span, message));
    }
    Ok(Sharded { plan, others, local: checked.module })
}
