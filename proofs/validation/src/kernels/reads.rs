//! What a program reads of a buffer that it writes as well was written before: by the program itself, or else by
//! whoever calls it.

use super::covers::{Witnessed, covered};
use super::scope::{Around, Scope};
use super::walk::Store;
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
        let initial = stores.iter().filter(|store| store.buffer == buffer && !store.updates);
        let initial: Vec<&Store> = initial.collect();
        let open = own.iter().find(|load| !is_written_before(program, load, &initial, scope));
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

fn is_written_before(
    program: &TensorProgram,
    load: &Load,
    stores: &[&Store],
    scope: &mut Scope,
) -> bool {
    let earlier = stores.iter().copied().filter(|store| store.number < load.number);
    let earlier: Vec<&Store> = earlier.collect();
    if earlier.iter().any(|store| is_written_by(load, store, scope)) {
        return true;
    }
    let ended =
        earlier.into_iter().filter(|store| shared(load, store) == 0 && store.allocated == 0);
    let ended: Vec<&Store> = ended.collect();
    !ended.is_empty() && covered(program, load.buffer, &ended, scope)
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
    let written = Witnessed { store, loops: free(load, store) }.writes(indices, scope);
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
