//! Each mutant against the tests that reach it, quickest first, until one fails; then against generated programs.

use crate::process::{self, Ended, Job};
use crate::trials::Trial;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What came of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A test failed.
    Caught,
    /// A test did not end.
    Hung,
    /// No test failed, generated programs did.
    Fuzzed,
    Survived,
    /// No test and no generated program would have noticed anything.
    Unreached,
}

const WORDS: &[(Verdict, &str)] = &[
    (Verdict::Caught, "caught"),
    (Verdict::Hung, "hung"),
    (Verdict::Fuzzed, "fuzzed"),
    (Verdict::Survived, "survived"),
    (Verdict::Unreached, "unreached"),
];

/// A mutant, what came of it, and by which test.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) number: u32,
    pub(crate) verdict: Verdict,
    pub(crate) by: String,
}

/// What mutants are held against.
pub(crate) struct Hunt {
    pub(crate) trials: Vec<Trial>,
    /// Generated programs, and what they reach.
    pub(crate) fuzzing: Option<(Job, u64, BTreeSet<u32>)>,
    /// Seconds of tests, as long as they take without a mutant, after which a mutant counts as survived.
    pub(crate) budget: u64,
    pub(crate) jobs: usize,
    /// After so many times what it takes without a mutant a test counts as one that does not end.
    pub(crate) patience: u64,
    pub(crate) work: PathBuf,
    /// Where outcomes are written as they come.
    pub(crate) results: PathBuf,
    /// How many mutants each test has found.
    pub(crate) found: Mutex<BTreeMap<String, u32>>,
}

impl Hunt {
    /// Tries every mutant.
    pub(crate) fn run(&self, numbers: &[u32]) -> Result<(), String> {
        let file = std::fs::File::options().create(true).append(true).open(&self.results);
        let file = Mutex::new(file.map_err(|error| error.to_string())?);
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for worker in 0..self.jobs {
                let (next, file) = (&next, &file);
                scope.spawn(move || {
                    let work = self.work.join(worker.to_string());
                    while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let outcome = self.hold(*number, &work);
                        let mut file =
                            file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        // A result that is lost is tried again.
                        let _ = writeln!(file, "{}", outcome.line());
                    }
                });
            }
        });
        Ok(())
    }

    /// How long a test may take; others on the machine slow it down.
    fn limit(&self, milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds * self.patience + 10_000)
    }

    fn found(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, u32>> {
        self.found.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Tests that found many mutants first, for what they take; then quick ones.
    fn order(&self, trials: &mut [&Trial]) {
        let found = self.found();
        let cost = |trial: &&Trial| {
            let found = u64::from(found.get(&trial.shown()).copied().unwrap_or(0));
            (trial.milliseconds + 20) * 100 / (1 + 4 * found)
        };
        trials.sort_by_cached_key(cost);
    }

    fn hold(&self, number: u32, work: &Path) -> Outcome {
        let mut reaching: Vec<&Trial> =
            self.trials.iter().filter(|trial| trial.reached.contains(&number)).collect();
        self.order(&mut reaching);
        let fuzzed = self.fuzzing.as_ref().filter(|(_, _, reached)| reached.contains(&number));
        if reaching.is_empty() && fuzzed.is_none() {
            return Outcome { number, verdict: Verdict::Unreached, by: String::new() };
        }
        let mut spent = 0;
        for trial in reaching {
            spent += trial.milliseconds;
            if spent > self.budget * 1000 {
                break;
            }
            if let Some(verdict) =
                failed(&trial.job(), self.limit(trial.milliseconds), number, work)
            {
                let by = trial.shown();
                *self.found().entry(by.clone()).or_default() += 1;
                return Outcome { number, verdict, by };
            }
        }
        if let Some((job, milliseconds, _)) = fuzzed
            && failed(job, self.limit(*milliseconds), number, work).is_some()
        {
            return Outcome { number, verdict: Verdict::Fuzzed, by: "relax fuzz".to_owned() };
        }
        Outcome { number, verdict: Verdict::Survived, by: String::new() }
    }
}

/// Does a job fail with a mutant?
fn failed(job: &Job, limit: Duration, number: u32, work: &Path) -> Option<Verdict> {
    let ended = process::fresh(work).and_then(|()| job.with_mutant(number, work, limit));
    match ended {
        Ok(Ended::Fine) => None,
        Ok(Ended::Failed) => Some(Verdict::Caught),
        Ok(Ended::Hung) => Some(Verdict::Hung),
        // What could not be run says nothing.
        Err(error) => {
            eprintln!("mutant {number}: {error}");
            None
        }
    }
}

impl Outcome {
    fn line(&self) -> String {
        let word = WORDS.iter().find(|(verdict, _)| *verdict == self.verdict);
        let mut line = format!("{}\t{}\t", self.number, word.map_or("", |(_, word)| word));
        let _ = write!(line, "{}", self.by);
        line
    }

    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split('\t');
        let number = fields.next()?.parse().ok()?;
        let word = fields.next()?;
        let verdict = WORDS.iter().find(|(_, other)| *other == word)?.0;
        Some(Self { number, verdict, by: fields.next().unwrap_or_default().to_owned() })
    }
}

/// The outcomes that are on record; the last one of a mutant counts.
pub(crate) fn read(path: &Path) -> Vec<Outcome> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut outcomes = std::collections::BTreeMap::new();
    for outcome in text.lines().filter_map(Outcome::parse) {
        outcomes.insert(outcome.number, outcome);
    }
    outcomes.into_values().collect()
}
