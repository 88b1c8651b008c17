//! The thread that calls the model: it admits sequences while memory and places last, and gives each of them one step in turn.

use super::metrics::Metrics;
use super::queue::{Event, Job, Queue, Wait};
use super::refusal::Refusal;
use crate::commands::generate::{Callable, Interrupted, Sequence, Step};
use relax_llm::Tokenizer;
use relax_runtime::Stop;
use std::time::Instant;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

/// What a running server may use.
pub(super) struct Engine<'m> {
    pub(super) model: Callable<'m>,
    pub(super) tokenizer: &'m Tokenizer,
    pub(super) queue: &'m Queue,
    pub(super) metrics: &'m Metrics,
    /// Of the server.
    pub(super) stop: &'m watch::Sender<bool>,
    /// Sequences at once.
    pub(super) parallel: usize,
    /// Bytes of keys and values of all sequences.
    pub(super) bytes: u64,
}

struct Running<'m> {
    sequence: Sequence<'m>,
    bytes: u64,
    choice: usize,
    events: UnboundedSender<(usize, Event)>,
}

/// Ends the server when this thread ends, however it does.
struct StopOnDrop<'q>(&'q Queue, &'q watch::Sender<bool>);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.cut();
        let _ = self.1.send(true);
    }
}

impl<'m> Engine<'m> {
    /// Runs until the queue is stopped and all sequences have ended.
    pub(super) fn run(&self) {
        let _stop = StopOnDrop(self.queue, self.stop);
        let mut running: Vec<Running<'m>> = Vec::new();
        loop {
            self.admit(&mut running);
            if self.queue.is_cut() || (running.is_empty() && self.queue.is_over()) {
                return;
            }
            running.retain_mut(|one| self.advance(one));
            self.metrics.set_running(running.len(), reserved(&running));
        }
    }

    fn admit(&self, running: &mut Vec<Running<'m>>) {
        while running.len() < self.parallel {
            let wait = if running.is_empty() { Wait::Yes } else { Wait::No };
            let free = self.bytes - reserved(running).min(self.bytes);
            let Some(job) = self.queue.pop(free, wait) else { return };
            let Job { asked, bytes, choice, events } = job;
            self.metrics.add_prompt(asked.prompt.len());
            match Sequence::new(self.model, Some(self.tokenizer), asked) {
                Ok(sequence) => {
                    let _ = events.send((choice, Event::Started));
                    running.push(Running { sequence, bytes, choice, events });
                }
                Err(why) => {
                    let _ = events.send((choice, Event::Failed(refusal(why))));
                }
            }
            self.metrics.set_running(running.len(), reserved(running));
        }
    }

    /// One step of a sequence; whether it goes on.
    fn advance(&self, one: &mut Running<'m>) -> bool {
        if one.events.is_closed() {
            self.metrics.add_cancelled();
            return false;
        }
        let start = Instant::now();
        let step = one.sequence.step();
        self.metrics.add_step(start.elapsed());
        let send = |event| one.events.send((one.choice, event)).is_ok();
        match step {
            Err(why) => {
                send(Event::Failed(refusal(why)));
                false
            }
            Ok(Step { token, end, .. }) => {
                if let Some(token) = token {
                    self.metrics.add_generated();
                    send(Event::Token(token));
                }
                if let Some((reason, rest)) = end {
                    send(Event::End(reason, rest));
                    return false;
                }
                true
            }
        }
    }
}

fn reserved(running: &[Running<'_>]) -> u64 {
    running.iter().map(|one| one.bytes).sum()
}

fn refusal(why: Interrupted) -> Refusal {
    match why {
        Interrupted::Stop(stop @ Stop::Exhausted { .. }) => {
            Refusal::internal(format!("the model stopped at a limit of the server: {stop}"))
        }
        Interrupted::Stop(stop) => Refusal::internal(format!("the model stopped: {stop}")),
        Interrupted::Sampling(why) => Refusal::internal(why.to_string()),
        Interrupted::Token(why) => Refusal::internal(why.to_string()),
    }
}
