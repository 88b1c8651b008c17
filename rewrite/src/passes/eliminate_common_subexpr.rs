//! A pure call that is made twice with the same operands becomes another name of the first result.
//!
//! Dims count as the same when their canonical forms are equal. The second call could still stop
//! where the first does not, when its dims are written so that a step leaves i64: then it stays.

use super::map_functions;
use crate::blocks::export_used;
use crate::dims::{atom_dims, say_the_same};
use crate::in_place::{mentions, updated_in_place};
use crate::pass::{Exactness, Pass, PassContext};
use crate::substitute::map_dims;
use relax_semantics::check::Phase;
use relax_semantics::ops::{Effect, Family, lookup};
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::dim::evaluation::evaluates_when_it_fits;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, Function, Module, VarId};
use relax_syntax::resolve::expr_uses;
use std::collections::{BTreeMap, BTreeSet};

/// The record.
pub static PASS: Pass = Pass {
    name: "eliminate_common_subexpr",
    doc: "Turns a pure call with the operands of an earlier one into another name of its result.",
    from: Phase::P0,
    to: Phase::P1,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut merged = 0;
    let result = map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        let updated = updated_in_place(module, function);
        let available = Available { known: BTreeMap::new(), log: Vec::new() };
        let first = BTreeMap::new();
        let mut walk = Walk { module, function, context, updated, available, first };
        let body = rebuilt.lambda.body.as_mut().expect("invariant: only such are mapped");
        walk.body(body);
        merged += walk.first.len();
        // The first result of a call may have been hidden in the dataflow block that made it.
        export_used(body);
        rebuilt
    });
    context.count("merged", merged, "calls");
    Ok(result)
}

/// Narrows the search: what is called, and the variables among the operands.
type Key = (Name, BTreeSet<VarId>);

/// A call whose result has a name here.
struct Known {
    /// As written.
    written: Expr,
    /// With dims in canonical form.
    canonical: Expr,
    var: VarId,
}

/// Calls that have been made on the way here.
struct Available {
    known: BTreeMap<Key, Vec<Known>>,
    /// The keys of `known`, in order of insertion.
    log: Vec<Key>,
}

impl Available {
    fn insert(&mut self, key: Key, known: Known) {
        self.log.push(key.clone());
        self.known.entry(key).or_default().push(known);
    }

    /// Forgets what was inserted since the log had `length` entries.
    fn forget(&mut self, length: usize) {
        for key in self.log.split_off(length) {
            if let Some(known) = self.known.get_mut(&key) {
                known.pop();
            }
        }
    }
}

struct Walk<'a, 'c> {
    module: &'a Module,
    function: &'a Function,
    context: &'a mut PassContext<'c>,
    updated: BTreeSet<VarId>,
    available: Available,
    /// For each variable that was merged, the one in its place.
    first: BTreeMap<VarId, VarId>,
}

impl Walk<'_, '_> {
    fn body(&mut self, body: &mut Body) {
        for block in &mut body.blocks {
            for binding in &mut block.bindings {
                self.binding(binding);
            }
        }
    }

    fn branch(&mut self, body: &mut Body) {
        let before = self.available.log.len();
        self.body(body);
        self.available.forget(before);
    }

    fn binding(&mut self, binding: &mut Binding) {
        if let Expr::If { then, otherwise, .. } = &mut binding.expr {
            self.branch(then);
            self.branch(otherwise);
            return;
        }
        let Some(name) = self.candidate(binding) else { return };
        let written = self.through_first(&binding.expr);
        let mut used = BTreeSet::new();
        expr_uses(&written, &mut used);
        let key = (name, used);
        let canonical = self.canonical(&written);
        match self.earlier(&key, &canonical, &written, binding.var) {
            Some(var) => {
                binding.expr = Expr::Atom(Atom::Var(var));
                self.first.insert(binding.var, var);
            }
            None => {
                let var = binding.var;
                self.available.insert(key, Known { written, canonical, var });
            }
        }
    }

