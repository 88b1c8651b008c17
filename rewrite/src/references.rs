//! Which definitions of a module are reached from outside.

use crate::verify::is_private;
use relax_syntax::Name;
use relax_syntax::ir::references::reached_from;
pub use relax_syntax::ir::references::{References, references};
use relax_syntax::ir::{Definition, Module};
use std::collections::BTreeSet;

/// The definitions that are reached from functions which are not private. A module without graph
/// functions is a library of tensor programs: all of them.
pub(crate) fn reached(module: &Module) -> BTreeSet<Name> {
    let is_root = |definition: &&Definition| match definition {
        Definition::Graph(function) => !is_private(function),
        Definition::Tensor(_) => module.functions().next().is_none(),
    };
    let roots = module.definitions.iter().filter(is_root).map(|d| d.name().clone());
    reached_from(module, roots.collect())
}
