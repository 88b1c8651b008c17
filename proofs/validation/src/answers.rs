//! Answers to questions on dims: what a certificate holds beside the texts. They are made by
//! [recording] at compile time and believed by [replaying] only as far as their proofs go.

pub mod recording;
pub mod replaying;

use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Counterexample, Facts};
use std::collections::BTreeMap;

/// All answers of a compilation, in spelled names.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// For each claim, as text, what it follows from.
    pub(crate) proved: BTreeMap<String, Vec<Proof>>,
    /// For each dim, as text, what equals it somewhere.
    pub(crate) equal: BTreeMap<String, Vec<Simple>>,
    /// For each claim, as text, values for which it fails.
    pub(crate) refuted: BTreeMap<String, Vec<Counterexample>>,
}

/// A claim follows from these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    /// As text, sorted.
    pub(crate) hypotheses: Vec<String>,
    /// The certificate, with its header.
    pub(crate) text: String,
    /// Nothing is shown: a solver is said to have decided it.
    pub(crate) trusted: bool,
}

/// What a dim equals where these claims are assumed, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Simple {
    pub(crate) dim: Dim,
    pub(crate) given: Vec<String>,
}

impl Answers {
    /// How many claims are proved, simplifications included, and how many are refuted.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let proofs = self.proved.values().map(Vec::len).sum();
        (proofs, self.refuted.values().map(Vec::len).sum())
    }

    /// What a dim equals by what is assumed, where that is assumed itself or proved. The first is taken, by whoever records and by
    /// whoever checks.
    fn simple(&self, dim: &Dim, assumed: &Assumed) -> Option<Dim> {
        let known = self.equal.get(&dim.to_string())?;
        let simple = known.iter().find(|simple| assumed.include(&simple.given))?;
        let claim = equation(dim, &simple.dim).to_string();
        let is_known =
            assumed.include(std::slice::from_ref(&claim)) || self.find(&claim, assumed).is_some();
        is_known.then(|| simple.dim.clone())
    }

    /// The proof of a claim from what is assumed.
    fn find(&self, claim: &str, assumed: &Assumed) -> Option<&Proof> {
        self.proved.get(claim)?.iter().find(|proof| assumed.include(&proof.hypotheses))
    }
}

/// Who decides claims at compile time, with a proof of what is so.
pub trait Author: Facts {
    /// The answer; with a certificate in the form that `docs/CERTIFICATES.md` defines, whose hypotheses are
    /// among what is assumed, where the claim is proved and one is found.
    fn decide_certified(&mut self, claim: &Claim) -> (relax_syntax::facts::Answer, Option<String>);
}

/// Makes those who answer, each of whom knows nothing yet, and tells whether a solver was trusted since the
/// last time that this was asked.
pub trait Source {
    /// One who knows nothing yet.
    fn facts(&mut self) -> Box<dyn Facts>;
    /// Whether some answer since the last call rests on a solver.
    fn was_trusted(&mut self) -> bool;
}

/// What is assumed in the scopes that are open.
#[derive(Clone, Debug, Default)]
struct Assumed {
    claims: Vec<(String, Claim)>,
    scopes: Vec<usize>,
}

impl Assumed {
    fn assume(&mut self, claim: Claim) {
        self.claims.push((claim.to_string(), claim));
    }

    fn push(&mut self) {
        self.scopes.push(self.claims.len());
    }

    fn pop(&mut self) {
        if let Some(length) = self.scopes.pop() {
            self.claims.truncate(length);
        }
    }

    /// Whether all of these are assumed, as they are written.
    fn include(&self, hypotheses: &[String]) -> bool {
        hypotheses.iter().all(|text| self.claims.iter().any(|(known, _)| known == text))
    }

    /// Whether all that is assumed holds for these values, and the claim does not.
    fn refute(&self, claim: &Claim, values: &Counterexample) -> bool {
        claim.holds(values) == Some(false)
            && self.claims.iter().all(|(_, known)| known.holds(values) == Some(true))
    }
}

/// The claim that two dims are equal, as it is proved for a simplification.
fn equation(dim: &Dim, simple: &Dim) -> Claim {
    Claim::new(dim.clone(), relax_syntax::facts::Relation::Equal, simple.clone())
}

/// Values under the names as they were.
fn values_back(values: &Counterexample, name_of: &dyn Fn(&Name) -> Name) -> Counterexample {
    values.iter().map(|(name, value)| (name_of(name), *value)).collect()
}
