//! Counters of a server, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

#[derive(Default)]
pub(super) struct Metrics {
    /// Finished requests by the status of their answer.
    requests: Mutex<BTreeMap<u16, u64>>,
    prompt_tokens: AtomicU64,
    generated_tokens: AtomicU64,
    cancelled: AtomicU64,
    steps: AtomicU64,
    step_sequences: AtomicU64,
    step_micros: AtomicU64,
    running: AtomicU64,
    cache_bytes: AtomicU64,
    /// Requests whose answer has not been written.
    pub(super) open: AtomicU64,
    pub(super) lost_log_lines: AtomicU64,
}

impl Metrics {
    pub(super) fn add_request(&self, status: u16) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry(status).or_default() += 1;
    }

    pub(super) fn add_prompt(&self, tokens: usize) {
        self.prompt_tokens.fetch_add(tokens as u64, Relaxed);
    }

    pub(super) fn add_generated(&self) {
        self.generated_tokens.fetch_add(1, Relaxed);
    }

    pub(super) fn add_cancelled(&self) {
        self.cancelled.fetch_add(1, Relaxed);
    }

    /// A call of the model for so many sequences.
    pub(super) fn add_step(&self, sequences: usize, took: Duration) {
        self.steps.fetch_add(1, Relaxed);
        self.step_sequences.fetch_add(sequences as u64, Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.step_micros.fetch_add(micros, Relaxed);
    }

    pub(super) fn set_running(&self, sequences: usize, bytes: u64) {
        self.running.store(sequences as u64, Relaxed);
        self.cache_bytes.store(bytes, Relaxed);
    }

    pub(super) fn text(&self, waiting: usize) -> String {
        let mut text = String::from(
            "# HELP relax_requests_total Requests by status of the answer; 499 is a client that left.\n# TYPE relax_requests_total counter\n",
        );
        for (status, count) in self.requests.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = writeln!(text, "relax_requests_total{{status=\"{status}\"}} {count}");
        }
        let read = |counter: &AtomicU64| counter.load(Relaxed) as f64;
        let rows = [
            ("relax_prompt_tokens_total", "Tokens of prompts.", read(&self.prompt_tokens)),
            ("relax_generated_tokens_total", "Generated tokens.", read(&self.generated_tokens)),
            (
                "relax_cancelled_total",
                "Sequences that ended because the client left or the time was over.",
                read(&self.cancelled),
            ),
            ("relax_steps_total", "Calls of the model.", read(&self.steps)),
            (
                "relax_step_sequences_total",
                "Sequences in calls of the model.",
                read(&self.step_sequences),
            ),
            (
                "relax_step_seconds_total",
                "Time in calls of the model.",
                read(&self.step_micros) / 1e6,
            ),
            (
                "relax_lost_log_lines_total",
                "Lines that nobody read in time.",
                read(&self.lost_log_lines),
            ),
            ("relax_running", "Sequences that are computed.", read(&self.running)),
            ("relax_waiting", "Sequences in the queue.", waiting as f64),
            ("relax_open_requests", "Requests without a complete answer.", read(&self.open)),
            (
                "relax_cache_bytes",
                "Bytes reserved for keys and values of running sequences.",
                read(&self.cache_bytes),
            ),
        ];
        for (name, help, value) in rows {
            let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        }
        text
    }
}
