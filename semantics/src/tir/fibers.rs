//! Threads of a thread block: each runs up to its next barrier before the first goes on.
//!
//! The threads of a nest of `threadIdx` loops form a tree: a thread that enters a further such loop
//! waits for the threads of that loop. A barrier is passed when every thread that runs at all waits
//! at the same one; a thread that ended without it makes the barrier divergent.

use super::code::{LoopCode, Op, Pc};
use super::machine::{Event, Frame, Machine};
use crate::stop::Stop;

/// Threads alive at one time.
const THREADS: usize = 1 << 20;

enum State {
    Ready,
    /// At the barrier that this operation is.
    Waiting(Pc),
    /// Until this many threads of an inner loop have ended.
    Joining {
        children: usize,
        end: Pc,
    },
    Ended,
}

struct Thread {
    frame: Frame,
    state: State,
    /// The thread that started it; none for those of the outermost loop.
    parent: Option<usize>,
    /// The loop it is an iteration of, and which one: for messages.
    of: LoopCode,
    ended_children: usize,
}

impl Machine<'_> {
    /// Runs one thread an iteration until all have ended.
    pub(super) fn run_threads<const RACES: bool>(
        &mut self,
        outer: &Frame,
        of: LoopCode,
    ) -> Result<(), Stop> {
        let mut threads = Vec::new();
        self.start::<RACES>(&mut threads, outer, None, of)?;
        loop {
            let mut at = 0;
            // Threads started on the way come after the others.
            while at < threads.len() {
                if matches!(threads[at].state, State::Ready) {
                    self.advance::<RACES>(&mut threads, at)?;
                }
                at += 1;
            }
            if threads.iter().any(|thread| matches!(thread.state, State::Ready)) {
                continue;
            }
            if threads.iter().all(|thread| matches!(thread.state, State::Ended)) {
                return Ok(());
            }
            self.pass_barrier(&mut threads)?;
        }
    }

    fn start<const RACES: bool>(
        &mut self,
        threads: &mut Vec<Thread>,
        frame: &Frame,
        parent: Option<usize>,
        of: LoopCode,
    ) -> Result<usize, Stop> {
        let first = frame.registers[of.start as usize] as i64;
        let stop = frame.registers[of.stop as usize] as i64;
        let mut path = frame.path;
        for value in first..stop {
            self.step()?;
            if threads.len() >= THREADS {
                let detail = format!("more than {THREADS} threads of one thread block");
                return Err(Stop::Exhausted { resource: "threads", detail });
            }
            if RACES {
                path = if value == first {
                    self.races.enter(path, of.info, value)
                } else {
                    self.races.next(path, Some(value))
                };
            }
            let mut frame = Frame { owned: Vec::new(), path, ..frame.clone() };
            frame.registers[of.var as usize] = value as u64;
            let state = State::Ready;
            threads.push(Thread { frame, state, parent, of, ended_children: 0 });
        }
        Ok(usize::try_from(stop.saturating_sub(first)).unwrap_or(0))
    }

    fn advance<const RACES: bool>(
        &mut self,
        threads: &mut Vec<Thread>,
        at: usize,
    ) -> Result<(), Stop> {
        match self.exec::<RACES>(&mut threads[at].frame)? {
            Event::Barrier => threads[at].state = State::Waiting(threads[at].frame.pc - 1),
            Event::Fork(of, end) => {
                let outer = threads[at].frame.clone();
                let children = self.start::<RACES>(threads, &outer, Some(at), of)?;
                threads[at].ended_children = 0;
                threads[at].state = State::Joining { children, end };
                self.join(threads, at);
            }
            Event::Exit | Event::Halt => self.end(threads, at),
        }
        Ok(())
    }

    fn end(&mut self, threads: &mut [Thread], at: usize) {
        threads[at].state = State::Ended;
        for handle in std::mem::take(&mut threads[at].frame.owned) {
            self.release(handle);
        }
        // The memory of a thread that ended is not needed any more, but for its variable.
        threads[at].frame.buffers = Vec::new();
        if let Some(parent) = threads[at].parent {
            threads[parent].ended_children += 1;
            self.join(threads, parent);
        }
    }

    /// Lets a thread go on whose inner threads have all ended.
    fn join(&mut self, threads: &mut [Thread], at: usize) {
        if let State::Joining { children, end } = threads[at].state
            && threads[at].ended_children == children
        {
            threads[at].frame.pc = end;
            threads[at].state = State::Ready;
        }
    }

    /// Called when nobody can go on by himself: lets all go on, when all wait at one barrier.
    fn pass_barrier(&mut self, threads: &mut Vec<Thread>) -> Result<(), Stop> {
        let waiting = threads.iter().find_map(|thread| match thread.state {
            State::Waiting(barrier) => Some((barrier, describe(self, thread))),
            _ => None,
        });
        let (barrier, one) = waiting.expect("invariant: whoever joins has a thread that waits");
        let divergent = threads.iter().enumerate().find_map(|(at, thread)| match thread.state {
            State::Waiting(other) if other != barrier => {
                Some(format!("{} waits at another barrier", describe(self, thread)))
            }
            State::Ended if !self.joined(threads, at) => {
                Some(format!("{} ends without reaching it", describe(self, thread)))
            }
            _ => None,
        });
        if let Some(other) = divergent {
            debug_assert!(matches!(self.code.ops[barrier as usize], Op::Barrier));
            let message = format!("{one} waits at this barrier, but {other}");
            return Err(self.code.trap(barrier, "tir/divergent_barrier", message));
        }
        self.races.barrier();
        for thread in threads {
            if matches!(thread.state, State::Waiting(_)) {
                thread.state = State::Ready;
            }
        }
        Ok(())
    }

    /// Whether a thread that ended belongs to a loop that all its threads have left.
    fn joined(&self, threads: &[Thread], at: usize) -> bool {
        let info = threads[at].of.info;
        threads[at].parent.is_some_and(|parent| match threads[parent].state {
            State::Joining { .. } => {
                // Siblings of an earlier loop have ended, and so has that loop.
                !threads.iter().any(|other| {
                    other.parent == Some(parent)
                        && other.of.info == info
                        && !matches!(other.state, State::Ended)
                })
            }
            State::Ended if threads[parent].parent.is_some() => self.joined(threads, parent),
            State::Ended => false,
            State::Ready | State::Waiting(_) => true,
        })
    }
}

/// `threadIdx iteration tx = 3`
fn describe(machine: &Machine, thread: &Thread) -> String {
    let name = &machine.code.loops[thread.of.info as usize].name;
    format!("the thread {name} = {}", thread.frame.registers[thread.of.var as usize] as i64)
}
