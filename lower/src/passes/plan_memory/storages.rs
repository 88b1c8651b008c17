//! From places to storages: an arena is cut where no tensor lies across.

use super::groups::{Alone, Group, Tensor};
use crate::memory::extents::{Bytes, Extents};
use crate::memory::packing::{Home, Place, cuts, pack};
use crate::memory::timeline::{Position, Timeline};
use relax_syntax::dim::Dim;
use relax_syntax::ir::VarId;
use std::collections::{BTreeMap, BTreeSet};

/// The memory of one group.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Where it is taken: after the binding at this position, or where the function begins.
    pub(super) after: Option<Position>,
    pub(super) storages: Vec<Storage>,
    pub(super) tensors: Vec<Planned>,
    /// Those that share nothing.
    pub(super) alone: Vec<Alone>,
}

/// Some bytes.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    pub(super) bytes: Dim,
    /// Before this position nothing of it is in use.
    pub(super) born: Position,
    /// After this position nothing of it is in use; `None`: it outlives the function.
    pub(super) dies: Option<Position>,
}

/// A tensor and its place.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) var: VarId,
    /// The storage that it had to itself.
    pub(super) old: VarId,
    /// Its storage in the plan.
    pub(super) storage: usize,
    pub(super) offset: Dim,
    /// After this position it is released by its name.
    pub(super) dies: Option<Position>,
}

/// Plans a group.
pub(super) fn plan(group: &Group, timeline: &Timeline, extents: &mut Extents) -> Plan {
    let tenants: Vec<_> = group.tensors.iter().map(|tensor| tensor.tenant.clone()).collect();
    let places = pack(&tenants, timeline, extents);
    let cuts = cuts(&places, extents);
    let mut homes: BTreeMap<(Home, Bytes), Vec<usize>> = BTreeMap::new();
    for (index, place) in places.iter().enumerate() {
        let cut = match place.home {
            Home::Host(_) | Home::Own(_) => Extents::zero(),
            Home::Arena => below(&cuts, place, extents),
        };
        homes.entry((place.home, cut)).or_default().push(index);
    }
    // In the order of the first tensor in each.
    let mut homes: Vec<_> = homes.into_iter().collect();
    homes.sort_by_key(|(_, members)| members.first().copied());
    let (mut storages, mut tensors, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    for ((home, cut), members) in homes {
        if matches!(home, Home::Host(_)) && members.len() == 1 {
            // Nothing uses its storage before: it is taken where the program takes it.
            continue;
        }
        if let Home::Own(index) = home {
            let &Tensor { var, storage, dies, .. } = &group.tensors[index];
            alone.push(Alone { var, storage, dies });
            continue;
        }
        let ends: BTreeSet<Bytes> = members.iter().map(|&index| places[index].end).collect();
        let largest = extents.largest(&ends, usize::MAX).expect("invariant: nothing is longer");
        let bytes = extents.difference(largest, cut);
        let last = members.iter().map(|&index| dies(&group.tensors[index], group, timeline)).max();
        for &index in &members {
            let tensor = &group.tensors[index];
            let offset = extents.difference(places[index].offset, cut);
            let offset = extents.dim(offset).clone();
            let (var, old, dies) = (tensor.var, tensor.storage, tensor.dies);
            tensors.push(Planned { var, old, storage: storages.len(), offset, dies });
        }
        let dies = last.flatten().filter(|_| home == Home::Arena);
        let first = members.iter().map(|&index| born(&group.tensors[index], group, timeline)).min();
        let born = first.expect("invariant: a home has members");
        storages.push(Storage { bytes: extents.dim(bytes).clone(), born, dies });
    }
    Plan { after: group.after, storages, tensors, alone }
}

/// Where a tensor is taken, seen from where its memory is taken.
fn born(tensor: &Tensor, group: &Group, timeline: &Timeline) -> Position {
    let region = group.after.map_or(0, |position| timeline.scope(position));
    let born = timeline.seen_from(tensor.tenant.born, region);
    born.expect("invariant: a group's tensors are taken where its memory is")
}

/// Where the last use of a tensor ends, seen from where its memory is taken.
fn dies(tensor: &Tensor, group: &Group, timeline: &Timeline) -> Option<Position> {
    let region = group.after.map_or(0, |position| timeline.scope(position));
    timeline.seen_from(tensor.tenant.dies, region)
}

/// The part of the arena that a place is in: the last cut that is not above it.
fn below(cuts: &[Bytes], place: &Place, extents: &mut Extents) -> Bytes {
    let cut = cuts.iter().rev().find(|&&cut| extents.at_most(cut, place.offset));
    cut.copied().unwrap_or(Extents::zero())
}
