//! What is known of a rule, and how: proved for all ranks, for some, or not at all.

use super::annotate::{has_groups, ranks_up_to, same_annotation, same_denotation};
use super::instance::{Ranks, Types, expanded, representatives, type_choices};
use super::judge::MOST_TYPES;
use super::rule::Rule;
use crate::denotation::fuel;
use crate::denotation::theorem::{assume_conditions, prove_equal};
use crate::validation::metered::Metered;
use relax_syntax::facts::Facts;
use std::fmt;

/// How far a rule is known to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// For all extents, and any number of axes where it has groups of them.
    Proved,
    /// For all extents, where each group has 0 to 4 axes.
    ProvedForRanks,
    /// Only at small sizes, in the interpreter.
    Tested,
    /// There is no proof, for this reason.
    Unproved(String),
}

/// The most axes that a group has where a rule is proved for some ranks.
pub(super) const MOST_AXES: usize = 4;
/// The ranks at which denotation and deduction are compared.
const COMPARED_AXES: usize = 3;

impl Status {
    /// As tables say it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Status::Proved => "proved",
            Status::ProvedForRanks => "proved for ranks 0-4",
            Status::Tested => "tested",
            Status::Unproved(_) => "unproved",
        }
    }

    /// The status that a word says; of a rule that is not proved without the reason.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Status> {
        let known = [Status::Proved, Status::ProvedForRanks, Status::Tested];
        let unproved = Status::Unproved(String::new());
        known.into_iter().chain([unproved]).find(|status| status.word() == word)
    }

    /// Whether it is a theorem.
    #[must_use]
    pub fn is_proved(&self) -> bool {
        matches!(self, Status::Proved | Status::ProvedForRanks)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Proves a rule, for all shapes if that is possible. `prover` makes one that knows nothing yet.
pub fn prove(rule: &Rule, prover: &mut dyn FnMut() -> Box<dyn Facts>) -> Status {
    let choices = type_choices(rule, representatives);
    if let Err(why) = compared(rule, &choices, prover) {
        return Status::Unproved(why);
    }
    let general = choices.iter().try_for_each(|types| proved_for_all(rule, types, prover));
    let Err(why) = general else { return Status::Proved };
    if !has_groups(rule) {
        return Status::Unproved(why);
    }
    for ranks in ranks_up_to(rule, MOST_AXES) {
        let instance = expanded(rule, &ranks);
        for types in &choices {
            if let Err(why) = proved_for(&instance, types, prover) {
                let rank = ranks.values().next().copied().unwrap_or_default();
                return Status::Unproved(format!("with groups of {rank} axes: {why}"));
            }
        }
    }
    Status::ProvedForRanks
}

/// The same within so many steps, each counted as in [`crate::validation`], and of few classes of dtypes.
pub fn prove_within(rule: &Rule, steps: u64, prover: &mut dyn FnMut() -> Box<dyn Facts>) -> Status {
    if rule.element_types().len() > MOST_TYPES {
        return Status::Unproved("it ranges over too many classes of dtypes".to_owned());
    }
    let metered = &mut || -> Box<dyn Facts> { Box::new(Metered(prover())) };
    let (status, spent) = fuel::limited(steps, || prove(rule, metered));
    match status {
        Status::Unproved(_) if spent == steps => Status::Unproved(fuel::SPENT.to_owned()),
        status => status,
    }
}

/// Deduction at a few ranks: both sides alike, and as the denotation says.
fn compared(
    rule: &Rule,
    choices: &[Types],
    prover: &mut dyn FnMut() -> Box<dyn Facts>,
) -> Result<(), String> {
    for ranks in ranks_up_to(rule, COMPARED_AXES) {
        let instance = expanded(rule, &ranks);
        for types in choices {
            let mut facts = prover();
            assume_conditions(&instance, &mut *facts);
            same_annotation(&instance, types, &mut *facts)?;
            same_denotation(&instance, types, &mut *facts)?;
        }
    }
    Ok(())
}

/// One axis a group, treated as a whole: the instance with one axis tells what is checked at run time.
fn proved_for_all(
    rule: &Rule,
    types: &Types,
    prover: &mut dyn FnMut() -> Box<dyn Facts>,
) -> Result<(), String> {
    let single: Ranks = rule.groups().into_iter().map(|group| (group, 1)).collect();
    let mut facts = prover();
    assume_conditions(rule, &mut *facts);
    same_annotation(&expanded(rule, &single), types, &mut *facts)?;
    prove_equal(rule, types, &mut *facts)
}

fn proved_for(
    instance: &Rule,
    types: &Types,
    prover: &mut dyn FnMut() -> Box<dyn Facts>,
) -> Result<(), String> {
    let mut facts = prover();
    assume_conditions(instance, &mut *facts);
    same_annotation(instance, types, &mut *facts)?;
    prove_equal(instance, types, &mut *facts)
}
