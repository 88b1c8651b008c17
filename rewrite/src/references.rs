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

/// Drops the definitions among `replaced` that nothing mentions any more: functions that are not private stay, and what any other
/// definition reaches, whether it is reached itself or not.
pub fn drop_replaced(module: &mut Module, replaced: &BTreeSet<Name>) {
    let is_root = |definition: &&Definition| {
        let is_public = matches!(definition, Definition::Graph(function) if !is_private(function));
        is_public || !replaced.contains(definition.name())
    };
    let roots = module.definitions.iter().filter(is_root).map(|d| d.name().clone());
    let kept = reached_from(module, roots.collect());
    module.definitions.retain(|definition| kept.contains(definition.name()));
}
