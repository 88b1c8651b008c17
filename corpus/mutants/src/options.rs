//! The arguments of the command.

use crate::sites::Mutant;
use crate::table::{SEEDED, part};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const USAGE: &str = "usage: relax-mutants FOLDER [list] [build] [record] [run] [table] [--stride N] [--sample N] [--seed N] [--part NAME]...
  [--only N,N] [--besides RESULTS] [--budget SECONDS] [--trial SECONDS] [--named TEXT]... [--thin N] [--programs N] [--jobs N] [--patience N] [--again] [-- ARGUMENTS OF CARGO TEST]";

/// What is done; all of it when nothing is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Writes down the mutants; the build does this too.
    List,
    Build,
    Record,
    Run,
    Table,
}

/// How it is done.
#[derive(Debug)]
pub(crate) struct Options {
    /// The workspace.
    pub(crate) root: PathBuf,
    /// Where everything is kept.
    pub(crate) folder: PathBuf,
    pub(crate) stages: Vec<Stage>,
    /// One of so many mutants is tried.
    pub(crate) stride: u64,
    /// Of each part so many mutants are drawn, and only those are compiled.
    pub(crate) sample: Option<usize>,
    /// Which ones.
    pub(crate) seed: u64,
    /// Parts that are tried; all when there is none.
    pub(crate) parts: Vec<String>,
    /// Mutants that are tried, whatever else is said.
    pub(crate) only: Vec<u32>,
    /// Results of an earlier run: a fresh sample has none of these mutants.
    pub(crate) besides: Option<PathBuf>,
    /// Seconds of tests for a mutant.
    pub(crate) budget: u64,
    /// Of a binary with many tests, those with one of these texts in their names are run.
    pub(crate) named: Vec<String>,
    /// Of a binary with many tests, one in so many is run.
    pub(crate) thin: u64,
    /// Seconds for a test; those that take longer are left out.
    pub(crate) trial: u64,
    /// Generated programs for mutants that tests leave.
    pub(crate) programs: u64,
    pub(crate) jobs: usize,
    /// After so many times what it takes without a mutant a test counts as one that does not end.
    pub(crate) patience: u64,
    /// Also those that were left before.
    pub(crate) again: bool,
    /// What cargo builds.
    pub(crate) cargo: Vec<String>,
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            root: root(),
            folder: PathBuf::new(),
            stages: Vec::new(),
            stride: 1,
            sample: None,
            seed: 1,
            parts: Vec::new(),
            only: Vec::new(),
            besides: None,
            budget: 60,
            named: Vec::new(),
            thin: 1,
            trial: 20,
            programs: 500,
            jobs: 2,
            patience: 8,
            again: false,
            cargo: Vec::new(),
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            if argument == "--" {
                options.cargo = rest.cloned().collect();
                break;
            }
            options.take(argument, &mut rest)?;
        }
        if options.folder.as_os_str().is_empty() {
            return Err(USAGE.to_owned());
        }
        std::fs::create_dir_all(&options.folder).map_err(|error| error.to_string())?;
        options.folder = options.folder.canonicalize().map_err(|error| error.to_string())?;
        if options.stages.is_empty() {
            options.stages = vec![Stage::Build, Stage::Record, Stage::Run, Stage::Table];
        }
        Ok(options)
    }

    fn take<'a>(
        &mut self,
        argument: &str,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), String> {
        let mut value = || rest.next().ok_or_else(|| USAGE.to_owned());
        match argument {
            "list" => self.stages.push(Stage::List),
            "build" => self.stages.push(Stage::Build),
            "record" => self.stages.push(Stage::Record),
            "run" => self.stages.push(Stage::Run),
            "table" => self.stages.push(Stage::Table),
            "--again" => self.again = true,
            "--stride" => self.stride = number(value()?)?.max(1),
            "--sample" => {
                self.sample = Some(usize::try_from(number(value()?)?.max(1)).unwrap_or(usize::MAX));
            }
            "--thin" => self.thin = number(value()?)?.max(1),
            "--seed" => self.seed = number(value()?)?,
            "--budget" => self.budget = number(value()?)?,
            "--trial" => self.trial = number(value()?)?,
            "--programs" => self.programs = number(value()?)?,
            "--jobs" => self.jobs = usize::try_from(number(value()?)?.max(1)).unwrap_or(1),
            "--patience" => self.patience = number(value()?)?.max(1),
            "--named" => self.named.push(value()?.clone()),
            "--part" => self.parts.push(value()?.clone()),
            "--besides" => self.besides = Some(PathBuf::from(value()?)),
            "--only" => {
                let numbers = value()?.split(',').map(|text| text.parse::<u32>());
                self.only = numbers.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
            }
            folder if !folder.starts_with('-') && self.folder.as_os_str().is_empty() => {
                self.folder = PathBuf::from(folder);
            }
            _ => return Err(USAGE.to_owned()),
        }
        Ok(())
    }

    /// The mutants that are tried, by number; every seeded bug of a sample is. The same seed draws the same ones.
    pub(crate) fn drawn(&self, mutants: &[Mutant]) -> BTreeSet<u32> {
        if !self.only.is_empty() {
            return self.only.iter().copied().collect();
        }
        let is_wanted =
            |name: &str| self.parts.is_empty() || self.parts.iter().any(|wanted| wanted == name);
        let mut parts: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for mutant in mutants.iter().filter(|mutant| is_wanted(part(mutant))) {
            parts.entry(part(mutant)).or_default().push(mutant.number);
        }
        let mut drawn = BTreeSet::new();
        for (name, mut numbers) in parts {
            match self.sample {
                Some(_) if name == SEEDED => {}
                Some(sample) => {
                    numbers.sort_by_key(|&number| mixed(self.seed, number));
                    numbers.truncate(sample);
                }
                None => {
                    numbers.retain(|&number| mixed(self.seed, number).is_multiple_of(self.stride));
                }
            }
            drawn.extend(numbers);
        }
        drawn
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text}: a number is expected"))
}

