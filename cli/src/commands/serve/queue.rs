//! The queue between server and model: bounded, first in, first out, and closed when the server stops.

use super::refusal::Refusal;
use crate::commands::generate::{Asked, Emitted, Pixels, Reason, Speech};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

/// News of a sequence.
#[derive(Debug)]
pub(super) enum Event {
    /// It is no longer in the queue.
    Started,
    Token(Emitted),
    /// Why there is no more, and the text that was held back.
    End(Reason, String),
    Failed(Refusal),
}

/// News of the sequences of a request, each with its choice.
pub(super) type News = UnboundedReceiver<(usize, Event)>;

/// What a sequence reads beside its prompt.
pub(super) enum Input {
    Text,
    /// The sequence has no prompt yet.
    Speech(Speech),
    /// Of the messages; choices of a request share them.
    Images(Arc<Pixels>),
}

/// A sequence that is asked for.
pub(super) struct Job {
    pub(super) asked: Asked,
    pub(super) input: Input,
    /// Bytes of keys and values that it may need.
    pub(super) bytes: u64,
    /// Which of the choices of a request it is.
    pub(super) choice: usize,
    /// A sequence has no more tokens than it asks for, so that this channel is bounded, and a slow client holds up nobody. It is closed when
    /// the client is gone.
    pub(super) events: UnboundedSender<(usize, Event)>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Open,
    /// Running sequences end, and there are no new ones.
    Stopping,
    /// All sequences end at once.
    Cut,
}

struct State {
    jobs: VecDeque<Job>,
    phase: Phase,
}

pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    most: usize,
}

impl Queue {
    pub(super) fn new(most: usize) -> Self {
        let state = Mutex::new(State { jobs: VecDeque::new(), phase: Phase::Open });
        Self { state, changed: Condvar::new(), most }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the sequences of a request, all or none.
    pub(super) fn push(&self, jobs: Vec<Job>) -> Result<(), Refusal> {
        let mut state = self.state();
        if state.phase != Phase::Open {
            return Err(Refusal::stopping());
        }
        // Clients that are gone do not wait.
        state.jobs.retain(|job| !job.events.is_closed());
        if jobs.len() > self.most - state.jobs.len().min(self.most) {
            return Err(Refusal::full());
        }
        state.jobs.extend(jobs);
        self.changed.notify_all();
        Ok(())
    }

    /// The first sequence, if its keys and values fit; `None` if there is none. Waits for one if asked to, unless the server stops.
    pub(super) fn pop(&self, free: u64, wait: Wait) -> Option<Job> {
        let mut state = self.state();
        loop {
            state.jobs.retain(|job| !job.events.is_closed());
            match state.jobs.front() {
                Some(job) if job.bytes <= free => return state.jobs.pop_front(),
                Some(_) => return None,
                None if wait == Wait::No || state.phase != Phase::Open => return None,
                None => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.state().jobs.len()
    }

    /// Refuses requests that wait, and those that come.
    pub(super) fn stop(&self) {
        self.advance(Phase::Stopping);
    }

    /// Ends running sequences too.
    pub(super) fn cut(&self) {
        self.advance(Phase::Cut);
    }

    fn advance(&self, phase: Phase) {
        let mut state = self.state();
        state.phase = state.phase.max(phase);
        // Further choices of a request whose first one runs are in front.
        let is_new = |job: &Job| phase == Phase::Cut || job.choice == 0;
        let first = state.jobs.iter().position(is_new).unwrap_or(state.jobs.len());
        for job in state.jobs.drain(first..) {
            let _ = job.events.send((job.choice, Event::Failed(Refusal::stopping())));
        }
        self.changed.notify_all();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.state().phase != Phase::Open
    }

    /// Whether nothing is left to begin.
    pub(super) fn is_over(&self) -> bool {
        let state = self.state();
        state.phase != Phase::Open && state.jobs.is_empty()
    }

    pub(super) fn is_cut(&self) -> bool {
        self.state().phase == Phase::Cut
    }
}

/// Whether to wait for a sequence.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    No,
    Yes,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::generate::Suppressed;
    use relax_llm::{Sampler, Sampling};
    use tokio::sync::mpsc::unbounded_channel;

    fn job(bytes: u64) -> (Job, News) {
        let sampler = Sampler::new(Sampling::greedy(), 0).expect("the switches are admitted");
        let (prompt, stops) = (vec![1], Vec::new());
        let suppressed = Suppressed::default();
        let asked = Asked {
            prompt,
            sampler,
            max_tokens: 1,
            context: 2,
            top_logprobs: 0,
            stops,
            suppressed,
            constraint: None,
        };
        let (events, receiver) = unbounded_channel();
        (Job { asked, input: Input::Text, bytes, choice: 0, events }, receiver)
    }

    #[test]
    fn a_full_queue_refuses_and_a_client_that_is_gone_makes_room() {
        let queue = Queue::new(2);
        let (jobs, mut receivers): (Vec<_>, Vec<_>) = (0..2).map(|_| job(1)).unzip();
        assert_eq!(queue.push(jobs), Ok(()));
        let (third, _third) = job(1);
        assert_eq!(queue.push(vec![third]), Err(Refusal::full()));
        receivers.pop();
        let (fourth, _fourth) = job(1);
        assert_eq!((queue.push(vec![fourth]), queue.waiting()), (Ok(()), 2));
    }

    #[test]
    fn the_first_one_waits_until_it_fits() {
        let queue = Queue::new(2);
        let ((large, _large), (small, _small)) = (job(10), job(1));
        assert_eq!(queue.push(vec![large, small]), Ok(()));
        assert!(queue.pop(9, Wait::Yes).is_none());
        assert_eq!(queue.pop(10, Wait::No).map(|job| job.bytes), Some(10));
        assert_eq!(queue.pop(10, Wait::No).map(|job| job.bytes), Some(1));
        assert!(queue.pop(10, Wait::No).is_none());
    }

    #[test]
    fn a_queue_that_stops_refuses_all() {
        let queue = Queue::new(2);
        let (first, mut receiver) = job(1);
        assert_eq!(queue.push(vec![first]), Ok(()));
        queue.stop();
        assert!(matches!(receiver.try_recv(), Ok((0, Event::Failed(_)))));
        assert_eq!(queue.push(vec![job(1).0]), Err(Refusal::stopping()));
        assert!(queue.pop(1, Wait::Yes).is_none() && queue.is_stopping() && !queue.is_cut());
        queue.cut();
        queue.stop();
        assert!(queue.is_cut());
    }
}
