//! All ranks of a mesh in one process: each runs the same function on its own shards, in a thread of its own, and waits
//! at collectives for the ranks of its group.
//!
//! A rank sees what another one has by a collective only. A collective ends when every rank of the group has called it;
//! all get what the ranks passed, in the order of the ranks, so results do not depend on timing. Where the ranks of a
//! group call different collectives, or the last rank that could still call one has ended or waits, those that wait trap.

use crate::interp::{Interpreter, Options};
use crate::stop::Stop;
use crate::tensor::Tensor;
use crate::value::Value;
use relax_syntax::Name;
use relax_syntax::ir::Module;
use relax_syntax::span::Span;
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
    /// What it passes.
    pub tensor: T,
}

impl<T> Exchange<T> {
    /// Of a run without other ranks.
    ///
    /// # Errors
    /// Where the group has more than one.
    pub fn alone(self) -> Result<Vec<T>, Stop> {
        if self.workers == 1 {
            return Ok(vec![self.tensor]);
        }
        let message = format!(
            "{} is called by {} ranks, and this run has one: `relax run --ranks` runs all",
            self.what, self.workers
        );
        Err(Stop::trap("ranks/alone", message))
    }
}

/// What a rank does.
#[derive(Debug)]
enum Status<T> {
    Runs,
    Waits { group: Vec<usize>, what: String, place: Place, tensor: T },
    Gets(Result<Vec<T>, Stop>),
    Ended,
}

/// The ranks of a run.
#[derive(Debug)]
struct World<T> {
    mesh: Mesh,
    status: Mutex<Vec<Status<T>>>,
    changed: Condvar,
}

/// One rank of a run, whose ranks pass each other tensors of some kind.
#[derive(Clone, Debug)]
pub struct Rank<T = Tensor> {
    world: Arc<World<T>>,
    worker: usize,
}

impl<T: Clone> Rank<T> {
    /// Takes part in a collective, called at `place`.
    ///
    /// # Errors
    /// Where it does not fit the mesh, or other ranks of the group do not call it.
    pub fn exchange(&self, exchange: Exchange<T>, place: &Place) -> Result<Vec<T>, Stop> {
        let Exchange { what, mesh, mesh_dim, workers, rank, tensor } = exchange;
        let own = &self.world.mesh;
        let fits = own.name == mesh
            && own.extents.get(mesh_dim) == Some(&workers)
            && own.coordinates(self.worker)[mesh_dim] == rank;
        if !fits {
            let message = format!(
                "{what} is of rank {rank} of {workers} along axis {mesh_dim} of \"{mesh}\"; this is worker {} of \"{}\" \
                 with the extents {:?}",
                self.worker, own.name, own.extents
            );
            return Err(Stop::trap("ranks/mesh", message));
        }
        let group = own.group(self.worker, mesh_dim);
        let place = place.clone();
        let mut status = self.world.lock();
        status[self.worker] = Status::Waits { group: group.clone(), what, place, tensor };
        meet(&mut status, &group);
        give_up(&mut status);
        self.world.changed.notify_all();
        loop {
            if let Status::Gets(_) = status[self.worker] {
                let got = std::mem::replace(&mut status[self.worker], Status::Runs);
                let Status::Gets(result) = got else { unreachable!("it was looked at") };
                return result;
            }
            status = self.world.changed.wait(status).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> World<T> {
    fn lock(&self) -> MutexGuard<'_, Vec<Status<T>>> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a rank, however its run ends.
struct Ends<T>(Rank<T>);

impl<T> Drop for Ends<T> {
    fn drop(&mut self) {
        let mut status = self.0.world.lock();
        status[self.0.worker] = Status::Ended;
        give_up(&mut status);
        self.0.world.changed.notify_all();
    }
}

/// Completes the collective of a group when every rank of it waits there.
fn meet<T: Clone>(status: &mut [Status<T>], group: &[usize]) {
    let mut parts = Vec::new();
    for &worker in group {
        match &status[worker] {
            Status::Waits { group: other, what, place, tensor } if other == group => {
                parts.push((worker, what.clone(), place.clone(), tensor.clone()));
            }
            _ => return,
        }
    }
    let (_, first, ..) = &parts[0];
    let differs = parts.iter().find(|(_, what, ..)| what != first);
    for &worker in group {
        let result = match differs {
            None => Ok(parts.iter().map(|(.., tensor)| tensor.clone()).collect()),
            Some(other) => Err(mismatch(&parts[0], other)),
        };
        status[worker] = Status::Gets(result);
    }
}

type Part<T> = (usize, String, Place, T);

fn mismatch<T>((a, of_a, at_a, _): &Part<T>, (b, of_b, at_b, _): &Part<T>) -> Stop {
    let message = format!("rank {a} calls {of_a}, rank {b} of its group calls {of_b}");
    at_both("ranks/mismatch", message, at_a, (*b, at_b))
}

fn at_both(id: &str, message: String, own: &Place, (other, place): (usize, &Place)) -> Stop {
    let Stop::Trap(mut trap) = Stop::trap(id, message) else { unreachable!("it is a trap") };
    (trap.span, trap.function) = (own.span, Some(own.function.clone()));
    trap.places.push((place.span, format!("rank {other} is here")));
    Stop::Trap(trap)
}

/// Where no rank runs, those that wait can never go on.
fn give_up<T>(status: &mut [Status<T>]) {
    if status.iter().any(|status| matches!(status, Status::Runs | Status::Gets(_))) {
        return;
    }
    let stops: Vec<(usize, Stop)> = status.iter().enumerate().filter_map(stuck(status)).collect();
    for (worker, stop) in stops {
        status[worker] = Status::Gets(Err(stop));
    }
}

/// Why a rank that waits does not go on.
fn stuck<T>(all: &[Status<T>]) -> impl Fn((usize, &Status<T>)) -> Option<(usize, Stop)> {
    move |(worker, status)| {
        let Status::Waits { group, what, place, .. } = status else { return None };
        let absent = group.iter().find_map(|&other| match &all[other] {
            Status::Waits { group: its, what, place, .. } if its != group => {
                Some((other, Some((what, place))))
            }
            Status::Ended => Some((other, None)),
            _ => None,
        });
        let stop = match absent {
            Some((other, Some((its, at)))) => {
                let message = format!(
                    "deadlock: rank {worker} waits in {what}, rank {other} of its group waits in {its} of another group"
                );
                at_both("ranks/deadlock", message, place, (other, at))
            }
            Some((other, None)) => {
                let message = format!(
                    "rank {worker} waits in {what}, and rank {other} of its group has ended"
                );
                at_both("ranks/deadlock", message, place, (worker, place))
            }
            None => return None,
        };
        Some((worker, stop))
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
    let status = (0..workers).map(|_| Status::Runs).collect();
    let world = World { mesh: mesh.clone(), status: Mutex::new(status), changed: Condvar::new() };
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

/// What stopped the run of all: the first rank that was not stopped by the end of another one, and its stop.
#[must_use]
pub fn cause(ran: &[RanRank]) -> Option<(usize, Stop)> {
    let stops =
        || ran.iter().enumerate().filter_map(|(at, ran)| Some((at, ran.result.as_ref().err()?)));
    let is_cause = |stop: &Stop| !matches!(stop, Stop::Trap(trap) if trap.id == "ranks/deadlock");
    let first = stops().find(|(_, stop)| is_cause(stop)).or_else(|| stops().next());
    first.map(|(at, stop)| (at, stop.clone()))
}
