//! Time per kind of work, by the clock of the caller: the crate has none.

/// A part of the work on a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Bytes become a text.
    Generate,
    /// A text is parsed, resolved and checked.
    Read,
    /// Passes transform it.
    Transform,
    /// What they made is checked.
    Check,
    /// Functions are called, and what they give is compared.
    Run,
}

/// All of them, with the words of an account.
const PARTS: [(Work, &str); 5] = [
    (Work::Generate, "made"),
    (Work::Read, "read and checked"),
    (Work::Transform, "transformed by passes"),
    (Work::Check, "checked after passes"),
    (Work::Run, "run and compared"),
];

/// Nanoseconds of each part; none without a clock.
#[derive(Clone, Debug, Default)]
pub struct Times {
    clock: Option<fn() -> u64>,
    spent: [u64; PARTS.len()],
}

impl Times {
    /// Counts by a clock of nanoseconds since some start.
    #[must_use]
    pub fn by(clock: fn() -> u64) -> Self {
        Self { clock: Some(clock), ..Self::default() }
    }

    /// A moment, for [`Times::spent`].
    pub(crate) fn now(&self) -> u64 {
        self.clock.map_or(0, |clock| clock())
    }

    /// Since that moment it was this work; gives the moment after it.
    pub(crate) fn spent(&mut self, work: Work, since: u64) -> u64 {
        let now = self.now();
        self.spent[work as usize] += now.saturating_sub(since);
        now
    }

    /// The account of so many programs that took so many seconds together.
    #[must_use]
    pub fn account(&self, programs: u64, seconds: f64) -> String {
        let each = |seconds: f64| seconds * 1e6 / programs.max(1) as f64;
        let spent = |part: u64| part as f64 / 1e9;
        let rest = seconds - self.spent.iter().map(|&part| spent(part)).sum::<f64>();
        let parts = PARTS.iter().map(|(work, name)| (*name, spent(self.spent[*work as usize])));
        let parts = parts.chain([("the rest", rest.max(0.0))]);
        let parts: Vec<String> =
            parts.map(|(name, part)| format!("{name} {:.0}", each(part))).collect();
        format!("{:.0} microseconds a program: {}", each(seconds), parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::{Times, Work};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A microsecond later each time.
    fn ticks() -> u64 {
        static NOW: AtomicU64 = AtomicU64::new(0);
        NOW.fetch_add(1000, Ordering::Relaxed)
    }

    #[test]
    fn what_is_not_accounted_for_is_told_too() {
        let mut times = Times::by(ticks);
        let start = times.now();
        let made = times.spent(Work::Generate, start);
        times.spent(Work::Run, made);
        assert_eq!(
            times.account(1, 5e-6),
            "5 microseconds a program: made 1, read and checked 0, transformed by passes 0, \
             checked after passes 0, run and compared 1, the rest 3"
        );
    }
}
