//! Access summaries: what a tensor program does to the elements of its parameters. They are taken before programs
//! are scheduled: blocks, threads and the guards of tiles hide it, and change nothing of it.

use super::definite_init::summary_of_parameters;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::ir::{Definition, Module, TensorProgram};
use std::collections::{BTreeMap, BTreeSet};

/// What a program does to the elements of one of its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessSummary {
    /// The program may read one that it has not written before.
    pub are_read_first: bool,
    /// It writes all of them where these dims are at least 1; `None`: nobody knows when it does.
    pub are_written_where: Option<BTreeSet<Dim>>,
}

impl AccessSummary {
    /// Whether the program writes all of them before it reads one.
    #[must_use]
    pub fn are_filled(&self) -> bool {
        let always = self.are_written_where.as_ref().is_some_and(BTreeSet::is_empty);
        always && !self.are_read_first
    }
}

/// Of each buffer among the parameters of each program, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessSummaries(BTreeMap<Name, BTreeMap<Name, AccessSummary>>);

impl AccessSummaries {
    /// Of a module that is not scheduled yet.
    #[must_use]
    pub fn of(module: &Module) -> Self {
        let programs = module.definitions.iter().filter_map(|definition| match definition {
            Definition::Tensor(program) if program.body.is_some() => Some(program),
            _ => None,
        });
        let of_program = |program: &TensorProgram| {
            let names = program.buffer_params().map(|id| program.buffer(id).name.clone());
            (program.name.clone(), names.zip(summary_of_parameters(program)).collect())
        };
        Self(programs.map(of_program).collect())
    }

    /// Those of a program as it is now, in the order of its buffers. One that is not known is asked itself. A buffer that came
    /// later is memory that the program was lent for itself: what it reads there is the printer's to watch.
    #[must_use]
    pub fn on(&self, program: &TensorProgram) -> Vec<AccessSummary> {
        let Some(known) = self.0.get(&program.name) else {
            return summary_of_parameters(program);
        };
        let lent = AccessSummary { are_read_first: false, are_written_where: Some([].into()) };
        let of_buffer = |id| known.get(&program.buffer(id).name).unwrap_or(&lent).clone();
        program.buffer_params().map(of_buffer).collect()
    }
}
