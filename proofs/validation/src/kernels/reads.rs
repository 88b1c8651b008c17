//! What a program reads of a buffer that it writes as well was written before: by the program itself, or else by
//! whoever calls it.

use super::covers::{Witnessed, covered};
use super::scope::{Around, Scope};
use super::walk::{Branch, Store};
use crate::obligation::Outcome;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::Claim;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Param};
use std::collections::BTreeSet;

/// Where something is read.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) buffer: BufferId,
    pub(super) number: usize,
    /// One a dim; `None` where an index is no index arithmetic.
    pub(super) indices: Option<Vec<Dim>>,
    pub(super) loops: Vec<Around>,
    pub(super) known: Vec<Claim>,
    pub(super) branches: Vec<Branch>,
}

/// Each buffer that is written and read, and whether it is written first.
pub(super) fn obligations(
    program: &TensorProgram,
    stores: &[Store],
    loads: &[Load],
    scope: &mut Scope,
) -> Vec<(BufferId, Outcome)> {
    let written: BTreeSet<BufferId> = stores.iter().map(|store| store.buffer).collect();
    let mut found = Vec::new();
    for buffer in written {
        let own: Vec<&Load> = loads.iter().filter(|load| load.buffer == buffer).collect();
        if own.is_empty() {
            continue;
        }
        let open = own.iter().find(|load| !is_initialized(program, load, stores, scope));
        let outcome = open.map_or(Outcome::Proved, |load| {
            Outcome::Unproved(format!(
                "nothing shows that access {} reads what was written",
                load.number
            ))
        });
        found.push((buffer, outcome));
    }
    found
}

/// Whether a buffer is a parameter.
pub(super) fn is_given(program: &TensorProgram, buffer: BufferId) -> bool {
    program.params.iter().any(|param| matches!(param, Param::Buffer(id) if *id == buffer))
}

/// Whether what is read was written before by the program itself.
pub(super) fn is_initialized(
    program: &TensorProgram,
    load: &Load,
    stores: &[Store],
    scope: &mut Scope,
) -> bool {
    let initial = stores.iter().filter(|store| store.buffer == load.buffer && !store.updates);
    let earlier: Vec<&Store> = initial.filter(|store| store.number < load.number).collect();
    if earlier.iter().any(|store| is_written_by(load, store, scope)) {
        return true;
    }
    let ended =
        earlier.into_iter().filter(|store| shared(load, store) == 0 && store.allocated == 0);
    let ended: Vec<&Store> = ended.collect();
    let within = taken(load, 0);
    !ended.is_empty() && covered(program, load.buffer, &ended, (scope, &within))
}

/// The branches around the load that were taken for the store as well, where the outermost loops, so many of them, are in the same iteration.
fn taken(load: &Load, same: usize) -> Vec<Branch> {
    load.branches.iter().filter(|branch| branch.loops <= same).copied().collect()
}

/// How many of the outermost loops are around both.
fn shared(load: &Load, store: &Store) -> usize {
    let pairs = load.loops.iter().zip(&store.loops);
    pairs.take_while(|(a, b)| a.var == b.var).count()
}

/// Whether the store wrote what is read, in the same iteration of the loops around both.
fn is_written_by(load: &Load, store: &Store, scope: &mut Scope) -> bool {
    let Some(indices) = &load.indices else { return false };
    scope.facts.push();
    load.known.iter().for_each(|claim| scope.facts.assume(claim.clone()));
    let loops = free(load, store);
    let is_free = |around: &Around| loops.iter().any(|free| free.var == around.var);
    let within = taken(load, load.loops.iter().take_while(|around| !is_free(around)).count());
    let written = Witnessed { store, loops, within: &within }.writes(indices, scope);
    scope.facts.pop();
    written
}

/// The loops around a store that need not be in the iteration of the load: those that are not around both, and those that
/// no index mentions, whose first iteration comes before the others.
fn free(load: &Load, store: &Store) -> Vec<Around> {
    let shared = shared(load, store);
    let occurs = |name: &Name| {
        let mut indices = store.indices.iter().flatten();
        indices.any(|index| !index.vars_all(&|var| var != name))
    };
    let inner = store
        .loops
        .iter()
        .enumerate()
        .filter(|(at, around)| *at >= shared || !occurs(&around.name));
    inner.map(|(_, around)| around.clone()).collect()
}
