//! How a process waits, and for what: at first by turns with others on the same core, later more and more rarely, and not forever.

use relax_semantics::ranks::Place;
use relax_semantics::stop::Stop;
use std::time::{Duration, Instant};

/// For so long a core that nobody else wants is kept busy: a message between processes takes microseconds.
const BUSY: Duration = Duration::from_millis(2);

/// The longest pause.
const LONGEST: Duration = Duration::from_millis(1);

/// How long a thread that nobody needs yet leaves the core to others.
const BESIDE: Duration = Duration::from_micros(50);

/// A wait that becomes rarer and ends.
pub(super) struct Patience<'a> {
    since: Instant,
    timeout: Duration,
    yields: bool,
    is_awaited: &'a dyn Fn() -> bool,
}

impl<'a> Patience<'a> {
    /// `yields` says whether the one that is waited for may need this core, `is_awaited` whether somebody waits for this thread.
    pub(super) fn new(timeout: Duration, yields: bool, is_awaited: &'a dyn Fn() -> bool) -> Self {
        Self { since: Instant::now(), timeout, yields, is_awaited }
    }

    pub(super) fn is_over(&self) -> bool {
        self.since.elapsed() >= self.timeout
    }

    pub(super) fn pause(&mut self) {
        let waited = self.since.elapsed();
        if !(self.is_awaited)() {
            std::thread::sleep(BESIDE);
        } else if waited < BUSY && self.yields {
            std::thread::yield_now();
        } else if waited < BUSY {
            // To yield would be to wait until whatever else the machine does has had its turn.
            std::hint::spin_loop();
        } else {
            std::thread::sleep((waited / 100).min(LONGEST));
        }
    }
}

/// What a rank waits for.
pub(super) enum Awaited {
    /// The other ranks of a collective, called at a place.
    Collective(String, Place),
    /// Something without a place in the program.
    Other(&'static str),
}

impl Awaited {
    pub(super) fn start() -> Self {
        Self::Other("its start")
    }

    pub(super) fn end() -> Self {
        Self::Other("its end")
    }

    /// The trap of a rank that waits for others in vain.
    pub(super) fn stop(
        &self,
        missing: &[usize],
        (rank, ranks): (usize, usize),
        timeout: Duration,
    ) -> Stop {
        let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
        let who = match names.as_slice() {
            [one] => format!("rank {one}"),
            several => format!("the ranks {}", several.join(", ")),
        };
        let (what, place) = match self {
            Self::Collective(what, place) => (what.as_str(), Some(place)),
            Self::Other(what) => (*what, None),
        };
        let message = format!("{who} did not come to {what} within {} s", timeout.as_secs_f64());
        let Stop::Trap(mut trap) = Stop::trap("ranks/timeout", message) else {
            unreachable!("it is a trap")
        };
        if let Some(place) = place {
            (trap.span, trap.function) = (place.span, Some(place.function.clone()));
        }
        trap.notes.push(format!("rank {rank} of {ranks} waits there"));
        Stop::Trap(trap)
    }
}
