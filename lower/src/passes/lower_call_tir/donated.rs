//! Donated parameters: whoever calls gives the arguments up, and the function overwrites them.

use relax_rewrite::references::references;
use relax_syntax::Name;
use relax_syntax::ir::{Function, Module, VarId};
use std::collections::{BTreeMap, BTreeSet};

/// For each function that donates which of its parameters are donated.
pub(in super::super) struct Donated(BTreeMap<Name, Vec<bool>>);

impl Donated {
    /// A function that is held as a value is called where its name is not known: its arguments are not given up.
    pub(in super::super) fn of(module: &Module) -> Self {
        let held: BTreeSet<Name> =
            module.functions().flat_map(|function| references(function).held).collect();
        let mut donated = BTreeMap::new();
        for function in module.functions().filter(|function| !held.contains(&function.name)) {
            let given: BTreeSet<VarId> = function.donated().collect();
            if !given.is_empty() {
                let params = function.lambda.params.iter();
                let flags = params.map(|param| given.contains(param)).collect();
                donated.insert(function.name.clone(), flags);
            }
        }
        Self(donated)
    }

    /// Which arguments a call of a function gives up; `None` where it gives up none.
    pub(in super::super) fn of_call(&self, name: &Name) -> Option<&[bool]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// The parameters that nothing but the function names.
    pub(in super::super) fn owned(&self, function: &Function) -> BTreeSet<VarId> {
        match self.0.contains_key(&function.name) {
            true => function.donated().collect(),
            false => BTreeSet::new(),
        }
    }
}
