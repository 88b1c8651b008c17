//! What every rank of a run does, as far as it is known: which rank waits in which collective, what comes of it, and who can never go on.
//!
//! What is known changes in any order that keeps the order of what one rank does. Collectives of different groups complete
//! independently, and ranks are given up only when all are known to wait or to have ended. So whoever learns what the ranks do
//! comes to the same results, in this process or in others.

use super::{Exchange, Mesh, Place};
use crate::stop::Stop;

/// The ranks of a run.
#[derive(Debug)]
pub struct Table<T> {
    mesh: Mesh,
    status: Vec<Status<T>>,
}

/// What a rank does.
#[derive(Debug)]
enum Status<T> {
    Runs,
    Waits { group: Vec<usize>, what: String, place: Place, tensor: T },
    Gets(Result<Vec<T>, Stop>),
    Ended,
}

impl<T> Table<T> {
    /// All workers of a mesh, which run.
    #[must_use]
    pub fn new(mesh: Mesh, workers: usize) -> Self {
        Self { mesh, status: (0..workers).map(|_| Status::Runs).collect() }
    }

    /// The ranks that neither wait nor have ended, as far as it is known.
    #[must_use]
    pub fn running(&self) -> Vec<usize> {
        let runs = |worker: &usize| matches!(self.status[*worker], Status::Runs);
        (0..self.status.len()).filter(runs).collect()
    }

    /// A rank ends.
    pub fn end(&mut self, worker: usize) {
        self.status[worker] = Status::Ended;
        give_up(&mut self.status);
    }

    /// What came of the collective that a rank waits in, once it is decided. The rank runs from then on.
    pub fn take(&mut self, worker: usize) -> Option<Result<Vec<T>, Stop>> {
        match std::mem::replace(&mut self.status[worker], Status::Runs) {
            Status::Gets(result) => Some(result),
            other => {
                self.status[worker] = other;
                None
            }
        }
    }
}

impl<T: Clone> Table<T> {
    /// A rank that runs calls a collective at `place`, and waits there.
    ///
    /// # Errors
    /// Where the collective does not fit the mesh. The rank runs on.
    pub fn wait(
        &mut self,
        worker: usize,
        exchange: Exchange<T>,
        place: &Place,
    ) -> Result<(), Stop> {
        let Exchange { what, mesh, mesh_dim, workers, rank, movement, tensor } = exchange;
        let own = &self.mesh;
        let fits = own.name == mesh
            && own.extents.get(mesh_dim) == Some(&workers)
            && own.coordinates(worker)[mesh_dim] == rank;
        if !fits {
            let message = format!(
                "{what} is of rank {rank} of {workers} along axis {mesh_dim} of \"{mesh}\"; this is worker {worker} of \"{}\" \
                 with the extents {:?}",
                own.name, own.extents
            );
            return Err(Stop::trap("ranks/mesh", message));
        }
        let along = own.group(worker, mesh_dim);
        let group: Vec<usize> = movement.members(workers).iter().map(|&at| along[at]).collect();
        let place = place.clone();
        self.status[worker] = Status::Waits { group: group.clone(), what, place, tensor };
        meet(&mut self.status, &group);
        give_up(&mut self.status);
        Ok(())
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
