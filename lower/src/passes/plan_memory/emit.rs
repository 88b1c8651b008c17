//! The text of a plan: storages where they are taken, tensors in them, releases.

use super::Sizes;
use super::given::Given;
use super::groups::Alone;
use super::storages::{Plan, Storage};
use crate::fresh::{Fresh, built_in};
use crate::memory::timeline::{Position, Timeline};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::ir::{Atom, Binding, Block, BlockKind, Body, Expr, Function, VarId};
use relax_syntax::span::Span;
use std::collections::{BTreeMap, BTreeSet};

/// What was found of the memory of a function.
pub(super) struct Found<'a> {
    pub(super) plans: &'a [Plan],
    pub(super) alone: &'a [Alone],
    pub(super) given: &'a [Given],
    /// Storages of the program that it never releases, and where they are released.
    pub(super) left: &'a [(VarId, Position)],
    /// The positions of calls of functions.
    pub(super) calls: &'a [Position],
    pub(super) sizes: Sizes,
}

/// Rewrites a function to its plans.
pub(super) fn rebuild(function: &mut Function, fresh: Fresh, timeline: &Timeline, found: &Found) {
    let Found { plans, alone, given, left, calls, sizes } = *found;
    let mut emit = Emit {
        fresh,
        timeline,
        span: function.span,
        begin: Vec::new(),
        sizes,
        calls,
        before: BTreeMap::new(),
        after: BTreeMap::new(),
        old: BTreeSet::new(),
        places: BTreeMap::new(),
    };
    let storages: Vec<Vec<VarId>> = plans.iter().map(|plan| emit.take(plan)).collect();
    // Tensors are released before their storages.
    for (plan, storages) in plans.iter().zip(&storages) {
        emit.tensors(plan, storages);
    }
    for tensor in alone {
        emit.release("memory.kill_tensor", tensor.var, tensor.dies);
        emit.release("memory.kill_storage", tensor.storage, tensor.dies);
    }
    for &(var, last) in given {
        emit.release("memory.kill_object", var, Some(last));
    }
    for (plan, storages) in plans.iter().zip(&storages) {
        for (storage, &var) in plan.storages.iter().zip(storages) {
            emit.release("memory.kill_storage", var, storage.dies);
        }
    }
    for &(storage, last) in left {
        emit.release("memory.kill_storage", storage, Some(last));
    }
    let body = function.lambda.body.as_mut().expect("invariant: it has a timeline");
    emit.body(body);
    emit.begin(body);
    function.vars = emit.fresh.vars;
}

struct Emit<'t> {
    fresh: Fresh,
    timeline: &'t Timeline,
    span: Span,
    /// Bindings where the function begins.
    begin: Vec<Binding>,
    sizes: Sizes,
    /// The positions of calls of functions.
    calls: &'t [Position],
    /// Bindings that stand before those of these variables.
    before: BTreeMap<VarId, Vec<Binding>>,
    /// Bindings that follow those of these variables.
    after: BTreeMap<VarId, Vec<Binding>>,
    /// Storages that are replaced.
    old: BTreeSet<VarId>,
    /// The storage and the offset of each planned tensor.
    places: BTreeMap<VarId, (VarId, Dim)>,
}

impl Emit<'_> {
    fn take(&mut self, plan: &Plan) -> Vec<VarId> {
        let mut vars = Vec::with_capacity(plan.storages.len());
        for storage in &plan.storages {
            let var = self.fresh.var("storage", None, self.span);
            let (size, dtype) = (Atom::Shape(vec![storage.bytes.clone()]), Name::new("u8"));
            let taken = built_in(var, "memory.alloc_storage", vec![size, Atom::Str(dtype)]);
            let place = plan.after.and_then(|position| self.timeline.binding_at(position));
            let waits = self.sizes == Sizes::Exact && self.calls_before(plan, storage);
            let first = self.timeline.binding_at(storage.born).filter(|_| waits);
            match (first, place) {
                (Some(first), _) => self.before.entry(first).or_default().push(taken),
                (None, Some(binding)) => self.after.entry(binding).or_default().push(taken),
                (None, None) => self.begin.push(taken),
            }
            vars.push(var);
        }
        vars
    }

    /// Whether functions with memory of their own are called between the place where memory may be taken and
    /// the first tensor in it.
    fn calls_before(&self, plan: &Plan, storage: &Storage) -> bool {
        let from = plan.after.unwrap_or(0);
        let next = self.calls.partition_point(|&call| call < from);
        self.calls.get(next).is_some_and(|&call| call < storage.born)
    }

    fn tensors(&mut self, plan: &Plan, storages: &[VarId]) {
        for tensor in &plan.tensors {
            self.old.insert(tensor.old);
            let place = (storages[tensor.storage], tensor.offset.clone());
            self.places.insert(tensor.var, place);
            self.release("memory.kill_tensor", tensor.var, tensor.dies);
        }
    }

    fn release(&mut self, name: &str, var: VarId, dies: Option<Position>) {
        let Some(binding) = dies.and_then(|position| self.timeline.binding_at(position)) else {
            return;
        };
        let unit = self.fresh.unit(self.span);
        let released = built_in(unit, name, vec![Atom::Var(var)]);
        self.after.entry(binding).or_default().push(released);
    }

    fn body(&mut self, body: &mut Body) {
        for block in &mut body.blocks {
            let mut bindings = Vec::with_capacity(block.bindings.len() * 2);
            for mut binding in std::mem::take(&mut block.bindings) {
                bindings.extend(self.before.remove(&binding.var).unwrap_or_default());
                if self.old.contains(&binding.var) {
                    continue;
                }
                if let Expr::If { then, otherwise, .. } = &mut binding.expr {
                    self.body(then);
                    self.body(otherwise);
                }
                let var = binding.var;
                self.place(&mut binding);
                bindings.push(binding);
                bindings.extend(self.after.remove(&var).unwrap_or_default());
            }
            block.bindings = bindings;
        }
    }

    fn place(&mut self, binding: &mut Binding) {
        if let Some((storage, offset)) = self.places.remove(&binding.var)
            && let Expr::Call { args, .. } = &mut binding.expr
        {
            args[0] = Atom::Var(storage);
            if offset != Dim::Int(0) {
                args.push(Atom::Dim(offset));
            }
        }
    }

    fn begin(&mut self, body: &mut Body) {
        let begin = std::mem::take(&mut self.begin);
        if begin.is_empty() {
            return;
        }
        match body.blocks.first_mut() {
            Some(first) => {
                first.bindings.splice(0..0, begin);
            }
            None => body.blocks.push(Block { kind: BlockKind::Plain, bindings: begin }),
        }
    }
}
