//! Tensor programs: every access is in bounds, index arithmetic has a value that is an i64, iterations that may run
//! at the same time write different elements, and every element of what a program gives is written.

mod covers;
mod distinct;
mod limits;
mod scope;
mod values;
mod walk;

use crate::answers::Source;
use crate::obligation::{Kind, Obligation, Outcome};
use relax_syntax::ir::{Definition, Module, TensorProgram};
use scope::Scope;
use std::collections::BTreeMap;
use walk::Walk;

/// The obligations of every tensor program of a module that has a body.
pub(crate) fn obligations(module: &Module, source: &mut dyn Source) -> Vec<Obligation> {
    let mut found = Vec::new();
    for definition in &module.definitions {
        let Definition::Tensor(program) = definition else { continue };
        found.extend(of_program(program, source));
    }
    found
}

fn of_program(program: &TensorProgram, source: &mut dyn Source) -> Vec<Obligation> {
    let Some(body) = &program.body else { return Vec::new() };
    let mut facts = source.facts();
    let scope = Scope::new(program, &mut *facts);
    let (found, stores, lets) = (Vec::new(), Vec::new(), BTreeMap::new());
    let mut walk = Walk { program, scope, found, stores, accesses: 0, lets };
    walk.body(body);
    let Walk { mut scope, mut found, stores, .. } = walk;
    for obligation in distinct::obligations(program, &stores, &mut scope) {
        found.push(obligation);
    }
    for obligation in covers::obligations(program, &stores, &mut scope) {
        found.push(obligation);
    }
    let trusted = source.was_trusted();
    let obligation = |(place, what, outcome): Found| Obligation {
        kind: Kind::Kernel,
        function: program.name.clone(),
        place,
        what,
        outcome: if trusted && outcome == Outcome::Proved { Outcome::Trusted } else { outcome },
    };
    found.into_iter().map(obligation).collect()
}

/// Where, what, and how that ended.
type Found = (String, String, Outcome);