    /// What is called, where making the call once is as good as making it twice.
    fn candidate(&self, binding: &Binding) -> Option<Name> {
        let is_named = self.function.var(binding.var).name != "_";
        let changes = |atom: &Atom| mentions(atom, &self.updated);
        if !is_named || self.updated.contains(&binding.var) {
            return None;
        }
        match &binding.expr {
            Expr::Call { callee, args, attrs } => {
                let changed = args.iter().any(changes) || attrs.iter().any(|(_, a)| changes(a));
                let pure = match callee {
                    Callee::Operator(name) => lookup(name).is_some_and(|row| {
                        row.effect == Effect::Pure && row.family != Family::Memory
                    }),
                    Callee::Global(name) => {
                        self.module.function(name).is_some()
                            && !self.context.checked.impure.contains(name)
                    }
                    Callee::Var(_) => false,
                };
                let name = match callee {
                    Callee::Operator(name) | Callee::Global(name) => name.clone(),
                    Callee::Var(_) => return None,
                };
                (pure && !changed).then_some(name)
            }
            Expr::Get(atom, _) if !changes(atom) => Some(Name::new("[]")),
            Expr::Atom(Atom::External(external)) => Some(external.name.clone()),
            Expr::Atom(atom @ (Atom::Tuple(_) | Atom::Shape(_))) if !changes(atom) => {
                Some(Name::new("()"))
            }
            _ => None,
        }
    }

    /// With the first of equal values as operands.
    fn through_first(&self, expr: &Expr) -> Expr {
        fn rename(atom: &mut Atom, first: &BTreeMap<VarId, VarId>) {
            match atom {
                Atom::Var(var) => *var = *first.get(var).unwrap_or(var),
                Atom::Tuple(items) | Atom::List(items) => {
                    items.iter_mut().for_each(|item| rename(item, first));
                }
                _ => {}
            }
        }
        let mut expr = expr.clone();
        operands_mut(&mut expr).into_iter().for_each(|atom| rename(atom, &self.first));
        expr
    }

    fn canonical(&mut self, expr: &Expr) -> Expr {
        let mut expr = expr.clone();
        for atom in operands_mut(&mut expr) {
            map_dims(atom, &mut |dim| self.context.facts.simplify(dim));
        }
        expr
    }

    /// The variable of an earlier call that gives the same and that says the same.
    fn earlier(
        &mut self,
        key: &Key,
        canonical: &Expr,
        written: &Expr,
        var: VarId,
    ) -> Option<VarId> {
        let annotations = &self.context.checked.annotations[&self.function.name];
        let facts = &mut *self.context.facts;
        let found = self.available.known.get(key)?.iter().find(|known| {
            same_expr(&known.canonical, canonical)
                && (same_expr(&known.written, written) || dims_evaluate(written))
                && say_the_same(
                    facts,
                    &annotations[known.var.0 as usize],
                    &annotations[var.0 as usize],
                )
        });
        found.map(|known| known.var)
    }
}

fn operands(expr: &Expr) -> Vec<&Atom> {
    match expr {
        Expr::Call { args, attrs, .. } => {
            args.iter().chain(attrs.iter().map(|(_, atom)| atom)).collect()
        }
        Expr::Atom(atom) | Expr::Get(atom, _) => vec![atom],
        Expr::MatchCast(..) | Expr::If { .. } | Expr::Closure(_) => Vec::new(),
    }
}

fn operands_mut(expr: &mut Expr) -> Vec<&mut Atom> {
    match expr {
        Expr::Call { args, attrs, .. } => {
            args.iter_mut().chain(attrs.iter_mut().map(|(_, atom)| atom)).collect()
        }
        Expr::Atom(atom) | Expr::Get(atom, _) => vec![atom],
        Expr::MatchCast(..) | Expr::If { .. } | Expr::Closure(_) => Vec::new(),
    }
}

/// Whether every dim evaluates, given that one of the same value has.
fn dims_evaluate(expr: &Expr) -> bool {
    let mut all = true;
    for atom in operands(expr) {
        atom_dims(atom, &mut |dim: &Dim| all &= evaluates_when_it_fits(dim));
    }
    all
}

/// Equality that tells floats apart by their bits.
fn same_expr(a: &Expr, b: &Expr) -> bool {
    let floats = |expr: &Expr| -> Vec<u64> {
        let mut bits = Vec::new();
        operands(expr).into_iter().for_each(|atom| float_bits(atom, &mut bits));
        bits
    };
    a == b && floats(a) == floats(b)
}

fn float_bits(atom: &Atom, bits: &mut Vec<u64>) {
    match atom {
        Atom::Float(value) => bits.push(value.to_bits()),
        Atom::Tuple(items) | Atom::List(items) => {
            items.iter().for_each(|item| float_bits(item, bits));
        }
        _ => {}
    }
}
