//! Fuzzing session: generates programs from seeds, asks the oracles, counts the outcomes.

use crate::case::{Case, Finding};
use crate::coverage::Coverage;
use crate::oracles::Oracle;
use crate::times::{Times, Work};
use relax_rewrite::pass::Device;
use relax_rewrite::verify::Tally;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What shall be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Of the first program.
    pub seed: u64,
    /// What is held.
    pub oracles: Vec<Oracle>,
    /// What runs kernels.
    pub backend: Device,
    /// Findings after which it ends.
    pub findings: usize,
}

/// What became of programs and calls.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Programs that were generated.
    pub programs: u64,
    /// Those that the checker refuses.
    pub refused: u64,
    /// Calls whose values were compared.
    pub compared: u64,
    /// Calls that stopped alike.
    pub trapped: u64,
    /// Calls that gave up at a limit.
    pub exhausted: u64,
    /// What a side does not run.
    pub unsupported: u64,
    /// No inputs for the signature at the dims that were drawn.
    pub unfit: u64,
    /// Twins that the checker refuses where the program stops.
    pub rejected: u64,
    /// Calls of operators in those that were not refused.
    pub calls: u64,
    /// What was reached.
    pub coverage: Coverage,
    /// Where the time went, if there is a clock.
    pub times: Times,
    /// What became of the programs by oracle, in the order of [`Oracle::ALL`].
    pub by_oracle: BTreeMap<Oracle, Share>,
    traps: BTreeMap<String, u64>,
    /// Seeds that programs were made of.
    seeds: u64,
}

/// What one oracle had to do with the programs that the checker accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Those that it was asked about.
    pub programs: u64,
    /// Those of which it compared at least one value.
    pub compared: u64,
    /// Nanoseconds, if there is a clock: without making and reading programs, which all oracles share. What several need
    /// is counted for the first.
    pub nanoseconds: u64,
}

/// A finding, and what it was found with.
#[derive(Clone, Debug)]
pub struct Found {
    /// The oracle.
    pub oracle: Oracle,
    /// Of the program.
    pub seed: u64,
    /// The program.
    pub text: String,
    /// What does not hold.
    pub finding: Finding,
}

/// Runs programs until `go_on`, asked before each seed with the number of those before, says no.
pub fn run(
    plan: &Plan,
    go_on: &mut dyn FnMut(u64) -> bool,
    statistics: &mut Statistics,
) -> Vec<Found> {
    let of_meshes = |oracle: &Oracle| oracle.is_of_meshes();
    let (placed, others): (Vec<Oracle>, Vec<Oracle>) =
        plan.oracles.iter().partition(|o| of_meshes(o));
    let mut found = Vec::new();
    while found.len() < plan.findings && go_on(statistics.seeds) {
        let seed = plan.seed.wrapping_add(statistics.seeds);
        statistics.seeds += 1;
        for oracles in [&others, &placed] {
            one(seed, oracles, plan.backend, statistics, &mut found);
        }
    }
    found
}

/// Asks some oracles about their program of a seed.
fn one(
    seed: u64,
    oracles: &[Oracle],
    backend: Device,
    statistics: &mut Statistics,
    found: &mut Vec<Found>,
) {
    let Some(first) = oracles.first() else { return };
    statistics.programs += 1;
    let start = statistics.times.now();
    let text = first.program(seed);
    let made = statistics.times.spent(Work::Generate, start);
    let read = guarded(|| Case::read(&text, seed));
    statistics.times.spent(Work::Read, made);
    let case = match read {
        Ok(Some(case)) => case,
        Ok(None) => {
            statistics.refused += 1;
            return;
        }
        Err(why) => {
            let finding = Finding::new("panic", why, "check FILE");
            found.push(Found { oracle: Oracle::Check, seed, text, finding });
            return;
        }
    };
    statistics.calls += statistics.coverage.note(&case.checked);
    for &oracle in oracles {
        if let Err(finding) = try_one(oracle, &case, backend, statistics) {
            found.push(Found { oracle, seed, text: text.clone(), finding });
        }
    }
}

/// Holds one oracle; a panic is a finding.
///
/// # Errors
/// What does not hold.
pub fn try_one(
    oracle: Oracle,
    case: &Case,
    backend: Device,
    statistics: &mut Statistics,
) -> Result<(), Finding> {
    let (start, compared) = (statistics.times.now(), statistics.compared);
    let held = guarded(|| oracle.hold(case, backend, statistics));
    let nanoseconds = statistics.times.now().saturating_sub(start);
    let share = statistics.by_oracle.entry(oracle).or_default();
    share.programs += 1;
    share.compared += u64::from(statistics.compared > compared);
    share.nanoseconds += nanoseconds;
    match held {
        Ok(held) => held,
        Err(why) => Err(Finding::new("panic", why, "opt FILE --to P2.3 --verify -o OUT.rx")),
    }
}

/// What an oracle says of a program that is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// The checker refuses it.
    Refused,
    /// Nothing is found.
    Holds,
    /// What does not hold.
    Found(Finding),
}

/// Holds one oracle of a program, with dims and inputs by a seed. A panic is a finding.
pub fn replay(
    text: &str,
    (oracle, seed): (Oracle, u64),
    backend: Device,
    statistics: &mut Statistics,
) -> Replayed {
    let case = match guarded(|| Case::read(text, seed)) {
        Ok(Some(case)) => case,
        Ok(None) => return Replayed::Refused,
        Err(why) => return Replayed::Found(Finding::new("panic", why, "check FILE")),
    };
    match try_one(oracle, &case, backend, statistics) {
        Ok(()) => Replayed::Holds,
        Err(finding) => Replayed::Found(finding),
    }
}

/// What a panic says instead of the panic.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        format!("a panic: {}", text.unwrap_or_default())
    })
}

impl Share {
    /// Programs a second of the oracle's own time; `None` without a clock.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        (self.nanoseconds > 0).then(|| self.programs as f64 * 1e9 / self.nanoseconds as f64)
    }
}

impl Statistics {
    /// With an account of the time, by a clock of nanoseconds since some start.
    #[must_use]
    pub fn timed(clock: fn() -> u64) -> Self {
        Self { times: Times::by(clock), ..Self::default() }
    }

    /// Adds what a verification compared.
    pub fn add(&mut self, tally: &Tally) {
        self.compared += u64::from(tally.compared);
        self.trapped += u64::from(tally.trapped);
        self.exhausted += u64::from(tally.exhausted);
        self.unsupported += u64::from(tally.unsupported);
        self.unfit += u64::from(tally.rejected);
    }

    pub(crate) fn note_trap(&mut self, id: &str) {
        *self.traps.entry(id.to_owned()).or_default() += 1;
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} programs, {} of them refused by the checker, with {} calls of operators in the others\n\
             {} compared, {} trapped alike, {} gave up \
             at a limit, {} unsupported, {} without inputs, {} twins refused",
            self.programs,
            self.refused,
            self.calls,
            self.compared,
            self.trapped,
            self.exhausted,
            self.unsupported,
            self.unfit,
            self.rejected
        )?;
        write!(f, "coverage: {}", self.coverage)
    }
}
