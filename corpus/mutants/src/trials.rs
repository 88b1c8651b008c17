//! The single tests of the built binaries: how long each takes, and which mutants it would notice, if any test can.

use crate::cargo::Binary;
use crate::options::mixed;
use crate::process::{self, Ended, Job};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A test that can be run alone.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub(crate) binary: PathBuf,
    pub(crate) folder: PathBuf,
    /// Its name in the binary.
    pub(crate) name: String,
    /// How long it takes without a mutant.
    pub(crate) milliseconds: u64,
    /// The mutants for which it asks.
    pub(crate) reached: BTreeSet<u32>,
}

impl Trial {
    /// The command that runs it.
    pub(crate) fn job(&self) -> Job {
        let arguments = [self.name.as_str(), "--exact", "--test-threads=1"];
        Job::new(&self.binary, &arguments, &self.folder)
    }

    /// Its name, and that of its binary without the compiler's mark.
    pub(crate) fn shown(&self) -> String {
        let binary = self.binary.file_name().unwrap_or_default().to_string_lossy();
        let binary = binary.rsplit_once('-').map_or(&*binary, |(name, _)| name);
        format!("{binary} {}", self.name)
    }

    /// Is it this test?
    fn is(&self, other: &Self) -> bool {
        (&self.binary, &self.name) == (&other.binary, &other.name)
    }

    fn line(&self) -> String {
        let reached: Vec<String> = self.reached.iter().map(u32::to_string).collect();
        let (binary, folder) = (self.binary.display(), self.folder.display());
        let (name, time) = (&self.name, self.milliseconds);
        format!("{binary}\t{folder}\t{name}\t{time}\t{}\n", reached.join(","))
    }

    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split('\t');
        let mut field = || fields.next();
        Some(Self {
            binary: field()?.into(),
            folder: field()?.into(),
            name: field()?.to_owned(),
            milliseconds: field()?.parse().ok()?,
            reached: field()?.split(',').filter_map(|number| number.parse().ok()).collect(),
        })
    }
}

/// The names of the tests in a binary.
fn listed(binary: &Binary) -> Vec<Trial> {
    let job = Job::new(&binary.path, &["--list", "--format", "terse"], &binary.folder);
    let text = job.output().unwrap_or_default();
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    let trial = |name: &str| Trial {
        binary: binary.path.clone(),
        folder: binary.folder.clone(),
        name: name.to_owned(),
        milliseconds: 0,
        reached: BTreeSet::new(),
    };
    names.map(trial).collect()
}

/// Which tests are run: of a binary with many, those with one of some texts in their names, and of these one in so many.
pub(crate) struct Thinned<'a> {
    pub(crate) named: &'a [String],
    pub(crate) stride: u64,
    pub(crate) seed: u64,
    /// Those that were run before are not run again.
    pub(crate) known: &'a [Trial],
}

/// Binaries with fewer tests are run whole.
const MANY: usize = 60;

impl Thinned<'_> {
    fn drawn(&self, trials: Vec<Trial>) -> Vec<Trial> {
        let are_many = trials.len() >= MANY;
        let wanted = |(index, trial): (usize, Trial)| {
            let number = u32::try_from(index).unwrap_or(0);
            let name = &trial.name;
            let is_named =
                self.named.is_empty() || self.named.iter().any(|text| name.contains(text.as_str()));
            let is_drawn = is_named && mixed(self.seed, number).is_multiple_of(self.stride);
            let is_known = self.known.iter().any(|known| known.is(&trial));
            (!is_known && (is_drawn || !are_many)).then_some(trial)
        };
        trials.into_iter().enumerate().filter_map(wanted).collect()
    }
}

/// How tests are run to see what they reach.
pub(crate) struct Recording<'a> {
    pub(crate) work: &'a Path,
    /// For a test; those that take longer are left out.
    pub(crate) seconds: u64,
    pub(crate) jobs: usize,
    /// Where each test is written when it has run: what is broken off goes on from there.
    pub(crate) file: &'a Path,
}

/// Runs every test alone, some at a time, and notes what it reaches. Tests that fail or take too long are left out.
pub(crate) fn record(
    binaries: &[Binary],
    thinned: &Thinned,
    recording: &Recording,
) -> std::io::Result<Vec<Trial>> {
    let Recording { work, seconds, jobs, file } = *recording;
    let file = Mutex::new(std::fs::File::options().create(true).append(true).open(file)?);
    let trials: Vec<Trial> = binaries
        .iter()
        .filter(|binary| binary.is_test)
        .flat_map(|binary| thinned.drawn(listed(binary)))
        .collect();
    let next = AtomicUsize::new(0);
    let done = Mutex::new(vec![None; trials.len()]);
    std::thread::scope(|scope| {
        for worker in 0..jobs {
            let (next, done, trials, file) = (&next, &done, &trials, &file);
            scope.spawn(move || {
                while let Some(trial) = trials.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let index = trials.iter().position(|other| std::ptr::eq(other, trial));
                    let recorded = record_one(trial, &work.join(worker.to_string()), seconds);
                    if let Some(trial) = &recorded {
                        let mut file =
                            file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        // A test that is not noted is run again.
                        let _ = file.write_all(trial.line().as_bytes());
                    }
                    let mut done = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    if let Some(index) = index {
                        done[index] = recorded;
                    }
                }
            });
        }
    });
    let done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(done.into_iter().flatten().collect())
}

fn record_one(trial: &Trial, work: &Path, seconds: u64) -> Option<Trial> {
    let ran = process::fresh(work).and_then(|()| trial.job().noted(work, seconds));
    match ran {
        Ok((Ended::Fine, milliseconds, reached)) => {
            Some(Trial { milliseconds, reached, ..trial.clone() })
        }
        Ok((ended, milliseconds, _)) => {
            let (binary, name) = (trial.binary.display(), &trial.name);
            eprintln!("left out: {binary} {name}: {ended:?} after {milliseconds} ms");
            None
        }
        Err(error) => {
            eprintln!("left out: {}: {error}", trial.name);
            None
        }
    }
}

/// Writes what was recorded.
pub(crate) fn write(path: &Path, trials: &[Trial]) -> std::io::Result<()> {
    std::fs::write(path, trials.iter().map(Trial::line).collect::<String>())
}

/// What was recorded.
pub(crate) fn read(path: &Path) -> std::io::Result<Vec<Trial>> {
    Ok(std::fs::read_to_string(path)?.lines().filter_map(Trial::parse).collect())
}
