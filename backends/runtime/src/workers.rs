//! Threads that help with a kernel. A kernel cuts its work into parts, whose results do not depend on which
//! thread runs them or when; [`Workers`] runs all parts, with the thread that asks for it and those of its own.
//!
//! Threads begin at the first work that there is for them, and end with the module. Whoever comes while
//! they are busy, with a call from another thread or from within a part, does its work alone: the
//! result is the same. The parts are handed out in order, and of those that stop the first one tells why: as
//! in a run by one thread.
#![allow(unsafe_code)]

use crate::notes::{Noted, Notes};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// How often a thread looks for new work before it sleeps: some 50 microseconds.
const LOOKS: u32 = 2000;

/// One part of the work of a kernel: 0, or where it stopped.
pub(crate) type Part = unsafe extern "C" fn(context: *mut c_void, part: i64) -> i32;

/// `rx_threads` of the calling convention.
#[repr(C)]
pub(crate) struct RawThreads<'s> {
    count: i64,
    run: unsafe extern "C" fn(*const RawThreads<'_>, i64, Part, *mut c_void) -> i32,
    /// What the steps of kernels are taken from.
    steps: Option<&'s AtomicI64>,
    /// Behind what C sees.
    shared: Arc<Shared>,
}

/// The threads of a module.
pub(crate) struct Workers {
    raw: Box<RawThreads<'static>>,
}

struct Shared {
    /// Threads in all, with the one that asks.
    count: usize,
    /// Of the kernels that they run.
    notes: Notes,
    /// Whether some thread has the helpers.
    busy: AtomicBool,
    /// Grows with each job, so that helpers see one without the lock.
    jobs: AtomicU64,
    state: Mutex<State>,
    /// There is a job, or the end.
    wake: Condvar,
}

#[derive(Default)]
struct State {
    job: Option<Job>,
    sleeping: usize,
    ends: bool,
    helpers: Vec<JoinHandle<()>>,
}

/// Lies on the stack of the thread that asks, which waits until no helper is in it.
struct Work {
    part: Part,
    context: *mut c_void,
    parts: i64,
    next: AtomicI64,
    /// Helpers that are in it.
    helpers: AtomicUsize,
    /// The first part that stopped, and with what: `part << 32 | status`.
    stopped: AtomicI64,
    notes: Notes,
    /// The first part that stopped, and what it noted.
    noted: Mutex<Option<(i64, Noted)>>,
}

#[derive(Clone, Copy)]
struct Job(*const Work);

// SAFETY: what it points to may be used from every thread: the context as the kernel promises, the rest is
// atomic or does not change.
unsafe impl Send for Job {}

/// How many threads there are to be: as many as are asked for; for 0 what `RELAX_THREADS` says, else those that the
/// machine has.
#[must_use]
pub fn count(wanted: usize) -> usize {
    let named = || std::env::var("RELAX_THREADS").ok()?.trim().parse().ok().filter(|n| *n > 0);
    let machine = || std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = if wanted > 0 { wanted } else { named().unwrap_or_else(machine) };
    wanted.min(MOST)
}

/// More threads than this are a mistake.
const MOST: usize = 1024;

impl Workers {
    pub(crate) fn new(count: usize, notes: Notes) -> Self {
        let shared = Arc::new(Shared {
            count,
            notes,
            busy: AtomicBool::new(false),
            jobs: AtomicU64::new(0),
            state: Mutex::default(),
            wake: Condvar::new(),
        });
        let count = i64::try_from(count).unwrap_or(1);
        Self { raw: Box::new(RawThreads { count, run: run_parts, steps: None, shared }) }
    }

    /// The same threads, for kernels that take their steps from these.
    pub(crate) fn limited<'s>(&self, steps: &'s AtomicI64) -> RawThreads<'s> {
        let RawThreads { count, run, ref shared, .. } = *self.raw;
        RawThreads { count, run, steps: Some(steps), shared: Arc::clone(shared) }
    }

    /// What kernels without a limit are given.
    pub(crate) fn raw(&self) -> *const RawThreads<'static> {
        &raw const *self.raw
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let shared = &self.raw.shared;
        let mut state = shared.lock();
        state.ends = true;
        let helpers = std::mem::take(&mut state.helpers);
        shared.jobs.fetch_add(1, Ordering::Release);
        drop(state);
        shared.wake.notify_all();
        for helper in helpers {
            // A helper that panicked has ended as well.
            let _ = helper.join();
        }
    }
}

