//! Tensor programs: every access is in bounds, index arithmetic has a value that is an i64, iterations that may run
//! at the same time write different elements, and every element of what a program gives is written.

mod covers;
mod distinct;
mod limits;
mod reads;
mod refutation;
mod scope;
mod values;
mod walk;

use crate::answers::Source;
use crate::obligation::{Kind, Obligation, Outcome};
use covers::covered;
use reads::{Load, is_given};
use relax_syntax::Name;
use relax_syntax::facts::Facts;
use relax_syntax::ir::tensor::BufferId;
use relax_syntax::ir::{Definition, Module, TensorProgram};
use scope::Scope;
use std::collections::BTreeSet;
use walk::{Store, Walk};

/// What is known of the tensor programs of a module.
#[derive(Debug, Default)]
pub(crate) struct Kernels {
    pub(crate) obligations: Vec<Obligation>,
    /// Parameters that a program reads, but writes before.
    pub(crate) initialized: BTreeSet<(Name, BufferId)>,
}

/// The obligations of every tensor program of a module that has a body.
pub(crate) fn obligations(module: &Module, source: &mut dyn Source) -> Kernels {
    let mut kernels = Kernels::default();
    for definition in &module.definitions {
        let Definition::Tensor(program) = definition else { continue };
        of_program(program, source, &mut kernels);
    }
    kernels
}

fn of_program(program: &TensorProgram, source: &mut dyn Source, kernels: &mut Kernels) {
    let Some(body) = &program.body else { return };
    let mut facts = source.facts();
    let mut walk = Walk::of(program, Scope::new(program, &mut *facts));
    walk.body(body);
    let Walk { mut scope, mut found, stores, loads, .. } = walk;
    found.extend(distinct::obligations(program, &stores, &mut scope));
    found.extend(covers::obligations(program, &stores, &loads, &mut scope));
    for (buffer, outcome) in reads::obligations(program, &stores, &loads, &mut scope) {
        let proved = outcome == Outcome::Proved;
        let given = is_given(program, buffer);
        if given && proved {
            kernels.initialized.insert((program.name.clone(), buffer));
        }
        // Whoever calls must have written what is not written here.
        if proved || !given {
            let place = format!("`{}`", program.buffer(buffer).name);
            found.push((place, "is written before it is read".to_owned(), outcome));
        }
    }
    let trusted = source.was_trusted();
    let obligation = |(place, what, outcome): Found| Obligation {
        kind: Kind::Kernel,
        function: program.name.clone(),
        place,
        what,
        outcome: if trusted && outcome == Outcome::Proved { Outcome::Trusted } else { outcome },
    };
    kernels.obligations.extend(found.into_iter().map(obligation));
}

/// Which of some parameters that hold nothing before a tensor program fills; nothing where it may read an uninitialized element of these or of a buffer
/// of its own.
pub fn filled(
    program: &TensorProgram,
    empty: &BTreeSet<BufferId>,
    facts: &mut dyn Facts,
) -> Option<BTreeSet<BufferId>> {
    let body = program.body.as_ref()?;
    let mut walk = Walk::silent(program, Scope::new(program, facts));
    walk.body(body);
    let Walk { mut scope, stores, loads, .. } = walk;
    let is_open = |load: &&Load| empty.contains(&load.buffer) || !is_given(program, load.buffer);
    let mut reads = loads.iter().filter(is_open);
    if !reads.all(|load| reads::is_initialized(program, load, &stores, &mut scope)) {
        return None;
    }
    let is_filled = |buffer: &&BufferId| {
        let own = stores.iter().filter(|store| store.buffer == **buffer);
        let own: Vec<&Store> = own.collect();
        !own.is_empty() && covered(program, **buffer, &own, (&mut scope, &[]))
    };
    Some(empty.iter().filter(is_filled).copied().collect())
}

/// Where, what, and how that ended.
type Found = (String, String, Outcome);
