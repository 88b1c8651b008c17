//! The ways through the bindings so far, and which of them are followed.

use crate::layout::Layout;
use crate::steps::Steps;
use relax_syntax::ir::VarId;
use std::collections::{BTreeMap, BTreeSet};

/// States that are kept after a binding.
const BEAM: usize = 64;

/// A way through the bindings so far.
#[derive(Clone, Default)]
pub(crate) struct State {
    pub(crate) have: BTreeMap<VarId, Vec<Layout>>,
    pub(crate) steps: Steps,
    pub(crate) bytes: i128,
    /// Elements that ranks compute together.
    pub(crate) work: i128,
    /// Values that ranks have whole and that were cut.
    pub(crate) cuts: usize,
}

impl State {
    /// What is compared of two states, the worst first.
    pub(crate) fn cost(&self) -> (i128, i128) {
        (self.bytes, self.work)
    }
}

/// Bytes that are moved from one layout of a value to another one; `None` where there is no way.
type Between<'a> = dyn Fn(VarId, &Layout, &Layout) -> Option<i128> + 'a;

/// Keeps the cheapest of the states that have the same layouts, and few of those; whether others were left out.
///
/// Half of them have moved the fewest bytes. What every rank has whole can be cut for nothing at any time, so a state that cuts early
/// computes less and moves no more, but may have to gather later. The other half would have moved the fewest bytes if all had the
/// layouts of the state that cuts least.
pub(crate) fn best(states: &mut Vec<State>, between: &Between) -> bool {
    states.sort_by_key(State::cost);
    let mut seen: BTreeSet<BTreeMap<VarId, Vec<Layout>>> = BTreeSet::new();
    states.retain(|state| seen.insert(state.have.clone()));
    if states.len() <= BEAM {
        return false;
    }
    let wanted = states.iter().min_by_key(|state| (state.cuts, state.cost()));
    let wanted = wanted.map(|state| state.have.clone()).unwrap_or_default();
    let mut others = states.split_off(BEAM / 2);
    let mut known = BTreeMap::new();
    let mut there = |state: &State| {
        let each = state.have.iter().map(|(var, layouts)| {
            let Some(to) = wanted.get(var).and_then(|layouts| layouts.first()) else { return 0 };
            let of_layout = |from: &Layout| {
                let cost = || between(*var, from, to);
                *known.entry((*var, from.clone())).or_insert_with(cost)
            };
            layouts.iter().filter_map(of_layout).min().unwrap_or(state.bytes)
        });
        each.fold(state.bytes, i128::saturating_add)
    };
    others.sort_by_cached_key(|state| (there(state), state.cost()));
    others.truncate(BEAM - states.len());
    states.extend(others);
    true
}
