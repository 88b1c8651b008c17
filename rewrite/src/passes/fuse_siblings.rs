//! Elementwise calls over the same dims that read the same tensor, or what another of them gives at the same place, become one call with
//! several results: each element is read once (BladeDISC §4.2, fusion of several outputs and of siblings).
//!
//! [`super::fuse_ops`] makes groups with one result, before. This takes what is left, as the steps of an optimizer, whose moments
//! and parameters are all results, or the branches of a gradient. What reads a result of a group comes after its last call.

use super::fuse_ops::{Graph, Group, grouped};
use crate::pass::{Device, Exactness, Pass, PassContext};
use crate::tir_call::TirCall;
use relax_semantics::check::Phase;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::ir::{Binding, Block, Module, VarId};
use relax_tir::kernel_kind::{KernelKind, Read};
use std::collections::BTreeSet;

/// The record of the pass.
pub static PASS: Pass = Pass {
    name: "fuse_siblings",
    doc: "Groups elementwise calls of tensor programs that have the same dims and read the same elements into private functions \
          with several results, marked primitive. On the processor.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

/// Results of a group, at most: each is a stream of its own to memory.
const MAX_RESULTS: usize = 8;
/// From the first call of a group to its last, at most: what is kept in memory for longer costs more than it saves.
const MAX_DISTANCE: usize = 64;
/// Elements from which on it pays to read each once.
const MANY_ELEMENTS: i64 = 1024;

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    // On a device nests of one program are launches of their own.
    if context.settings.device != Device::Cpu {
        return Ok(module.clone());
    }
    Ok(grouped(module, context, "fused", &siblings))
}

fn siblings(block: &Block, graph: &Graph, never_stop: &[bool]) -> Vec<Group> {
    let mut search =
        Search { block, graph, never_stop, of: Vec::new(), behind: Vec::new(), groups: Vec::new() };
    let mut last_stop = None;
    for (at, never_stops) in never_stop.iter().enumerate() {
        let stop = (!never_stops).then_some(at);
        search.visit(at, last_stop.filter(|_| stop.is_some()));
        last_stop = stop.or(last_stop);
    }
    let groups = search.groups.into_iter().map(|group| group.members);
    groups.filter(|members| members.len() > 1).collect()
}

/// Calls that may become one.
struct Siblings<'b> {
    members: Group,
    dims: &'b [Dim],
    /// What they read at the place that they write.
    reads: BTreeSet<VarId>,
    /// Groups of which something that they read is made.
    behind: BTreeSet<usize>,
}

struct Search<'b> {
    block: &'b Block,
    graph: &'b Graph,
    never_stop: &'b [bool],
    /// The group of each binding.
    of: Vec<Option<usize>>,
    /// For each binding the groups of which something that it reads is made.
    behind: Vec<BTreeSet<usize>>,
    groups: Vec<Siblings<'b>>,
}

impl<'b> Search<'b> {
    /// Puts a binding into a group, if it is a call that may be in one. It comes after `stop`, which may stop the program as it may.
    fn visit(&mut self, at: usize, stop: Option<usize>) {
        let before: Vec<usize> = self.graph.operands(at).chain(stop).collect();
        let all: Vec<BTreeSet<usize>> = before.iter().map(|&it| self.leads_to(it)).collect();
        let behind: BTreeSet<usize> = all.iter().flatten().copied().collect();
        let group = self.dims(at).map(|dims| {
            let joined = (0..self.groups.len()).rev().take(MAX_DISTANCE).find(|&group| {
                let other = |(&operand, leads): (&usize, &BTreeSet<usize>)| {
                    self.of[operand] != Some(group) && leads.contains(&group)
                };
                self.fits(at, dims, group) && !before.iter().zip(&all).any(other)
            });
            joined.unwrap_or_else(|| {
                let (members, reads) = (Group::new(), BTreeSet::new());
                self.groups.push(Siblings { members, dims, reads, behind: BTreeSet::new() });
                self.groups.len() - 1
            })
        });
        if let Some(group) = group {
            let joined = &mut self.groups[group];
            joined.members.insert(at);
            joined.reads.extend(self.graph.reads_in_place(at));
            joined.behind.extend(behind.iter().filter(|&&it| it != group));
        }
        self.of.push(group);
        self.behind.push(behind);
    }

    /// The dims of a call that may be in a group.
    fn dims(&self, at: usize) -> Option<&'b [Dim]> {
        let Binding { expr, .. } = &self.block.bindings[at];
        let dims = TirCall::of(expr)?.out.dims()?;
        let known = dims.iter().map(Dim::as_int).collect::<Option<Vec<i64>>>();
        let is_small = known
            .is_some_and(|known| known.into_iter().fold(1, i64::saturating_mul) < MANY_ELEMENTS);
        let is_elementwise = self.graph.pattern(at) <= KernelKind::Broadcast;
        // What nobody uses would be a result of the group all the same.
        let is_wanted = self.graph.is_used(at) && !is_small;
        (is_elementwise && self.never_stop[at] && is_wanted).then_some(dims)
    }

    /// Whether a call goes through the elements of a group, and reads some of them or what they read.
    fn fits(&self, at: usize, dims: &[Dim], group: usize) -> bool {
        let Siblings { members, dims: own, reads, .. } = &self.groups[group];
        let first = members.first().is_some_and(|&first| at - first <= MAX_DISTANCE);
        let mut inner = self.graph.operands(at).filter(|operand| members.contains(operand));
        let in_place = self.graph.reads_in_place(at);
        let made = |&member: &usize| in_place.contains(&self.block.bindings[member].var);
        first
            && members.len() < MAX_RESULTS
            && *own == dims
            && inner.all(|operand| self.graph.read(at, operand) == Some(Read::Same))
            && (!in_place.is_disjoint(reads) || members.iter().any(made))
    }

    /// The groups of which what a binding gives is made, as far as they may get more members.
    fn leads_to(&self, at: usize) -> BTreeSet<usize> {
        let mut found: BTreeSet<usize> = BTreeSet::new();
        let mut work: Vec<usize> = self.behind[at].iter().copied().chain(self.of[at]).collect();
        while let Some(group) = work.pop() {
            // What began earlier ended before any group that is open began.
            if self.distance(group) <= 2 * MAX_DISTANCE && found.insert(group) {
                work.extend(&self.groups[group].behind);
            }
        }
        found.retain(|&group| self.distance(group) <= MAX_DISTANCE);
        found
    }

    /// How far the first call of a group is behind.
    fn distance(&self, group: usize) -> usize {
        self.of.len() - self.groups[group].members.first().copied().unwrap_or(self.of.len())
    }
}
