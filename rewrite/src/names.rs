//! Names that are not taken yet. Functions, tensor programs, variables and symbolic variables share one
//! space here, so that nothing hides anything.

use relax_semantics::ops::lookup;
use relax_syntax::Name;
use relax_syntax::ir::{Function, Module};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The names of the definitions of a module.
#[derive(Clone, Debug)]
pub struct Defined(Arc<BTreeSet<Name>>);

/// The names that are taken.
#[derive(Clone, Debug)]
pub struct Names {
    defined: Defined,
    taken: BTreeSet<Name>,
    /// The next number to try behind a name.
    numbers: BTreeMap<Name, u32>,
}

impl Defined {
    /// Those of a module.
    #[must_use]
    pub fn of(module: &Module) -> Self {
        Self(Arc::new(module.definitions.iter().map(|it| it.name().clone()).collect()))
    }

    /// With the names in a function of the module: all that it sees.
    #[must_use]
    pub fn seen_from(&self, function: &Function) -> Names {
        let mut names =
            Names { defined: self.clone(), taken: BTreeSet::new(), numbers: BTreeMap::new() };
        names.take(function);
        names
    }
}

impl Names {
    /// All names of a module.
    #[must_use]
    pub fn of(module: &Module) -> Self {
        let (taken, numbers) = (BTreeSet::new(), BTreeMap::new());
        let mut names = Self { defined: Defined::of(module), taken, numbers };
        module.functions().for_each(|function| names.take(function));
        names
    }

    fn take(&mut self, function: &Function) {
        self.taken.extend(function.dims.iter().map(|dim| dim.name.clone()));
        self.taken.extend(function.vars.iter().map(|info| info.name.clone()));
    }

    /// A new one: the one that is wanted, or that with a number from 1 on.
    pub fn fresh(&mut self, wanted: &str) -> Name {
        let wanted = Name::new(wanted);
        if self.insert(&wanted) {
            return wanted;
        }
        self.with_number(wanted, 1)
    }

    /// A new one: the one that is wanted with a number from 0 on.
    pub fn numbered(&mut self, wanted: &str) -> Name {
        self.with_number(Name::new(wanted), 0)
    }

    /// A new one: the one that is wanted with a number from 1 on.
    pub fn numbered_from_one(&mut self, wanted: &str) -> Name {
        self.with_number(Name::new(wanted), 1)
    }

    fn with_number(&mut self, wanted: Name, first: u32) -> Name {
        let mut number = self.numbers.get(&wanted).copied().unwrap_or(first);
        loop {
            let name = Name::new(format!("{wanted}_{number}"));
            number += 1;
            if self.insert(&name) {
                self.numbers.insert(wanted, number);
                return name;
            }
        }
    }

    fn insert(&mut self, name: &Name) -> bool {
        lookup(name).is_none() && !self.defined.0.contains(name) && self.taken.insert(name.clone())
    }
}
