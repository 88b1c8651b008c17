//! All ranks of a mesh in one process: each runs the same function on its own shards, in a thread of its own, and waits
//! at collectives for the ranks of its group.
//!
//! A rank sees what another one has by a collective only. A collective ends when every rank of the group has called it, a send when
//! the sender and the receiver have;
//! all get what the ranks passed, in the order of the ranks, so results do not depend on timing. Where the ranks of a
//! group call different collectives, or the last rank that could still call one has ended or waits, those that wait trap.

mod table;

pub use table::Table;

use crate::interp::{Interpreter, Options};
use crate::ops::{Described, Movement, Passed};
use crate::stop::Stop;
use crate::tensor::Tensor;
use crate::value::Value;
use relax_syntax::Name;
use relax_syntax::ir::Module;
use relax_syntax::span::Span;
use std::fmt::Debug;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Ranks that one run may have.
pub const MOST_RANKS: usize = 256;

/// A device mesh: worker w has the coordinates of w in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mesh {
    /// The name, such as `mesh[0]`.
    pub name: Name,
    /// The number of workers along each axis, each at least 1.
    pub extents: Vec<usize>,
}

impl Mesh {
    /// The number of workers, unless it is beyond [`MOST_RANKS`].
    #[must_use]
    pub fn workers(&self) -> Option<usize> {
        let product = self.extents.iter().try_fold(1_usize, |all, &each| all.checked_mul(each));
        product.filter(|workers| (1..=MOST_RANKS).contains(workers))
    }

    /// The coordinates of a worker.
    #[must_use]
    pub fn coordinates(&self, worker: usize) -> Vec<usize> {
        let mut rest = worker;
        let mut coordinates: Vec<usize> = Vec::new();
        for &extent in self.extents.iter().rev() {
            coordinates.push(rest % extent);
            rest /= extent;
        }
        coordinates.reverse();
        coordinates
    }

    /// The workers that differ from this one along an axis only, in order.
    #[must_use]
    pub fn group(&self, worker: usize, axis: usize) -> Vec<usize> {
        let stride: usize = self.extents[axis + 1..].iter().product();
        let own = self.coordinates(worker)[axis];
        (0..self.extents[axis]).map(|at| worker + at * stride - own * stride).collect()
    }
}

/// A binding of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The function that runs.
    pub function: Name,
    /// The place of the binding.
    pub span: Span,
}

/// What a rank passes to a collective: a tensor, of the interpreter if nothing else is said.
#[derive(Clone, Debug)]
pub struct Exchange<T = Tensor> {
    /// The collective with its attributes: the same on every rank of the group.
    pub what: String,
    /// The mesh of the group.
    pub mesh: Name,
    /// The axis of the mesh along which the ranks of the group differ.
    pub mesh_dim: usize,
    /// The number of ranks in the group.
    pub workers: usize,
    /// The coordinate of this rank.
    pub rank: usize,
    /// How the result is made of what all ranks of the group pass.
    pub movement: Movement,
    /// What it passes.
    pub tensor: T,
}

impl<T: Passed> Exchange<T> {
    /// Of a run without other ranks.
    ///
    /// # Errors
    /// Where the group has more than one.
    pub fn alone(self) -> Result<T, Stop> {
        if self.workers == 1 {
            return self.movement.result(vec![self.tensor], (1, self.rank));
        }
        let message = format!(
            "{} is called by {} ranks, and this run has one: `relax run --ranks` runs all",
            self.what, self.workers
        );
        Err(Stop::trap("ranks/alone", message))
    }
}

/// Demands of what the ranks of a group pass, in their order, that one collective takes it.
pub type Alike<'a> = dyn Fn(&[Described]) -> Result<(), Stop> + 'a;

