//! Which calls of a block become one. First what sums products takes in what follows it element by
//! element, then everything that only moves and maps elements joins what reads it.
//!
//! A group gives one value, that of its last call: it is made of a call, of the first through which all ways from
//! there lead, and of all on these ways, so that nothing outside uses any but the last.

use super::graph::{Graph, MAX_GROUP};
use relax_tir::kernel_kind::{KernelKind, Read};
use std::collections::BTreeSet;

/// Some calls of a block.
pub(in crate::passes) type Group = BTreeSet<usize>;

/// The groups of two calls and more, disjoint. `never_stop` says of each binding whether it cannot
/// stop the program.
pub(super) fn groups(graph: &Graph, never_stop: &[bool]) -> Vec<Group> {
    let sums = |at: usize| graph.nodes[at].pattern == KernelKind::OutputEwiseFusible;
    let maps = |at: usize| graph.nodes[at].pattern <= KernelKind::Injective;
    joined(graph, never_stop, &[&sums, &maps], &|group| {
        patterns_fit(graph, group) && graph.keeps_overlap(group)
    })
}

/// Groups that are made of each call that one `round` after the other wants and all on the ways to the first through which
/// those lead, with the groups that they are in already, where these fit.
pub(in crate::passes) fn joined(
    graph: &Graph,
    never_stop: &[bool],
    rounds: &[&dyn Fn(usize) -> bool],
    fit: &dyn Fn(&Group) -> bool,
) -> Vec<Group> {
    let count = graph.nodes.len();
    let mut of: Vec<usize> = (0..count).collect();
    let mut members: Vec<Group> = (0..count).map(|at| Group::from([at])).collect();
    for wanted in rounds {
        for at in (0..count).filter(|&at| wanted(at)) {
            let Some(ways) = graph.ways(at) else { continue };
            let joined: BTreeSet<usize> = ways.iter().map(|&at| of[at]).collect();
            let all: Group = joined.iter().flat_map(|&group| &members[group]).copied().collect();
            if joined.len() < 2 || !may_be_one(never_stop, &all, fit) {
                continue;
            }
            for group in joined {
                members[group].clear();
            }
            all.iter().for_each(|&member| of[member] = at);
            members[at] = all;
        }
    }
    members.retain(|group| group.len() > 1);
    members
}

/// Whether a group is small enough, fits, and keeps the order of what could stop the program.
pub(in crate::passes) fn may_be_one(
    never_stop: &[bool],
    group: &Group,
    fit: &dyn Fn(&Group) -> bool,
) -> bool {
    group.len() <= MAX_GROUP && fit(group) && keeps_order_of_stops(never_stop, group)
}

/// At most one call combines elements; what follows it stays at its elements or spreads them, and
/// follows sums of products only.
fn patterns_fit(graph: &Graph, group: &Group) -> bool {
    let mut combining: Option<KernelKind> = None;
    let mut after = BTreeSet::new();
    for &at in group {
        let node = &graph.nodes[at];
        if node.pattern == KernelKind::Opaque {
            return false;
        }
        for (operand, read) in node.operands.iter().filter(|(operand, _)| group.contains(operand)) {
            let Some(read) = *read else { return false };
            if !after.contains(operand) {
                continue;
            }
            if combining != Some(KernelKind::OutputEwiseFusible)
                || node.pattern > KernelKind::Broadcast
                || read > Read::Part
            {
                return false;
            }
            after.insert(at);
        }
        if node.pattern >= KernelKind::Reduction {
            if combining.is_some() {
                return false;
            }
            combining = Some(node.pattern);
            after.insert(at);
        }
    }
    true
}

/// The group is called where its last call stood: nothing that can stop the program moves behind
/// another such binding.
fn keeps_order_of_stops(never_stop: &[bool], group: &Group) -> bool {
    let Some((&first, &last)) = group.first().zip(group.last()) else { return false };
    let mut stops_before = false;
    (first..=last).all(|at| {
        let stops = !never_stop[at];
        if group.contains(&at) {
            stops_before |= stops;
            return true;
        }
        !(stops && stops_before)
    })
}
