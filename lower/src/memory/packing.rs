//! Where tensors lie in an arena (paper, Algorithm 3, with offsets): those that are in use at the same
//! time lie beside each other, for all dims; those that are not share bytes where that helps.
//!
//! A tensor is put at the lowest place that is proved free: at 0, or where one that is in use with it
//! ends. In which order that is done decides how much is wasted, and no order is best, so a few are
//! tried and the smallest arena, for a few dims, is kept. The choice rests on samples; that
//! two tensors do not touch rests on the prover alone.
//!
//! A result outlives the function, so it has a storage of its own. What is done with before the result
//! is made may use that storage meanwhile: it is a *host*.
//!
//! Above tensors whose sizes cannot be compared the lowest free place is the maximum of their ends. Sums of such maxima
//! double with every tensor in a row, so expressions have a limit: a tensor without a place below it keeps its storage.

use super::extents::{Bytes, Extents};
use super::timeline::{Position, ScopeId, Timeline};
use std::collections::BTreeSet;

/// A tensor that needs memory.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    pub(crate) size: Bytes,
    pub(crate) born: Position,
    /// The last position at which it is in use.
    pub(crate) dies: Position,
    /// The body that allocates it.
    pub(crate) scope: ScopeId,
    /// A result: it has a storage of its own.
    pub(crate) is_host: bool,
}

/// Where a tensor lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) home: Home,
    pub(crate) offset: Bytes,
    pub(crate) end: Bytes,
}

/// Which memory a tensor lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Home {
    /// That of the whole group.
    Arena,
    /// The storage of a result, by its index.
    Host(usize),
    /// A storage to itself, by its own index: it shares nothing.
    Own(usize),
}

/// Above this many tensors only the cheapest orders are tried.
const MANY: usize = 2_000;
/// Hosts that are looked at for each tensor.
const MOST_HOSTS: usize = 8;
/// Operations, variables and literals of a place, at most. Of the corpus nothing is proved of more than 190; most have below 60.
const LONGEST_PLACE: usize = 100;

/// The places of all, in their order.
pub(crate) fn pack(tenants: &[Tenant], timeline: &Timeline, extents: &mut Extents) -> Vec<Place> {
    let neighbours = neighbours(tenants, timeline);
    let peaks = peaks(tenants, extents);
    // Without hosts all that is in use at once lies in the arena.
    let has_hosts = tenants.iter().any(|tenant| tenant.is_host);
    let least = if has_hosts { 0.0 } else { beside(&peaks, &peaks) };
    let mut best: Option<(f64, Vec<Place>)> = None;
    for (order, with_hosts) in orders(tenants, extents) {
        let packing = Packing { tenants, neighbours: &neighbours, peaks: &peaks, with_hosts };
        let so_far = best.as_ref().map(|(cost, _)| *cost);
        if let Some(better) = packing.run(&order, so_far, extents) {
            best = Some(better);
        }
        // No order does better.
        if best.as_ref().is_some_and(|(cost, _)| *cost <= least) {
            break;
        }
    }
    best.map_or(Vec::new(), |(_, places)| places)
}

/// For each tensor those that are in use at the same time.
fn neighbours(tenants: &[Tenant], timeline: &Timeline) -> Vec<Vec<usize>> {
    let mut by_birth: Vec<usize> = (0..tenants.len()).collect();
    by_birth.sort_by_key(|&index| tenants[index].born);
    let mut neighbours = vec![Vec::new(); tenants.len()];
    let mut alive: Vec<usize> = Vec::new();
    for index in by_birth {
        let tenant = &tenants[index];
        alive.retain(|&other| tenants[other].dies >= tenant.born);
        for &other in &alive {
            if !timeline.exclude_each_other(tenants[other].scope, tenant.scope) {
                neighbours[index].push(other);
                neighbours[other].push(index);
            }
        }
        alive.push(index);
    }
    neighbours
}

