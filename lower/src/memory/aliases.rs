//! Which variables of a function may name the same memory.
//!
//! A variable names what its right-hand side names: of a tuple all of its fields, of an `if` the
//! values of both branches, of a view the tensor. A call of a graph function may give back any of its
//! arguments that it does not keep for itself; tensor programs and library functions give new memory.

use crate::memory::apart::gives_apart;
use crate::memory::timeline::{Position, Timeline};
use relax_semantics::ops::{Family, called_by_name, lookup};
use relax_syntax::Name;
use relax_syntax::ir::{Atom, Body, Callee, Expr, Function, Module, VarId};
use relax_syntax::resolve::{atom_uses, expr_uses};
use std::collections::{BTreeMap, BTreeSet};

/// Classes of variables: union-find with the smallest as the root.
#[derive(Clone, Debug)]
pub(crate) struct Aliases {
    parent: Vec<u32>,
}

/// For each graph function the parameters that its result may name.
#[derive(Debug, Default)]
pub(crate) struct Returns {
    known: BTreeMap<Name, Vec<bool>>,
    /// Functions whose results are tensors in new memory, no two of them the same.
    apart: BTreeSet<Name>,
}

/// Rounds in which what functions return is made more precise; it is right after every one.
const ROUNDS: usize = 3;

impl Returns {
    /// Finds them: at first every function may return all of its arguments, then what was found of
    /// callees makes callers more precise.
    pub(crate) fn of(module: &Module) -> Self {
        let mut returns = Self::default();
        for _ in 0..ROUNDS {
            let (mut next, mut apart) = (BTreeMap::new(), BTreeSet::new());
            for function in module.functions() {
                let aliases = Aliases::of(function, module, &returns);
                let result = function.lambda.body.as_ref().map(|body| aliases.roots(&body.result));
                let is_returned = |&param: &VarId| {
                    result.as_ref().is_none_or(|roots| roots.contains(&aliases.root(param)))
                };
                let returned = function.lambda.params.iter().map(is_returned).collect();
                next.insert(function.name.clone(), returned);
                if gives_apart(module, function, &aliases, &returns.apart) {
                    apart.insert(function.name.clone());
                }
            }
            let settled = next == returns.known && apart == returns.apart;
            (returns.known, returns.apart) = (next, apart);
            if settled {
                break;
            }
        }
        returns
    }

    /// Whether what a call of a function gives is a new tensor, or a tuple of such, no two of them the
    /// same.
    pub(crate) fn gives_apart(&self, function: &Function) -> bool {
        self.apart.contains(&function.name)
    }

    fn may_return(&self, function: &Name, index: usize) -> bool {
        self.known.get(function).and_then(|params| params.get(index)).copied().unwrap_or(true)
    }
}

impl Aliases {
    /// Of a function of a module.
    pub(crate) fn of(function: &Function, module: &Module, returns: &Returns) -> Self {
        let variables = u32::try_from(function.vars.len()).expect("invariant: ids are u32");
        let mut aliases = Self { parent: (0..variables).collect() };
        if let Some(body) = &function.lambda.body {
            aliases.body(body, module, returns);
        }
        aliases
    }

    fn body(&mut self, body: &Body, module: &Module, returns: &Returns) {
        for binding in body.bindings() {
            let var = binding.var;
            match &binding.expr {
                Expr::Atom(atom) | Expr::Get(atom, _) | Expr::MatchCast(atom, _) => {
                    self.join(var, atom);
                }
                Expr::Call { callee, args, .. } => match callee {
                    Callee::Operator(name) if keeps(name, args) => {
                        args.iter().for_each(|arg| self.join(var, arg));
                    }
                    Callee::Operator(_) => {}
                    Callee::Global(name) if module.tensor_program(name).is_some() => {}
                    Callee::Global(name) => {
                        let kept = args.iter().enumerate();
                        kept.filter(|(index, _)| returns.may_return(name, *index))
                            .for_each(|(_, arg)| self.join(var, arg));
                    }
                    Callee::Var(function) => {
                        self.unite(var, *function);
                        args.iter().for_each(|arg| self.join(var, arg));
                    }
                },
                Expr::If { then, otherwise, .. } => {
                    for branch in [then, otherwise] {
                        self.body(branch, module, returns);
                        self.join(var, &branch.result);
                    }
                }
                Expr::Closure(lambda) => {
                    let mut used = BTreeSet::new();
                    expr_uses(&binding.expr, &mut used);
                    used.into_iter().for_each(|captured| self.unite(var, captured));
                    lambda.body.iter().for_each(|body| self.body(body, module, returns));
                }
            }
        }
    }

    fn join(&mut self, var: VarId, atom: &Atom) {
        match atom {
            Atom::Var(other) => self.unite(var, *other),
            Atom::Tuple(items) | Atom::List(items) => {
                items.iter().for_each(|item| self.join(var, item));
            }
            _ => {}
        }
    }

    fn unite(&mut self, a: VarId, b: VarId) {
        let (a, b) = (self.find(a.0), self.find(b.0));
        self.parent[a.max(b) as usize] = a.min(b);
    }

    /// With the path made half as long on the way.
    fn find(&mut self, mut at: u32) -> u32 {
        while self.parent[at as usize] != at {
            let next = self.parent[self.parent[at as usize] as usize];
            self.parent[at as usize] = next;
            at = next;
        }
        at
    }

    /// What stands for the class of a variable.
    pub(crate) fn root(&self, var: VarId) -> VarId {
        let mut at = var.0;
        while self.parent[at as usize] != at {
            at = self.parent[at as usize];
        }
        VarId(at)
    }

    /// The last mention of each class, by what stands for it.
    pub(crate) fn last_uses(&self, timeline: &Timeline) -> BTreeMap<VarId, Position> {
        let mut last_uses: BTreeMap<VarId, Position> = BTreeMap::new();
        for index in 0..self.parent.len() {
            let var = VarId(u32::try_from(index).expect("invariant: ids are u32"));
            let last = last_uses.entry(self.root(var)).or_default();
            *last = (*last).max(timeline.last_use(var));
        }
        last_uses
    }

    /// The classes of the variables in an atom.
    pub(crate) fn roots(&self, atom: &Atom) -> BTreeSet<VarId> {
        let mut used = BTreeSet::new();
        atom_uses(atom, &mut used);
        used.into_iter().map(|var| self.root(var)).collect()
    }
}

/// Whether the value of a built-in may name the memory of its arguments: views, closures and calls
/// of functions. Library functions and operators of the table give new memory.
pub(crate) fn keeps(name: &Name, args: &[Atom]) -> bool {
    let Some(row) = lookup(name) else { return true };
    let is_library = called_by_name(row, args.first()).is_some();
    let gives_new = matches!(
        row.name,
        "memory.alloc_storage"
            | "memory.alloc_tensor"
            | "call_tir"
            | "call_tir_inplace"
            | "call_dps_library"
            | "call_packed"
            | "call_pure_packed"
            | "builtin.read_shape"
    );
    let concerns_memory = matches!(row.family, Family::Memory | Family::Builtins | Family::Calls);
    concerns_memory && !is_library && !gives_new
}
