//! The ways through the bindings so far, and which of them are followed.

use crate::layout::Layout;
use crate::propagate::Step;
use relax_syntax::ir::VarId;
use std::collections::BTreeMap;

/// States that are kept after a binding.
const BEAM: usize = 64;

/// A way through the bindings so far.
#[derive(Clone, Default)]
pub(crate) struct State {
    pub(crate) have: BTreeMap<VarId, Vec<Layout>>,
    pub(crate) steps: Vec<Step>,
    pub(crate) bytes: i128,
    /// Elements that ranks compute together.
    pub(crate) work: i128,
}

impl State {
    /// What is compared of two states, the worst first.
    pub(crate) fn cost(&self) -> (i128, i128) {
        (self.bytes, self.work)
    }
}

/// Keeps the cheapest of the states that have the same layouts, and few of those; whether others were left out.
///
/// Half of them have moved the fewest bytes, and half would have if all values were made whole, at the cost of `to_whole`. What every
/// rank has whole can be cut for nothing at any time, so a state that cuts early computes less and has moved no more, but may have
/// to gather later.
pub(crate) fn best(states: &mut Vec<State>, to_whole: &dyn Fn(VarId, &Layout) -> i128) -> bool {
    states.sort_by_key(State::cost);
    let mut seen: Vec<BTreeMap<VarId, Vec<Layout>>> = Vec::new();
    states.retain(|state| {
        let is_new = !seen.contains(&state.have);
        if is_new {
            seen.push(state.have.clone());
        }
        is_new
    });
    if states.len() <= BEAM {
        return false;
    }
    let mut others = states.split_off(BEAM / 2);
    let mut known = BTreeMap::new();
    let mut whole = |state: &State| {
        let each = state.have.iter().filter_map(|(var, layouts)| {
            let of_layout = |layout: &Layout| {
                let cost = || to_whole(*var, layout);
                *known.entry((*var, layout.clone())).or_insert_with(cost)
            };
            layouts.iter().map(of_layout).min()
        });
        each.fold(state.bytes, i128::saturating_add)
    };
    others.sort_by_cached_key(|state| (whole(state), state.cost()));
    others.truncate(BEAM - states.len());
    states.extend(others);
    true
}
