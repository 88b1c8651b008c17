//! What a variable may name: tensors that its function puts into storages, storages, and what the function was
//! given.

use super::sites::Sites;
use relax_syntax::Name;
use relax_syntax::ir::tensor::BufferId;
use relax_syntax::ir::{Atom, Module, VarId};
use std::collections::{BTreeMap, BTreeSet};

/// The places that a value may come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Points {
    /// Tensors of the function, by their index.
    pub(super) tensors: BTreeSet<usize>,
    /// Storages of the function, by their index.
    pub(super) storages: BTreeSet<usize>,
    /// Parameters of the function, by their position.
    pub(super) params: BTreeSet<usize>,
}

impl Points {
    pub(super) fn add(&mut self, other: &Points) {
        self.tensors.extend(&other.tensors);
        self.storages.extend(&other.storages);
        self.params.extend(&other.params);
    }
}

/// What each variable of a function may name.
#[derive(Clone, Debug, Default)]
pub(super) struct Named {
    vars: BTreeMap<VarId, Points>,
}

impl Named {
    pub(super) fn bind(&mut self, var: VarId, points: Points) {
        self.vars.entry(var).or_default().add(&points);
    }

    pub(super) fn var(&self, var: VarId) -> Points {
        self.vars.get(&var).cloned().unwrap_or_default()
    }

    /// Of an atom: of a tuple all of its fields.
    pub(super) fn atom(&self, atom: &Atom) -> Points {
        match atom {
            Atom::Var(var) => self.var(*var),
            Atom::Tuple(items) | Atom::List(items) => self.atoms(items),
            _ => Points::default(),
        }
    }

    pub(super) fn atoms<'a>(&self, atoms: impl IntoIterator<Item = &'a Atom>) -> Points {
        let mut points = Points::default();
        atoms.into_iter().for_each(|atom| points.add(&self.atom(atom)));
        points
    }
}

/// What is made of built-ins of memory with arguments by keyword. Passes write none: they are of a program that manages memory
/// itself, and that may trap. A certificate leaves that open, as it does with accesses of kernels that trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keywords {
    /// They are read by position.
    Read,
    /// The call is not looked into.
    Open,
}

/// What is known of the functions of a module: for each graph function the parameters that its result may name.
#[derive(Debug)]
pub(super) struct Returns<'a> {
    /// Parameters that a tensor program reads, but writes before.
    pub(super) initialized: &'a BTreeSet<(Name, BufferId)>,
    pub(super) keywords: Keywords,
    known: BTreeMap<Name, BTreeSet<usize>>,
}

impl<'a> Returns<'a> {
    /// The least sets that fit all functions: nothing else can be returned, as a result gets to its name through
    /// finitely many calls.
    pub(super) fn of(
        module: &Module,
        initialized: &'a BTreeSet<(Name, BufferId)>,
        keywords: Keywords,
    ) -> Self {
        let mut returns = Self { initialized, keywords, known: BTreeMap::new() };
        loop {
            let of = |function| Sites::of(function, module, &returns).returned;
            let next: BTreeMap<Name, BTreeSet<usize>> =
                module.functions().map(|function| (function.name.clone(), of(function))).collect();
            if next == returns.known {
                return returns;
            }
            returns.known = next;
        }
    }

    /// What a call of a function may give, of the arguments that it is given.
    pub(super) fn call(&self, function: &Name, named: &Named, args: &[Atom]) -> Points {
        let Some(known) = self.known.get(function) else { return Points::default() };
        named
            .atoms(args.iter().enumerate().filter(|(at, _)| known.contains(at)).map(|(_, arg)| arg))
    }
}
