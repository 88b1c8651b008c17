//! The tensors of a function that have a storage to themselves, as the text has them. What a program
//! releases itself, or takes in another size than it uses, is its own business.

use crate::memory::aliases::Aliases;
use crate::memory::timeline::{Position, Timeline};
use relax_semantics::ops::lookup;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, VarId};
use relax_syntax::resolve::atom_uses;
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
pub(super) fn allocations<'f>(body: &'f Body, aliases: &Aliases) -> Vec<Allocation<'f>> {
    let mut found = Found::default();
    found.body(body);
    let Found { mut allocations, uses, released, .. } = found;
    let released: BTreeSet<VarId> = released.into_iter().map(|var| aliases.root(var)).collect();
    allocations.retain(|allocation| {
        uses.get(&allocation.storage) == Some(&1)
            && !released.contains(&aliases.root(allocation.var))
    });
    allocations
}

#[derive(Default)]
struct Found<'f> {
    allocations: Vec<Allocation<'f>>,
    /// How often each variable is mentioned.
    uses: BTreeMap<VarId, usize>,
    /// The sizes of storages, as they are written.
    storages: BTreeMap<VarId, &'f [Atom]>,
    /// Tensors that are released by their names.
    released: BTreeSet<VarId>,
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
            Some("memory.alloc_storage") if attrs.is_empty() => {
                self.storages.insert(binding.var, args);
            }
            Some("memory.kill_tensor" | "memory.kill_object") => {
                let given = args.iter().chain(attrs.iter().map(|(_, atom)| atom));
                given.for_each(|atom| atom_uses(atom, &mut self.released));
            }
            Some("memory.alloc_tensor") if attrs.is_empty() => {
                if let [Atom::Var(storage), Atom::Shape(dims), Atom::Str(dtype)] = args.as_slice()
                    && let Some(dtype) = DType::parse(dtype)
                    && self.storages.get(storage).is_some_and(|size| **size == args[1..])
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
