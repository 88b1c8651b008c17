//! The thread that calls the model (continuous batching): it admits sequences while memory and places last. A round computes one part of one
//! prompt, then the next token of all sequences in one call.

use super::metrics::Metrics;
use super::queue::{Event, Input, Job, Queue, Wait};
use super::refusal::Refusal;
use crate::commands::generate::{
    Asked, Checkpoint, Encoded, Interrupted, Pool, Sequence, Step, Vision,
};
use relax_llm::Tokenizer;
use relax_runtime::Stop;
use std::time::Instant;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

/// What a running server may use.
pub(super) struct Engine<'m> {
    pub(super) checkpoint: &'m Checkpoint,
    pub(super) tokenizer: &'m Tokenizer,
    /// Of a model of text and images.
    pub(super) vision: Option<&'m Vision>,
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
    pub(super) fn run(&self, mut pool: Pool<'m>) {
        let _stop = StopOnDrop(self.queue, self.stop);
        let mut running: Vec<Running<'m>> = Vec::new();
        loop {
            self.admit(&mut running, &mut pool);
            if self.queue.is_cut() || (running.is_empty() && self.queue.is_over()) {
                return;
            }
            self.leave(&mut running);
            self.read_prompt(&mut running, &mut pool);
            self.leave(&mut running);
            self.decode(&mut running, &mut pool);
            self.metrics.set_running(running.len(), reserved(&running));
        }
    }

    fn admit(&self, running: &mut Vec<Running<'m>>, pool: &mut Pool<'m>) {
        while running.len() < self.parallel {
            let wait = if running.is_empty() { Wait::Yes } else { Wait::No };
            let free = self.bytes - reserved(running).min(self.bytes);
            let Some(job) = self.queue.pop(free, wait) else { return };
            let Job { asked, input, bytes, choice, events } = job;
            match self.begun(asked, &input, pool) {
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

    /// A sequence, after the encoder has read what there is beside its prompt.
    fn begun(
        &self,
        mut asked: Asked,
        input: &Input,
        pool: &mut Pool<'m>,
    ) -> Result<Sequence<'m>, Interrupted> {
        let encoded = match (input, self.vision, &self.checkpoint.speech_tokens) {
            (Input::Speech(speech), _, Some(tokens)) => {
                let encoded = speech.encode(pool).map_err(Interrupted::Stop)?;
                let prompt = speech.prompt(tokens, &encoded, pool);
                asked.prompt = prompt.map_err(Interrupted::Stop)?;
                encoded
            }
            (Input::Images(pixels), Some(vision), _) => {
                vision.encode(pixels, pool).map_err(Interrupted::Stop)?
            }
            _ => Encoded::Nothing,
        };
        self.metrics.add_prompt(asked.prompt.len());
        Sequence::new((self.checkpoint, pool), Some(self.tokenizer), (asked, encoded))
    }

    /// Ends the sequences whose clients are gone.
    fn leave(&self, running: &mut Vec<Running<'m>>) {
        running.retain(|one| {
            let is_gone = one.events.is_closed();
            if is_gone {
                self.metrics.add_cancelled();
            }
            !is_gone
        });
    }

    /// One part of the first prompt that is not read.
    fn read_prompt(&self, running: &mut Vec<Running<'m>>, pool: &mut Pool<'m>) {
        let Some(at) = running.iter().position(|one| one.sequence.due() != 1) else { return };
        let start = Instant::now();
        let step = running[at].sequence.step(pool);
        self.metrics.add_step(1, start.elapsed());
        if !self.tell(&running[at], step) {
            running.remove(at);
        }
    }

    /// One token of each sequence whose prompt is read.
    fn decode(&self, running: &mut Vec<Running<'m>>, pool: &mut Pool<'m>) {
        // A sequence that decodes may be at its end afterwards.
        let is_due: Vec<bool> = running.iter().map(|one| one.sequence.due() == 1).collect();
        let due = running.iter_mut().zip(&is_due).filter(|(_, is_due)| **is_due);
        let mut batch: Vec<&mut Sequence<'m>> = due.map(|(one, _)| &mut one.sequence).collect();
        if batch.is_empty() {
            return;
        }
        let calls = batch.len().div_ceil(pool.most_sequences());
        let mut steps = Vec::with_capacity(batch.len());
        let most = batch.len().div_ceil(calls);
        for part in batch.chunks_mut(most) {
            steps.extend(self.step(part, pool));
        }
        let (mut is_due, mut steps) = (is_due.into_iter(), steps.into_iter());
        running.retain(|one| match is_due.next() {
            Some(true) => steps.next().is_some_and(|step| self.tell(one, step)),
            _ => true,
        });
    }

    /// One call for these sequences. A trap does not say whose it is: where the call stops, each sequence has a call of its own, so that
    /// those end that stop alone, and the others go on.
    fn step(
        &self,
        part: &mut [&mut Sequence<'m>],
        pool: &mut Pool<'m>,
    ) -> Vec<Result<Step, Interrupted>> {
        let (start, count) = (Instant::now(), part.len());
        let together = Sequence::step_together(part, pool);
        self.metrics.add_step(count, start.elapsed());
        match together {
            Ok(steps) => steps,
            Err(stop) if count == 1 => vec![Err(Interrupted::Stop(stop))],
            Err(_) => part.chunks_mut(1).flat_map(|alone| self.step(alone, pool)).collect(),
        }
    }

    /// Tells a client of a step; whether its sequence goes on.
    fn tell(&self, one: &Running<'m>, step: Result<Step, Interrupted>) -> bool {
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
        Interrupted::Grammar(why) => Refusal::field("response_format", why.to_string()),
    }
}

#[cfg(test)]
mod tests;
