//! What the tensor programs of a module do to the elements of their buffers. It is told before they are scheduled: blocks, threads
//! and the guards of tiles hide it, and change nothing of it.

use crate::initialized::{Elements, elements_of_parameters};
use relax_syntax::Name;
use relax_syntax::ir::{Definition, Module, TensorProgram};
use std::collections::BTreeMap;

/// Of each buffer among the parameters of each program, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects(BTreeMap<Name, BTreeMap<Name, Elements>>);

impl Effects {
    /// Of a module that is not scheduled yet.
    #[must_use]
    pub fn of(module: &Module) -> Self {
        let programs = module.definitions.iter().filter_map(|definition| match definition {
            Definition::Tensor(program) if program.body.is_some() => Some(program),
            _ => None,
        });
        let of_program = |program: &TensorProgram| {
            let names = program.buffer_params().map(|id| program.buffer(id).name.clone());
            (program.name.clone(), names.zip(elements_of_parameters(program)).collect())
        };
        Self(programs.map(of_program).collect())
    }

    /// Those of a program as it is now, in the order of its buffers. One that is not known is asked itself. A buffer that came
    /// later is memory that the program was lent for itself: what it reads there is the printer's to watch.
    #[must_use]
    pub fn on(&self, program: &TensorProgram) -> Vec<Elements> {
        let Some(known) = self.0.get(&program.name) else {
            return elements_of_parameters(program);
        };
        let lent = Elements { are_read_first: false, are_written_where: Some([].into()) };
        let of_buffer = |id| known.get(&program.buffer(id).name).unwrap_or(&lent).clone();
        program.buffer_params().map(of_buffer).collect()
    }
}

/// A module whose tensor programs are scheduled for a device.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// As the machine runs it.
    pub module: Module,
    /// What its tensor programs did to elements before they were scheduled.
    pub effects: Effects,
}

impl From<Module> for Lowered {
    /// One that is not scheduled any more.
    fn from(module: Module) -> Self {
        Self { module, effects: Effects::default() }
    }
}
