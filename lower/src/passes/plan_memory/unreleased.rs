//! Storages that a program takes itself and never releases, in which it may have several tensors: they are released
//! after the last use of these.

use crate::memory::aliases::Aliases;
use crate::memory::timeline::{Position, Timeline};
use relax_semantics::ops::lookup;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, Function, VarId};
use relax_syntax::resolve::{atom_uses, expr_uses};
use std::collections::{BTreeMap, BTreeSet};

/// Each with the position after which nothing in it is used. Left out are `planned` ones, and what may be released or used
/// where it is not followed: under a second name, by a call that gets the storage, or by whoever gets the result.
pub(super) fn unreleased(
    function: &Function,
    planned: &BTreeSet<VarId>,
    timeline: &Timeline,
    aliases: &Aliases,
) -> Vec<(VarId, Position)> {
    let mut found =
        Found { aliases, taken: Vec::new(), tensors: BTreeMap::new(), lost: BTreeSet::new() };
    let body = function.lambda.body.as_ref().expect("invariant: it has a timeline");
    found.lost.extend(function.lambda.params.iter().map(|&param| aliases.root(param)));
    found.body(body);
    found.lose(&body.result);
    let last_uses = aliases.last_uses(timeline);
    let mut released = Vec::new();
    for &storage in found.taken.iter().filter(|storage| !planned.contains(storage)) {
        let root = aliases.root(storage);
        let inside: Vec<VarId> = found.tensors.get(&root).into_iter().flatten().copied().collect();
        let is_alone =
            found.taken.iter().filter(|&&other| aliases.root(other) == root).count() == 1;
        let mut all = inside.iter().chain([&root]);
        if !is_alone || all.any(|root| found.lost.contains(root)) {
            continue;
        }
        let last = inside.iter().chain([&root]).filter_map(|root| last_uses.get(root)).max();
        let bound = timeline.bound(storage);
        let last = last.copied().unwrap_or(bound).max(bound);
        let last = timeline.seen_from(last, timeline.scope(bound));
        released.extend(last.map(|last| (storage, last)));
    }
    released
}

struct Found<'a> {
    aliases: &'a Aliases,
    /// In the order of the text.
    taken: Vec<VarId>,
    /// For each class of storages the classes of the tensors in them.
    tensors: BTreeMap<VarId, BTreeSet<VarId>>,
    /// Classes that are released, or go where they are not followed.
    lost: BTreeSet<VarId>,
}

impl Found<'_> {
    fn body(&mut self, body: &Body) {
        for binding in body.bindings() {
            self.binding(binding);
        }
    }

    fn lose(&mut self, atom: &Atom) {
        let mut used = BTreeSet::new();
        atom_uses(atom, &mut used);
        self.lost.extend(used.into_iter().map(|var| self.aliases.root(var)));
    }

    fn binding(&mut self, binding: &Binding) {
        match &binding.expr {
            Expr::Call { callee: Callee::Operator(name), args, attrs } => {
                let name = lookup(name).map_or("", |row| row.name);
                self.operator(binding.var, name, args);
                attrs.iter().for_each(|(_, atom)| self.hand_on(atom));
            }
            Expr::Call { args, .. } => args.iter().for_each(|atom| self.hand_on(atom)),
            Expr::If { then, otherwise, .. } => {
                self.body(then);
                self.body(otherwise);
            }
            Expr::Closure(_) => {
                let mut used = BTreeSet::new();
                expr_uses(&binding.expr, &mut used);
                self.lost.extend(used.into_iter().map(|var| self.aliases.root(var)));
            }
            Expr::Atom(_) | Expr::Get(..) | Expr::MatchCast(..) => {}
        }
    }

    fn operator(&mut self, var: VarId, name: &str, args: &[Atom]) {
        match (name, args) {
            ("memory.alloc_storage", _) => self.taken.push(var),
            ("memory.alloc_tensor", [Atom::Var(storage), ..]) => {
                let (storage, tensor) = (self.aliases.root(*storage), self.aliases.root(var));
                self.tensors.entry(storage).or_default().insert(tensor);
            }
            ("memory.kill_storage" | "memory.kill_object", _) => {
                args.iter().for_each(|atom| self.lose(atom));
            }
            _ => args.iter().for_each(|atom| self.hand_on(atom)),
        }
    }

    /// A call that gets a storage may keep tensors in it.
    fn hand_on(&mut self, atom: &Atom) {
        let mut used = BTreeSet::new();
        atom_uses(atom, &mut used);
        let storages: BTreeSet<VarId> =
            self.taken.iter().map(|&taken| self.aliases.root(taken)).collect();
        let roots = used.into_iter().map(|var| self.aliases.root(var));
        self.lost.extend(roots.filter(|root| storages.contains(root)));
    }
}
