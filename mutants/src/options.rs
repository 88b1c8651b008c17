//! The arguments of the command.

use std::path::{Path, PathBuf};

const USAGE: &str = "usage: relax-mutants FOLDER [list] [build] [record] [run] [table] [--stride N] [--seed N] [--part NAME]...
  [--only N,N] [--budget SECONDS] [--trial SECONDS] [--named TEXT]... [--thin N] [--programs N] [--jobs N] [--patience N] [--again] [-- ARGUMENTS OF CARGO TEST]";

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
    /// Which ones.
    pub(crate) seed: u64,
    /// Parts that are tried; all when there is none.
    pub(crate) parts: Vec<String>,
    /// Mutants that are tried, whatever else is said.
    pub(crate) only: Vec<u32>,
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
            seed: 1,
            parts: Vec::new(),
            only: Vec::new(),
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
            "--thin" => self.thin = number(value()?)?.max(1),
            "--seed" => self.seed = number(value()?)?,
            "--budget" => self.budget = number(value()?)?,
            "--trial" => self.trial = number(value()?)?,
            "--programs" => self.programs = number(value()?)?,
            "--jobs" => self.jobs = usize::try_from(number(value()?)?.max(1)).unwrap_or(1),
            "--patience" => self.patience = number(value()?)?.max(1),
            "--named" => self.named.push(value()?.clone()),
            "--part" => self.parts.push(value()?.clone()),
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

    /// Is a mutant tried? The same seed draws the same ones.
    pub(crate) fn wants(&self, mutant: u32, part: &str) -> bool {
        if !self.only.is_empty() {
            return self.only.contains(&mutant);
        }
        let of_part = self.parts.is_empty() || self.parts.iter().any(|name| name == part);
        of_part && mixed(self.seed, mutant).is_multiple_of(self.stride)
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text}: a number is expected"))
}

/// The workspace that this was built in.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// SplitMix64 of a seed and a number.
pub(crate) fn mixed(seed: u64, number: u32) -> u64 {
    let mut bits = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(number));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