/// The workspace that this was built in.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// SplitMix64 of a seed and a number.
pub(crate) fn mixed(seed: u64, number: u32) -> u64 {
    let mut bits = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(number));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutants() -> Vec<Mutant> {
        let files = [("semantics/src/check/a.rs", 0), ("backends/runtime/src/a.rs", 100)];
        let bugs = ("backends/runtime/src/a.rs", crate::tree::BUGS);
        let of = |(file, first): (&str, u32)| {
            let mutant = move |at: u32| Mutant {
                number: first + at,
                file: file.to_owned(),
                line: 1,
                function: String::new(),
                edit: String::new(),
                text: String::new(),
            };
            (0..40).map(mutant).collect::<Vec<_>>()
        };
        files.into_iter().chain([bugs]).flat_map(of).collect()
    }

    fn drawn(arguments: &[&str]) -> Vec<u32> {
        let folder = std::env::temp_dir();
        let arguments: Vec<String> = std::iter::once(folder.to_string_lossy().into_owned())
            .chain(arguments.iter().map(|text| (*text).to_owned()))
            .collect();
        let options = Options::parse(&arguments).expect("the arguments are right");
        options.drawn(&mutants()).into_iter().collect()
    }

    #[test]
    fn a_sample_has_so_many_of_each_part_and_all_bugs() {
        let (a, b) = (drawn(&["--sample", "7"]), drawn(&["--sample", "7", "--seed", "2"]));
        let of =
            |range: std::ops::Range<u32>| a.iter().filter(|number| range.contains(number)).count();
        assert_eq!([of(0..100), of(100..1000), a.len()], [7, 7, 54]);
        assert_ne!(a, b, "another seed draws others");
        assert_eq!(drawn(&["--sample", "7", "--part", "runtime"]).len(), 7);
        assert_eq!(drawn(&["--only", "3,5", "--sample", "7"]), [3, 5]);
    }
}
