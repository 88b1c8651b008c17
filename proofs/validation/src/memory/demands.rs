//! Demands of P2.1 and later on memory that a program manages: the obligations of a certificate, with their places, and
//! that every storage is released. Whether elements are written before they are read is no demand: a read traps.

use super::names::Keywords;
use super::sites::{Leaves, Storage};
use super::{Finding, Plan, Question, for_each_plan};
use crate::answers::Source;
use crate::obligation::Outcome;
use relax_syntax::Name;
use relax_syntax::ir::{Module, VarId};
use std::collections::BTreeSet;

/// A demand that is refuted or open.
#[derive(Clone, Debug)]
pub struct MemoryDemand {
    /// The function it stands in.
    pub function: Name,
    /// The tensor or storage by its name, or what else it is about.
    pub place: Name,
    /// The binding to look at; `None` where a body ends.
    pub binding: Option<VarId>,
    /// Another tensor or storage that it is about: the one that is released, the one that shares bytes.
    pub other: Option<VarId>,
    /// What is demanded of it.
    pub question: Question,
    /// Refuted or unproved, never a proof.
    pub outcome: Outcome,
}

/// Those of a module that are not proved, in the order of its functions.
#[must_use]
pub fn memory_demands(module: &Module, source: &mut dyn Source) -> Vec<MemoryDemand> {
    let mut found = Vec::new();
    for_each_plan(module, &BTreeSet::new(), Keywords::Read, source, &mut |plan, _| {
        plan.derive();
        plan.releases();
        let function = &plan.function.name;
        let open = plan.found.drain(..).filter(|finding| {
            finding.question != Question::Written
                && matches!(finding.outcome, Outcome::Unproved(_) | Outcome::Refuted(_))
        });
        found.extend(open.map(|Finding { place, binding, other, question, outcome }| {
            MemoryDemand { function: function.clone(), place, binding, other, question, outcome }
        }));
    });
    found
}

impl Plan<'_> {
    fn releases(&mut self) {
        for storage in &self.sites.storages {
            let (place, binding) = (storage.name.clone(), Some(storage.var));
            let (question, outcome) = (Question::Freed, storage.is_released());
            self.found.push(Finding { place, binding, other: None, question, outcome });
        }
    }
}

impl Storage {
    /// Whoever gets the result has to release what holds it.
    fn is_released(&self) -> Outcome {
        match self.leaves {
            Some(Leaves::Result) => Outcome::Proved,
            Some(Leaves::Elsewhere(why)) => match self.life.is_released() {
                Outcome::Refuted(_) => Outcome::Unproved(why.to_owned()),
                outcome => outcome,
            },
            None => self.life.is_released(),
        }
    }
}
