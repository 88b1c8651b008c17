//! The order of a block whose groups of calls are calls.

use super::{Graph, Group};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// What is one binding afterwards, or some that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unit {
    Binding(usize),
    Group(usize),
}

/// Groups stand where their last calls were. What reads a result of one before that comes after it; what may stop the program
/// keeps its order.
pub(super) fn order(graph: &Graph, groups: &[Group], never_stop: &[bool]) -> Vec<Unit> {
    let count = graph.nodes.len();
    let mut of: Vec<Unit> = (0..count).map(Unit::Binding).collect();
    for (number, group) in groups.iter().enumerate() {
        group.iter().for_each(|&at| of[at] = Unit::Group(number));
    }
    let place = |unit: Unit| match unit {
        Unit::Binding(at) => at,
        Unit::Group(number) => *groups[number].last().expect("invariant: a group has two calls"),
    };
    // By the place of each unit: how many others it waits for, and which wait for it.
    let mut waits = vec![0; count];
    let mut followers: Vec<BTreeSet<Unit>> = vec![BTreeSet::new(); count];
    let mut follow = |first: Unit, then: Unit| {
        if first != then && followers[place(first)].insert(then) {
            waits[place(then)] += 1;
        }
    };
    let mut stop = None;
    for at in 0..count {
        graph.operands(at).for_each(|operand| follow(of[operand], of[at]));
        if !never_stop[at] {
            stop.into_iter().for_each(|before: usize| follow(of[before], of[at]));
            stop = Some(at);
        }
    }
    let units: BTreeSet<Unit> = of.into_iter().collect();
    let ready = units.iter().filter(|&&unit| waits[place(unit)] == 0);
    let mut ready: BinaryHeap<_> = ready.map(|&unit| Reverse((place(unit), unit))).collect();
    let mut order = Vec::with_capacity(units.len());
    while let Some(Reverse((at, unit))) = ready.pop() {
        order.push(unit);
        for &next in &followers[at] {
            waits[place(next)] -= 1;
            if waits[place(next)] == 0 {
                ready.push(Reverse((place(next), next)));
            }
        }
    }
    assert_eq!(order.len(), units.len(), "invariant: no group waits for itself");
    order
}