/// # Safety
/// `threads` is what [`Workers::raw`] or [`Workers::limited`] gave, and the workers live; every part from 0 to `parts` may be run once,
/// on any thread, while others run.
unsafe extern "C" fn run_parts(
    threads: *const RawThreads<'_>,
    parts: i64,
    part: Part,
    context: *mut c_void,
) -> i32 {
    // SAFETY: the caller promises that the workers live.
    let shared = unsafe { &(*threads).shared };
    let work = Work {
        part,
        context,
        parts,
        next: AtomicI64::new(0),
        helpers: AtomicUsize::new(0),
        stopped: AtomicI64::new(i64::MAX),
        notes: shared.notes,
        noted: Mutex::default(),
    };
    // The number of a part is kept in 31 bits beside its status.
    if parts > i64::from(i32::MAX) {
        return work.run_in_order();
    }
    let alone = parts < 2 || shared.count < 2 || shared.busy.swap(true, Ordering::Acquire);
    if alone {
        work.run();
        return work.status();
    }
    Shared::offer(shared, Job(&raw const work));
    work.run();
    shared.lock().job = None;
    // Nobody comes any more; who is in it is about to leave.
    let mut looks = 0;
    while work.helpers.load(Ordering::Acquire) > 0 {
        look(&mut looks);
    }
    shared.busy.store(false, Ordering::Release);
    work.status()
}

impl Work {
    /// Runs parts until none is left.
    fn run(&self) {
        loop {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            // What comes after a part that stopped would not have run.
            if at >= self.parts || at > self.stopped.load(Ordering::Relaxed) >> 32 {
                return;
            }
            // SAFETY: whoever asked promises it, and each part is handed out once.
            let status = unsafe { (self.part)(self.context, at) };
            if status != 0 {
                let stopped = at << 32 | i64::from(status.cast_unsigned());
                self.stopped.fetch_min(stopped, Ordering::Relaxed);
                self.note(at);
            }
        }
    }

    /// Keeps what the calling thread noted in a part, if no earlier part stopped.
    #[cold]
    fn note(&self, part: i64) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.is_none_or(|(first, _)| part < first) {
            *noted = self.notes.of_thread().map(|values| (part, values));
        }
    }

    /// Runs all parts, one after the other.
    fn run_in_order(&self) -> i32 {
        // SAFETY: whoever asked promises it.
        let mut statuses = (0..self.parts).map(|at| unsafe { (self.part)(self.context, at) });
        statuses.find(|status| *status != 0).unwrap_or(0)
    }

    /// 0, or with what the first part stopped that did. What it noted is noted in the calling thread.
    fn status(&self) -> i32 {
        match self.stopped.load(Ordering::Relaxed) {
            i64::MAX => 0,
            stopped => {
                let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((_, values)) = *noted {
                    self.notes.set(values);
                }
                (stopped & 0xffff_ffff) as i32
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offer(shared: &Arc<Shared>, job: Job) {
        let mut state = shared.lock();
        state.job = Some(job);
        shared.jobs.fetch_add(1, Ordering::Release);
        if state.helpers.is_empty() {
            Shared::start(shared, &mut state);
        }
        let sleeping = state.sleeping;
        drop(state);
        if sleeping > 0 {
            shared.wake.notify_all();
        }
    }

    /// Begins the helpers; where the system gives fewer threads, fewer help.
    fn start(shared: &Arc<Shared>, state: &mut State) {
        for _ in 1..shared.count {
            let own = Arc::clone(shared);
            let helper = std::thread::Builder::new().name("relax".to_owned());
            match helper.spawn(move || own.help()) {
                Ok(helper) => state.helpers.push(helper),
                Err(_) => break,
            }
        }
    }

    /// The life of a helper.
    fn help(&self) {
        let mut seen = 0;
        while let Some((job, number)) = self.wait(seen) {
            seen = number;
            let Some(Job(work)) = job else { continue };
            // SAFETY: the thread that asks waits for this helper, which was counted while the job was there.
            let work = unsafe { &*work };
            work.run();
            work.helpers.fetch_sub(1, Ordering::Release);
        }
    }

    /// The job after the one of this number, if it is still there; `None` at the end.
    fn wait(&self, seen: u64) -> Option<(Option<Job>, u64)> {
        for _ in 0..LOOKS {
            if self.jobs.load(Ordering::Acquire) != seen {
                break;
            }
            std::hint::spin_loop();
        }
        let mut state = self.lock();
        while !state.ends && self.jobs.load(Ordering::Acquire) == seen {
            state.sleeping += 1;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleeping -= 1;
        }
        if state.ends {
            return None;
        }
        if let Some(Job(work)) = state.job {
            // SAFETY: the thread that asks takes the job away, with this lock, before its work ends.
            unsafe { &*work }.helpers.fetch_add(1, Ordering::Relaxed);
        }
        Some((state.job, self.jobs.load(Ordering::Acquire)))
    }
}

/// Waits a moment; after many of them lets others run.
fn look(looks: &mut u32) {
    *looks = looks.saturating_add(1);
    if *looks < LOOKS {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests;
