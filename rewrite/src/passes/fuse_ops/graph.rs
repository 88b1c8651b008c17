//! The bindings of a dataflow block as a graph: what each is, what it reads and how, and through
//! which binding everything that is made of it passes.

use super::Programs;
use crate::tir_call::TirCall;
use relax_semantics::ops::{ASYNC, lookup, passed};
use relax_syntax::ir::{Atom, Binding, Block, Callee, Expr, VarId};
use relax_syntax::resolve::expr_uses;
use relax_tir::kernel_kind::{KernelKind, Read};
use std::collections::{BTreeMap, BTreeSet};

/// Calls in one group: a bound on the size of what is made of it.
pub(super) const MAX_GROUP: usize = 128;

/// One binding.
pub(super) struct Node {
    /// Of a call of a tensor program that records one; else opaque.
    pub(super) pattern: KernelKind,
    /// The bindings that it uses; how it reads them, where that is known.
    pub(super) operands: BTreeMap<usize, Option<Read>>,
    /// The variables that it reads at the place that it writes, each everywhere.
    same: BTreeSet<VarId>,
    /// The bindings that use it.
    pub(super) users: BTreeSet<usize>,
    /// Whether it is seen after the block.
    pub(super) seen_after: bool,
}

/// A block; nodes are in the order of its bindings.
pub(in crate::passes) struct Graph {
    pub(super) nodes: Vec<Node>,
    /// For each node the first that every way from it leads through; none where some way ends.
    passes: Vec<Option<usize>>,
    /// Calls that the program goes on after, each with what waits for its result.
    awaited: Vec<(usize, BTreeSet<usize>)>,
}

impl Graph {
    pub(super) fn of(block: &Block, outputs: &[VarId], programs: &Programs) -> Self {
        let mut places = BTreeMap::new();
        let mut nodes: Vec<Node> = Vec::with_capacity(block.bindings.len());
        for (at, binding) in block.bindings.iter().enumerate() {
            let node = node(binding, outputs, &places, programs);
            for &operand in node.operands.keys() {
                nodes[operand].users.insert(at);
            }
            nodes.push(node);
            places.insert(binding.var, at);
        }
        let passes = post_dominators(&nodes);
        let posted = |at: &usize| is_posted(&block.bindings[*at].expr);
        let awaited = (0..nodes.len()).filter(posted);
        let awaited = awaited.map(|at| (at, reached(&nodes, at))).collect();
        Self { nodes, passes, awaited }
    }

    /// Whether no member of a group waits for the result of a call that it runs beside without the group.
    pub(in crate::passes) fn keeps_overlap(&self, group: &BTreeSet<usize>) -> bool {
        self.awaited.iter().all(|(call, waiting)| {
            let beside = group.range(call + 1..).any(|at| !waiting.contains(at));
            !(beside && group.iter().any(|at| waiting.contains(at)))
        })
    }

    /// The bindings that one uses, in order.
    pub(in crate::passes) fn operands(&self, at: usize) -> impl Iterator<Item = usize> {
        self.nodes[at].operands.keys().copied()
    }

    /// What a binding is, if it is a call that records it.
    pub(in crate::passes) fn pattern(&self, at: usize) -> KernelKind {
        self.nodes[at].pattern
    }

    /// How a call reads what another binding gives, where that is known.
    pub(in crate::passes) fn read(&self, at: usize, operand: usize) -> Option<Read> {
        self.nodes[at].operands.get(&operand).copied().flatten()
    }

    /// The variables that a call reads at the place that it writes, and nowhere else.
    pub(in crate::passes) fn reads_in_place(&self, at: usize) -> &BTreeSet<VarId> {
        &self.nodes[at].same
    }

    /// Whether anything uses a binding.
    pub(in crate::passes) fn is_used(&self, at: usize) -> bool {
        self.nodes[at].seen_after || !self.nodes[at].users.is_empty()
    }

