//! Collectives that a rank takes part in while its machine goes on (`async_op=True`): a thread beside the machine does it, one after the
//! other in the order of the program. So every rank calls the same collectives in the same order as without that thread, and what comes
//! of them is the same.

use super::{OtherRanks, Shared};
use relax_reference::stop_to_machine;
use relax_runtime::{self as machine, Promise};
use relax_semantics::ranks::{Alike, Exchange, Place};
use relax_semantics::stop::Stop;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

#[cfg(test)]
mod tests;

/// A collective that is called, with how it takes part.
pub(super) type Job = Box<dyn FnOnce(&mut Exchanging<'_>) -> Result<Shared, Stop> + Send>;

/// Takes part in a collective.
pub(super) type Exchanging<'a> =
    dyn FnMut(Exchange<Shared>, &Alike<'_>) -> Result<Shared, Stop> + 'a;

/// The collectives of a rank that its machine does not wait for.
#[derive(Debug, Default)]
pub(super) struct Posted {
    worker: Mutex<Option<Worker>>,
    left: Arc<Left>,
}

/// The thread beside the machine. It ends when nobody can post any more.
#[derive(Debug)]
struct Worker {
    calls: Sender<Call>,
    thread: JoinHandle<()>,
}

struct Call {
    job: Job,
    others: OtherRanks,
    place: Place,
    ends: Ends,
}

/// What is not done yet.
#[derive(Debug, Default)]
struct Left {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether the machine waits for all.
    is_awaited: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    calls: usize,
    /// What stopped the first one that failed: the program calls none of those that follow it.
    failed: Option<Stop>,
}

/// Ends a call, however it ends.
struct Ends {
    promise: Promise,
    left: Arc<Left>,
}

impl Drop for Ends {
    fn drop(&mut self) {
        // Of a call that ended otherwise this changes nothing.
        let lost = "a collective ended without a result".to_owned();
        self.promise.keep(Err(machine::Stop::Unsupported(lost)));
        self.left.state().calls -= 1;
        self.left.changed.notify_all();
    }
}

impl Left {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call {
    /// Takes part, unless a collective before it failed.
    fn made(self) {
        let Self { job, others, place, ends } = self;
        let before = ends.left.state().failed.clone();
        let is_awaited =
            || ends.promise.is_awaited() || ends.left.is_awaited.load(Ordering::Relaxed);
        let result = match before {
            Some(stop) => Err(stop),
            None => job(&mut |exchange, alike| {
                others.exchange_beside(exchange, alike, &place, &is_awaited)
            }),
        };
        let result = result.map_err(|stop| placed(stop, &place));
        if let Err(stop) = &result {
            ends.left.state().failed.get_or_insert_with(|| stop.clone());
        }
        let value = |shared: Shared| machine::Value::Tensor(shared.tensor);
        ends.promise.keep(result.map(value).map_err(stop_to_machine));
    }
}

/// Says of a trap without a place where the collective is called.
fn placed(stop: Stop, place: &Place) -> Stop {
    let Stop::Trap(mut trap) = stop else { return stop };
    if trap.function.is_none() {
        (trap.function, trap.span) = (Some(place.function.clone()), place.span);
    }
    Stop::Trap(trap)
}

impl Posted {
    /// Has a collective done, after those that were posted before.
    pub(super) fn post(&self, job: Job, others: OtherRanks, place: Place) -> Promise {
        let promise = Promise::default();
        self.left.state().calls += 1;
        let ends = Ends { promise: promise.clone(), left: Arc::clone(&self.left) };
        let call = Call { job, others, place, ends };
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if worker.is_none() {
            *worker = Worker::start();
        }
        let refused = match &*worker {
            Some(worker) => worker.calls.send(call).err().map(|refused| refused.0),
            None => Some(call),
        };
        drop(worker);
        // Where there is no thread, the machine waits here instead of later.
        if let Some(call) = refused {
            call.made();
        }
        promise
    }

    /// Waits until all are done: what stopped the first that failed.
    pub(super) fn settle(&self) -> Option<Stop> {
        self.left.is_awaited.store(true, Ordering::Relaxed);
        let done = self.left.changed.wait_while(self.left.state(), |state| state.calls > 0);
        self.left.is_awaited.store(false, Ordering::Relaxed);
        done.unwrap_or_else(PoisonError::into_inner).failed.clone()
    }

    /// The same at the end of a call of the program. The next one begins anew.
    pub(super) fn finish(&self) -> Option<Stop> {
        self.settle();
        self.left.state().failed.take()
    }
}

impl Worker {
    fn start() -> Option<Self> {
        let (calls, received) = channel::<Call>();
        let run = move || received.into_iter().for_each(Call::made);
        let thread = Builder::new().name("collectives".to_owned()).spawn(run).ok()?;
        Some(Self { calls, thread })
    }
}

impl Drop for Posted {
    fn drop(&mut self) {
        let worker = self.worker.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Worker { calls, thread }) = worker {
            mem::drop(calls);
            // A panic of it was told with its collective.
            let _ = thread.join();
        }
    }
}
