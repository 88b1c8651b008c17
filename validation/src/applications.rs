//! Pass applications: what a function means before and after. So far a function is known to mean the same where its
//! text did not change; `relax_theorems::validation` proves more, and has no bound on its memory yet.

use relax_syntax::Name;
use relax_syntax::facts::Facts;
use relax_syntax::ir::Module;

/// What is known of one function that stands in both modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Its name.
    pub(crate) function: Name,
    /// Where in it: a variable, or nothing for the whole function.
    pub(crate) place: String,
    /// What was to be shown.
    pub(crate) what: String,
    /// How that ended.
    pub(crate) outcome: Outcome,
}

/// How an obligation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Shown for all shapes and elements.
    Proved,
    /// There is no proof, for this reason.
    Unproved(String),
}

/// Compares the functions that both modules have.
pub(crate) fn validate(
    before: &Module,
    after: &Module,
    _prover: &mut dyn FnMut() -> Box<dyn Facts>,
) -> Vec<Finding> {
    let common = before.functions().filter_map(|one| Some((one, after.function(&one.name)?)));
    let same_programs = before.definitions == after.definitions;
    let found = common.map(|(one, other)| Finding {
        function: one.name.clone(),
        place: String::new(),
        what: "the result is the same".to_owned(),
        outcome: if one == other && same_programs {
            Outcome::Proved
        } else {
            Outcome::Unproved("the texts differ".to_owned())
        },
    });
    found.collect()
}
