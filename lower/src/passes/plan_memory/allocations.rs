//! The tensors of a function that have a storage to themselves, as the text has them.

use crate::memory::timeline::{Position, Timeline};
use relax_semantics::ops::lookup;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, VarId};
use std::collections::{BTreeMap, BTreeSet};

/// `var = memory.alloc_tensor(storage, shape(dims), dtype)`, where nothing else mentions the storage.
pub(super) struct Allocation<'f> {
    pub(super) var: VarId,
    pub(super) storage: VarId,
    pub(super) dims: &'f [Dim],
    pub(super) dtype: DType,
}

impl Allocation<'_> {
    /// The cast that binds the last of the dims that the size mentions.
    pub(super) fn known_after(&self, timeline: &Timeline) -> Option<Position> {
        let mut names: BTreeSet<&Name> = BTreeSet::new();
        self.dims.iter().for_each(|dim| dim.visit_vars(&mut |name| _ = names.insert(name)));
        names.into_iter().filter_map(|name| timeline.dim_bound(name)).max()
    }
}

/// All of them, in the order of the text.
pub(super) fn allocations(body: &Body) -> Vec<Allocation<'_>> {
    let mut found = Found::default();
    found.body(body);
    let Found { mut allocations, uses, .. } = found;
    allocations.retain(|allocation| uses.get(&allocation.storage) == Some(&1));
    allocations
}

#[derive(Default)]
struct Found<'f> {
    allocations: Vec<Allocation<'f>>,
    /// How often each variable is mentioned.
    uses: BTreeMap<VarId, usize>,
    storages: BTreeSet<VarId>,
}

impl<'f> Found<'f> {
    fn body(&mut self, body: &'f Body) {
        for binding in body.bindings() {
            match &binding.expr {
                Expr::Atom(atom) | Expr::Get(atom, _) | Expr::MatchCast(atom, _) => {
                    self.mention(atom);
                }
                Expr::Call { args, attrs, .. } => {
                    args.iter().chain(attrs.iter().map(|(_, a)| a)).for_each(|a| self.mention(a));
                    self.call(binding);
                }
                Expr::If { condition, then, otherwise } => {
                    self.mention(condition);
                    self.body(then);
                    self.body(otherwise);
                }
                Expr::Closure(_) => {}
            }
        }
        self.mention(&body.result);
    }

    fn call(&mut self, binding: &'f Binding) {
        let Expr::Call { callee: Callee::Operator(name), args, attrs } = &binding.expr else {
            return;
        };
        match lookup(name).map(|row| row.name) {
            Some("memory.alloc_storage") => _ = self.storages.insert(binding.var),
            Some("memory.alloc_tensor") if attrs.is_empty() => {
                if let [Atom::Var(storage), Atom::Shape(dims), Atom::Str(dtype)] = args.as_slice()
                    && let Some(dtype) = DType::parse(dtype)
                    && self.storages.contains(storage)
                {
                    let (var, storage) = (binding.var, *storage);
                    self.allocations.push(Allocation { var, storage, dims, dtype });
                }
            }
            _ => {}
        }
    }

    fn mention(&mut self, atom: &Atom) {
        match atom {
            Atom::Var(var) => *self.uses.entry(*var).or_default() += 1,
            Atom::Tuple(items) | Atom::List(items) => items.iter().for_each(|a| self.mention(a)),
            _ => {}
        }
    }
}