/// Orders in which tensors are placed, and whether results are hosts.
fn orders(tenants: &[Tenant], extents: &Extents) -> Vec<(Vec<usize>, bool)> {
    let size = |index: usize| extents.values(tenants[index].size).iter().sum::<i128>();
    let span = |index: usize| (tenants[index].dies - tenants[index].born) as i128;
    let sorted = |key: &dyn Fn(usize) -> (i128, i128)| {
        let mut order: Vec<usize> = (0..tenants.len()).collect();
        order.sort_by_key(|&index| (key(index), index));
        order
    };
    let born = |index: usize| tenants[index].born as i128;
    let mut orders =
        vec![(sorted(&|i| (-size(i), -born(i))), true), (sorted(&|i| (born(i), 0)), false)];
    if tenants.len() <= MANY {
        orders.extend([
            (sorted(&|i| (-size(i), born(i))), true),
            (sorted(&|i| (-size(i), born(i))), false),
            (sorted(&|i| (-size(i), -span(i))), true),
            (sorted(&|i| (-size(i).saturating_mul(span(i) + 1), born(i))), true),
            (sorted(&|i| (-span(i), -size(i))), true),
            (sorted(&|i| (-born(i), 0)), true),
            (sorted(&|i| (born(i), 0)), true),
        ]);
    }
    // Of a few tensors many orders are the same: each is tried once.
    let has_hosts = tenants.iter().any(|tenant| tenant.is_host);
    let mut distinct: Vec<(Vec<usize>, bool)> = Vec::with_capacity(orders.len());
    for (order, with_hosts) in orders {
        let tried = (order, with_hosts && has_hosts);
        if !distinct.contains(&tried) {
            distinct.push(tried);
        }
    }
    distinct
}

/// The size of an arena beside what is in use at once at most, for each of the samples, added up.
fn beside(arena: &[i128], peaks: &[i128]) -> f64 {
    let pairs = arena.iter().zip(peaks);
    pairs.map(|(&arena, &peak)| arena as f64 / peak.max(1) as f64).sum()
}

/// For each sample the bytes of the tensors that are in use at the same time, at most.
fn peaks(tenants: &[Tenant], extents: &Extents) -> Vec<i128> {
    let mut changes: Vec<(Position, bool, usize)> = Vec::new();
    for (index, tenant) in tenants.iter().enumerate() {
        changes.extend([(tenant.born, true, index), (tenant.dies + 1, false, index)]);
    }
    // What ends at a position is gone before something else begins there.
    changes.sort_unstable();
    let samples = extents.values(Extents::zero()).len();
    let peak = |sample: usize| {
        let (mut now, mut peak) = (0, 0);
        for &(_, begins, index) in &changes {
            let size = extents.values(tenants[index].size)[sample];
            now += if begins { size } else { -size };
            peak = peak.max(now);
        }
        peak
    };
    (0..samples).map(peak).collect()
}

struct Packing<'a> {
    tenants: &'a [Tenant],
    neighbours: &'a [Vec<usize>],
    peaks: &'a [i128],
    with_hosts: bool,
}