    /// Whether only members of a group use a binding.
    pub(in crate::passes) fn is_used_within(&self, at: usize, group: &BTreeSet<usize>) -> bool {
        !self.nodes[at].seen_after && self.nodes[at].users.is_subset(group)
    }

    /// The nodes on all ways from `from` to the first that they all lead through, both included; none
    /// when there are more than a group may have.
    pub(super) fn ways(&self, from: usize) -> Option<BTreeSet<usize>> {
        let to = self.passes[from]?;
        let mut found = BTreeSet::from([to]);
        let mut work = vec![from];
        while let Some(at) = work.pop() {
            if found.insert(at) {
                work.extend(&self.nodes[at].users);
            }
            if found.len() > MAX_GROUP {
                return None;
            }
        }
        Some(found)
    }
}

fn node(
    binding: &Binding,
    outputs: &[VarId],
    places: &BTreeMap<VarId, usize>,
    programs: &Programs,
) -> Node {
    let mut used = BTreeSet::new();
    expr_uses(&binding.expr, &mut used);
    let call = TirCall::of(&binding.expr);
    let known = call.as_ref().and_then(|call| programs.get(call.program));
    let pattern = known.and_then(|known| KernelKind::recorded(known.program));
    let mut operands: BTreeMap<usize, Option<Read>> =
        used.iter().filter_map(|var| Some((*places.get(var)?, None))).collect();
    let mut same = BTreeSet::new();
    if let (Some(call), Some(known)) = (&call, known) {
        let buffers = known.program.buffer_params();
        let mut reads: BTreeMap<VarId, Vec<Option<Read>>> = BTreeMap::new();
        for (arg, buffer) in call.args.iter().zip(buffers) {
            let Atom::Var(var) = arg else { continue };
            reads.entry(*var).or_default().push(known.analysis.reads.get(&buffer).copied());
        }
        for (var, reads) in reads {
            // Unknown once is unknown.
            let worst = reads.into_iter().collect::<Option<Vec<_>>>();
            let worst = worst.and_then(|reads| reads.into_iter().max());
            if worst == Some(Read::Same) {
                same.insert(var);
            }
            if let Some(&place) = places.get(&var) {
                operands.insert(place, worst);
            }
        }
    }
    Node {
        pattern: pattern.unwrap_or(KernelKind::Opaque),
        operands,
        same,
        users: BTreeSet::new(),
        seen_after: outputs.contains(&binding.var),
    }
}

/// Whether a call runs beside what follows it, until its result is used.
fn is_posted(expr: &Expr) -> bool {
    let Expr::Call { callee: Callee::Operator(name), args, attrs } = expr else { return false };
    let Some(row) = lookup(name) else { return false };
    let mode = row.params.iter().position(|param| param.name == ASYNC);
    let passed = mode.and_then(|at| passed(row, args, attrs).ok()?.get(at).copied().flatten());
    passed == Some(&Atom::Bool(true))
}

/// What uses a node, or something that uses it.
fn reached(nodes: &[Node], from: usize) -> BTreeSet<usize> {
    let (mut found, mut work) = (BTreeSet::new(), vec![from]);
    while let Some(at) = work.pop() {
        work.extend(nodes[at].users.iter().filter(|user| found.insert(**user)));
    }
    found
}

/// Backwards: what all users lead through. Users come after what they use.
fn post_dominators(nodes: &[Node]) -> Vec<Option<usize>> {
    let mut passes: Vec<Option<usize>> = vec![None; nodes.len()];
    for at in (0..nodes.len()).rev() {
        let node = &nodes[at];
        let mut users = node.users.iter().copied();
        let Some(first) = users.next().filter(|_| !node.seen_after) else { continue };
        passes[at] = users.try_fold(first, |a, b| meet(&passes, a, b));
    }
    passes
}

/// The first that the ways from both lead through.
fn meet(passes: &[Option<usize>], a: usize, b: usize) -> Option<usize> {
    let (mut a, mut b) = (a, b);
    while a != b {
        if a < b {
            a = passes[a]?;
        } else {
            b = passes[b]?;
        }
    }
    Some(a)
}