/// The other ranks of a run, as one rank of it reaches them.
pub trait Peers<T>: Debug + Send + Sync {
    /// Takes part in a collective, called at `place`. What each rank passes is looked at by `alike` when all of the group are there.
    ///
    /// # Errors
    /// Where it does not fit the mesh, other ranks of the group do not call it, or `alike` refuses what they pass.
    fn exchange(&self, exchange: Exchange<T>, alike: &Alike<'_>, place: &Place) -> Result<T, Stop>;

    /// The same, beside what the rank computes until `is_awaited`: it does not need this thread before.
    ///
    /// # Errors
    /// As [`Peers::exchange`].
    fn exchange_beside(
        &self,
        exchange: Exchange<T>,
        alike: &Alike<'_>,
        place: &Place,
        _is_awaited: &dyn Fn() -> bool,
    ) -> Result<T, Stop> {
        self.exchange(exchange, alike, place)
    }
}

/// The ranks of a run in this process.
#[derive(Debug)]
struct World<T> {
    table: Mutex<Table<T>>,
    changed: Condvar,
}

/// One rank of a run, whose ranks pass each other tensors of some kind.
#[derive(Clone, Debug)]
pub struct Rank<T = Tensor> {
    world: Arc<World<T>>,
    worker: usize,
}

impl<T: Passed + Debug + Send + Sync> Peers<T> for Rank<T> {
    fn exchange(&self, exchange: Exchange<T>, alike: &Alike<'_>, place: &Place) -> Result<T, Stop> {
        let (movement, of) = (exchange.movement, (exchange.workers, exchange.rank));
        let parts = self.meet(exchange, place)?;
        let described: Vec<Described> = parts.iter().map(Described::of).collect();
        alike(&described)?;
        movement.result(parts, of)
    }
}

impl<T> Rank<T> {
    /// Its number among all ranks.
    #[must_use]
    pub fn worker(&self) -> usize {
        self.worker
    }
}

impl<T: Clone> Rank<T> {
    /// What all ranks of the group pass, once they are there: for whoever moves it in another way.
    ///
    /// # Errors
    /// Where the collective does not fit the mesh, or other ranks of the group do not call it.
    pub fn meet(&self, exchange: Exchange<T>, place: &Place) -> Result<Vec<T>, Stop> {
        let mut table = self.world.lock();
        table.wait(self.worker, exchange, place)?;
        self.world.changed.notify_all();
        loop {
            if let Some(met) = table.take(self.worker) {
                return met;
            }
            table = self.world.changed.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> World<T> {
    fn lock(&self) -> MutexGuard<'_, Table<T>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a rank, however its run ends.
struct Ends<T>(Rank<T>);

impl<T> Drop for Ends<T> {
    fn drop(&mut self) {
        self.0.world.lock().end(self.0.worker);
        self.0.world.changed.notify_all();
    }
}

/// What came of the run of a rank.
#[derive(Clone, Debug)]
pub struct RanRank {
    /// The value, or what stopped it.
    pub result: Result<Value, Stop>,
    /// Lines that it printed.
    pub printed: Vec<String>,
}

/// Calls a function on every rank of a mesh, with the arguments of each, in the interpreter.
///
/// # Errors
/// As [`on_all`].
///
/// # Panics
/// As [`on_all`].
pub fn run(
    module: &Module,
    mesh: &Mesh,
    function: &str,
    arguments: Vec<Vec<Value>>,
    options: &Options,
) -> Result<Vec<RanRank>, Stop> {
    on_all(mesh, arguments, |rank: Rank, arguments| {
        let rank: Arc<dyn Peers<Tensor>> = Arc::new(rank);
        let options = Options { rank: Some(rank), ..options.clone() };
        let mut interpreter = Interpreter::new(module, options);
        let result = interpreter.call(function, arguments);
        RanRank { result, printed: interpreter.printed }
    })
}

/// Runs every rank of a mesh in a thread of its own, each with what it is given.
///
/// # Errors
/// Where the mesh has too many workers.
///
/// # Panics
/// Where what is given is not one thing for each worker.
pub fn on_all<T: Send, G: Send, R: Send>(
    mesh: &Mesh,
    given: Vec<G>,
    run: impl Fn(Rank<T>, G) -> R + Sync,
) -> Result<Vec<R>, Stop> {
    let Some(workers) = mesh.workers() else {
        let message = format!("a run has 1 to {MOST_RANKS} ranks, found {:?}", mesh.extents);
        return Err(Stop::Unsupported(message));
    };
    assert_eq!(given.len(), workers, "invariant: every worker is given something");
    let table = Mutex::new(Table::new(mesh.clone(), workers));
    let world = World { table, changed: Condvar::new() };
    let (world, run) = (Arc::new(world), &run);
    let start = |(worker, given): (usize, G)| {
        let rank = || Rank { world: Arc::clone(&world), worker };
        let (rank, ends) = (rank(), Ends(rank()));
        move || {
            let _ends = ends;
            run(rank, given)
        }
    };
    Ok(std::thread::scope(|scope| {
        let threads: Vec<_> =
            given.into_iter().enumerate().map(|each| scope.spawn(start(each))).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.map(|ran| ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    }))
}

/// What stopped the run of all: of the ranks that were not stopped by the end of another one the one whose statement comes first in
/// the text, as a single device would meet it first; of these the first rank. A rank out of a resource might have trapped before
/// the others, and comes first.
#[must_use]
pub fn cause(ran: &[RanRank]) -> Option<(usize, Stop)> {
    let stops =
        || ran.iter().enumerate().filter_map(|(at, ran)| Some((at, ran.result.as_ref().err()?)));
    let is_cause = |stop: &Stop| !matches!(stop, Stop::Trap(trap) if trap.id == "ranks/deadlock");
    let place = |stop: &Stop| match stop {
        Stop::Trap(trap) => Some(trap.span.start),
        Stop::Exhausted { .. } | Stop::Unsupported(_) => None,
    };
    let causes = stops().filter(|(_, stop)| is_cause(stop));
    let first = causes.min_by_key(|(_, stop)| place(stop)).or_else(|| stops().next());
    first.map(|(at, stop)| (at, stop.clone()))
}