impl Packing<'_> {
    /// The places of all and what they cost, if that is less than `so_far`. An arena only grows, so one that costs
    /// as much already is given up.
    fn run(
        &self,
        order: &[usize],
        so_far: Option<f64>,
        extents: &mut Extents,
    ) -> Option<(f64, Vec<Place>)> {
        let mut places: Vec<Option<Place>> = vec![None; self.tenants.len()];
        let mut hosts = Vec::new();
        for (index, tenant) in self.tenants.iter().enumerate() {
            if tenant.is_host {
                let (offset, end) = (Extents::zero(), tenant.size);
                places[index] = Some(Place { home: Home::Host(index), offset, end });
                hosts.push(index);
            }
        }
        hosts.truncate(if self.with_hosts { MOST_HOSTS } else { 0 });
        let mut arena = vec![0; self.peaks.len()];
        let mut own = vec![0; self.peaks.len()];
        let mut cost = beside(&arena, self.peaks);
        for &index in order {
            if so_far.is_some_and(|so_far| cost >= so_far) {
                return None;
            }
            if places[index].is_some() {
                continue;
            }
            let hosted = hosts.iter().find_map(|&host| self.in_host(index, host, &places, extents));
            let in_arena = |extents: &mut Extents| self.in_arena(index, &places, extents);
            let place = hosted.or_else(|| in_arena(extents)).unwrap_or_else(|| {
                let (offset, end) = (Extents::zero(), self.tenants[index].size);
                Place { home: Home::Own(index), offset, end }
            });
            let ends = extents.values(place.end).iter();
            match place.home {
                Home::Arena => {
                    arena.iter_mut().zip(ends).for_each(|(all, end)| *all = *end.max(all))
                }
                Home::Own(_) => own.iter_mut().zip(ends).for_each(|(all, size)| *all += size),
                Home::Host(_) => {}
            }
            cost = beside(&arena, self.peaks) + beside(&own, self.peaks);
            places[index] = Some(place);
        }
        if so_far.is_some_and(|so_far| cost >= so_far) {
            return None;
        }
        let places = places.into_iter();
        let places =
            places.map(|place| place.expect("invariant: every tensor is placed")).collect();
        Some((cost, places))
    }

    fn in_host(
        &self,
        index: usize,
        host: usize,
        places: &[Option<Place>],
        extents: &mut Extents,
    ) -> Option<Place> {
        let home = Home::Host(host);
        let taken = self.taken(index, home, places);
        let place = lowest(self.tenants[index].size, home, &taken, extents)?;
        extents.at_most(place.end, self.tenants[host].size).then_some(place)
    }

    /// `None` where its place would be too long an expression.
    fn in_arena(
        &self,
        index: usize,
        places: &[Option<Place>],
        extents: &mut Extents,
    ) -> Option<Place> {
        let taken = self.taken(index, Home::Arena, places);
        let size = self.tenants[index].size;
        lowest(size, Home::Arena, &taken, extents).or_else(|| {
            // Above all of them: the largest of several ends is at least each of them.
            let ends = taken.iter().map(|place| place.end).collect();
            let offset = extents.largest(&ends, LONGEST_PLACE)?;
            let end = extents.sum(offset, size);
            let is_short = extents.dim(end).size() <= LONGEST_PLACE;
            is_short.then_some(Place { home: Home::Arena, offset, end })
        })
    }

    /// Places in `home` of tensors that are in use at the same time, each once.
    fn taken(&self, index: usize, home: Home, places: &[Option<Place>]) -> Vec<Place> {
        let mut taken: Vec<Place> = Vec::new();
        for place in self.neighbours[index].iter().filter_map(|&other| places[other]) {
            if place.home == home && !taken.contains(&place) {
                taken.push(place);
            }
        }
        taken
    }
}

/// The lowest place that is proved not to touch what is taken: at 0, or where one of them ends.
fn lowest(size: Bytes, home: Home, taken: &[Place], extents: &mut Extents) -> Option<Place> {
    let mut offsets: Vec<Bytes> = taken.iter().map(|place| place.end).collect();
    offsets.push(Extents::zero());
    offsets.sort_by_key(|&offset| (extents.values(offset).iter().sum::<i128>(), offset));
    offsets.dedup();
    offsets.into_iter().find_map(|offset| {
        let end = extents.sum(offset, size);
        let is_short = extents.dim(end).size() <= LONGEST_PLACE;
        let mut taken = taken.iter();
        let is_free = is_short
            && taken.all(|place| {
                extents.at_most(end, place.offset) || extents.at_most(place.end, offset)
            });
        is_free.then_some(Place { home, offset, end })
    })
}

/// Where an arena can be cut so that no tensor lies across: each part is a storage.
pub(crate) fn cuts(places: &[Place], extents: &mut Extents) -> Vec<Bytes> {
    let in_arena = places.iter().filter(|place| place.home == Home::Arena);
    let spans: BTreeSet<(Bytes, Bytes)> = in_arena.map(|place| (place.offset, place.end)).collect();
    let offsets: BTreeSet<Bytes> = spans.iter().map(|&(offset, _)| offset).collect();
    let mut cuts: Vec<Bytes> = offsets
        .into_iter()
        .filter(|&cut| {
            spans
                .iter()
                .all(|&(offset, end)| extents.at_most(cut, offset) || extents.at_most(end, cut))
        })
        .collect();
    cuts.sort_by_key(|&cut| extents.values(cut).iter().sum::<i128>());
    cuts
}
