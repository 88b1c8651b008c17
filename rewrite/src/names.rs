//! Names that a module does not have yet. Functions, tensor programs, variables and symbolic variables
//! share one space here, so that nothing hides anything.

use relax_semantics::ops::lookup;
use relax_syntax::Name;
use relax_syntax::ir::Module;
use std::collections::BTreeSet;

/// The names that are taken.
pub(crate) struct Names {
    taken: BTreeSet<Name>,
}

impl Names {
    /// Those of a module.
    pub(crate) fn of(module: &Module) -> Self {
        let definitions = module.definitions.iter().map(|definition| definition.name().clone());
        let variables = module.functions().flat_map(|function| {
            let dims = function.dims.iter().map(|dim| dim.name.clone());
            function.vars.iter().map(|var| var.name.clone()).chain(dims)
        });
        Self { taken: definitions.chain(variables).collect() }
    }

    /// A new one, like the one that is wanted.
    pub(crate) fn fresh(&mut self, wanted: &str) -> Name {
        let numbered = (1_u32..).map(|number| format!("{wanted}_{number}"));
        let candidates = std::iter::once(wanted.to_owned()).chain(numbered).map(Name::new);
        let mut free =
            candidates.filter(|name| !self.taken.contains(name) && lookup(name).is_none());
        let name = free.next().expect("invariant: finitely many names are taken");
        self.taken.insert(name.clone());
        name
    }
}
