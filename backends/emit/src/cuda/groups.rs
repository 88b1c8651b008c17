//! What becomes one function on a device: a launch, with the threads that each of its blocks has.

use super::launch::Extent;
use super::threads::{Nest, nests, threads_meet};
use relax_syntax::ir::tensor::{ScalarId, TExpr};
use relax_tir::launches::{Launch, Launches};
use std::collections::BTreeMap;

/// The statements of one function.
#[derive(Debug)]
pub(crate) struct Group<'s> {
    pub(crate) launch: Launch<'s>,
    /// The threads of a block, by axis.
    extents: [Vec<Extent>; 3],
    waits: bool,
    /// How many nests of threads there are.
    pub(crate) nests: usize,
    /// Whether one thread is all that a block has.
    pub(crate) is_alone: bool,
}

impl<'s> Group<'s> {
    fn of(launch: Launch<'s>) -> Result<Self, String> {
        let mut found = Vec::new();
        if launch.has_threads {
            launch.body.iter().for_each(|stmt| nests(stmt, &mut found));
        }
        threads_meet(&found)?;
        let (extents, waits) = extents(&found)?;
        let nests = found.len();
        Ok(Self { launch, extents, waits, nests, is_alone: nests == 0 })
    }

    /// What its scalars are.
    pub(crate) fn values(&self) -> Vec<(ScalarId, TExpr)> {
        self.launch.values().map(|(var, value)| (var, value.clone())).collect()
    }

    /// Blocks by axis.
    pub(crate) fn grid(&self) -> [Vec<Extent>; 3] {
        let mut grid = [const { Vec::new() }; 3];
        for (axis, item) in &self.launch.blocks {
            grid[*axis].push(Extent::of(item));
        }
        grid
    }

    pub(crate) fn block(&self) -> [Vec<Extent>; 3] {
        self.extents.clone()
    }

    /// Whether the number of threads is told by threads that wait for each other.
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }
}

/// The functions of a program.
pub(crate) fn groups(launches: Launches<'_>) -> Result<Vec<Group<'_>>, String> {
    launches.launches.into_iter().map(Group::of).collect()
}

type Extents = ([Vec<Extent>; 3], bool);

/// How many threads a block has: as many as wait for each other, else as many as the largest nest has.
fn extents(nests: &[Nest<'_>]) -> Result<Extents, String> {
    let mut waiting: Option<BTreeMap<usize, Extent>> = None;
    let mut all = [const { Vec::new() }; 3];
    for nest in nests {
        let own: BTreeMap<usize, Extent> =
            nest.loops.iter().map(|(axis, item)| (*axis, Extent::of(item))).collect();
        if nest.waits {
            if waiting.as_ref().is_some_and(|known| *known != own) {
                return Err("threads of different numbers wait at barriers".to_owned());
            }
            waiting = Some(own);
        } else {
            own.into_iter().for_each(|(axis, extent)| all[axis].push(extent));
        }
    }
    let Some(own) = waiting else { return Ok((all, false)) };
    if !own.values().all(Extent::is_of_host) {
        return Err("the number of threads that wait at barriers is computed on the way".to_owned());
    }
    let known: Option<i64> =
        own.values().try_fold(1_i64, |product, extent| product.checked_mul(extent.constant()?));
    let deep = own.get(&2).and_then(Extent::constant).is_some_and(|extent| extent > 64);
    if deep || known.is_some_and(|product| product > super::launch::MOST_THREADS) {
        return Err("more threads wait at barriers than a block may have".to_owned());
    }
    let mut exact = [const { Vec::new() }; 3];
    own.into_iter().for_each(|(axis, extent)| exact[axis].push(extent));
    Ok((exact, true))
}
