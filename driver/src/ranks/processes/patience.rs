//! How a process waits: at once by turns with others on the same core, later more and more rarely, and not forever.

use std::time::{Duration, Instant};

/// For so long a core that nobody else wants is kept busy: a message between processes takes microseconds.
const BUSY: Duration = Duration::from_millis(2);

/// The longest pause.
const LONGEST: Duration = Duration::from_millis(1);

/// A wait.
pub(super) struct Patience {
    since: Instant,
    timeout: Duration,
}

impl Patience {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { since: Instant::now(), timeout }
    }

    pub(super) fn is_over(&self) -> bool {
        self.since.elapsed() >= self.timeout
    }

    pub(super) fn pause(&mut self) {
        let waited = self.since.elapsed();
        if waited < BUSY {
            std::thread::yield_now();
        } else {
            std::thread::sleep((waited / 100).min(LONGEST));
        }
    }
}
