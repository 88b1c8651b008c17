//! `cargo run --release -p relax-mutants -- FOLDER` says which seeded mistakes the tests of the project find: all of them compiled into one copy of
//! the workspace in FOLDER, switched on one at a time by an environment variable.

mod bugs;
mod cargo;
mod edits;
mod equal;
mod hunt;
mod modules;
mod options;
mod process;
mod record;
mod sites;
mod table;
mod tree;
mod trials;

use crate::hunt::Hunt;
use crate::options::{Options, Stage};
use crate::process::Job;
use crate::sites::Mutant;
use crate::table::Table;
use crate::tree::Tree;
use crate::trials::{Recording, Thinned};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

/// What was recorded of the tests.
const TRIALS: &str = "trials.txt";
/// What came of the mutants.
const RESULTS: &str = "results.txt";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = Options::parse(&arguments)
        .and_then(|options| options.stages.iter().try_for_each(|stage| run(*stage, &options)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(stage: Stage, options: &Options) -> Result<(), String> {
    match stage {
        Stage::List => list(options),
        Stage::Build => build(options),
        Stage::Record => record_trials(options),
        Stage::Run => hunt(options),
        Stage::Table => table(options),
    }
}

fn list(options: &Options) -> Result<(), String> {
    let tree = Tree::find(&options.root, &options.folder)?;
    record::write(&options.folder, &tree.mutants, &tree.refused)
}

fn build(options: &Options) -> Result<(), String> {
    let mut tree = Tree::find(&options.root, &options.folder)?;
    // What was refused before is refused again.
    if let Ok((known, refused)) = record::read(&options.folder) {
        tree.refuse_again(&known, &refused);
    }
    forget(options, &tree);
    if options.sample.is_some() {
        tree.keep(options.drawn(&tree.mutants));
    }
    let built = tree.build(&options.cargo);
    record::write(&options.folder, &tree.mutants, &tree.refused)?;
    record::write_binaries(&options.folder, &built?)?;
    eprintln!("{} mutants, {} of them not compiled", tree.mutants.len(), tree.refused.len());
    Ok(())
}

/// What was recorded of other binaries says nothing of new ones, nor what came of mutants that had these numbers.
fn forget(options: &Options, tree: &Tree) {
    let _ = std::fs::remove_file(options.folder.join(TRIALS));
    if record::read(&options.folder).is_ok_and(|(known, _)| known != tree.mutants) {
        let _ = std::fs::remove_file(options.folder.join(RESULTS));
    }
}

/// Runs tests that were not run before.
fn record_trials(options: &Options) -> Result<(), String> {
    let binaries = record::read_binaries(&options.folder)?;
    let path = options.folder.join(TRIALS);
    let mut trials = trials::read(&path).unwrap_or_default();
    let Options { named, thin, seed, .. } = options;
    let thinned = Thinned { named, stride: *thin, seed: *seed, known: &trials };
    let work = &options.folder.join("work");
    let recording = Recording { work, seconds: options.trial, jobs: options.jobs, file: &path };
    let more = trials::record(&binaries, &thinned, &recording);
    trials.extend(more.map_err(|error| error.to_string())?);
    let seconds: u64 = trials.iter().map(|trial| trial.milliseconds).sum::<u64>() / 1000;
    eprintln!("{} tests, {seconds} s", trials.len());
    trials::write(&path, &trials).map_err(|error| error.to_string())
}

fn hunt(options: &Options) -> Result<(), String> {
    let (mutants, refused) = record::read(&options.folder)?;
    let trials = trials::read(&options.folder.join(TRIALS)).map_err(|error| error.to_string())?;
    let results = options.folder.join(RESULTS);
    let done: BTreeSet<u32> = hunt::read(&results)
        .iter()
        .filter(|outcome| !options.again || !table::is_left(outcome.verdict))
        .map(|outcome| outcome.number)
        .collect();
    let numbers: Vec<u32> = options
        .drawn(&unseen(options, mutants))
        .into_iter()
        .filter(|number| !refused.contains(number) && !done.contains(number))
        .collect();
    eprintln!("{} mutants to try", numbers.len());
    let work = options.folder.join("work");
    let fuzzing = fuzzing(options, &work)?;
    let mut found = BTreeMap::new();
    for outcome in hunt::read(&results).into_iter().filter(|outcome| !outcome.by.is_empty()) {
        *found.entry(outcome.by).or_default() += 1;
    }
    let Options { budget, jobs, patience, .. } = *options;
    let found = found.into();
    Hunt { trials, fuzzing, budget, jobs, patience, work, results, found }.run(&numbers)
}

/// The mutants that an earlier run did not try.
fn unseen(options: &Options, mutants: Vec<Mutant>) -> Vec<Mutant> {
    let Some(besides) = &options.besides else { return mutants };
    let seen: BTreeSet<u32> = hunt::read(besides).iter().map(|outcome| outcome.number).collect();
    mutants.into_iter().filter(|mutant| !seen.contains(&mutant.number)).collect()
}

/// Generated programs: always the same ones.
fn fuzzing(options: &Options, work: &Path) -> Result<Option<(Job, u64, BTreeSet<u32>)>, String> {
    if options.programs == 0 {
        return Ok(None);
    }
    let binaries = record::read_binaries(&options.folder)?;
    let command = binaries.iter().find(|binary| !binary.is_test && binary.name == "cli/relax");
    let command = command.ok_or("the command was not built")?;
    let programs = options.programs.to_string();
    let arguments = ["fuzz", "--programs", &programs, "--seed", "1"];
    let found = work.join("found");
    let said = |error: std::io::Error| error.to_string();
    process::fresh(&found).map_err(said)?;
    let job = Job::new(&command.path, &arguments, &found);
    let (ended, milliseconds, reached) = job.noted(&found, 600).map_err(said)?;
    eprintln!("{programs} generated programs: {ended:?}, {milliseconds} ms");
    Ok(Some((job, milliseconds, reached)))
}

fn table(options: &Options) -> Result<(), String> {
    let (mutants, refused) = record::read(&options.folder)?;
    let outcomes = hunt::read(&options.folder.join(RESULTS));
    let equal = equal::read(&options.root.join("corpus/mutants/equal.txt"))?;
    let table =
        Table { mutants: &mutants, refused: &refused, outcomes: &outcomes, equal: &equal }.print();
    std::fs::write(options.folder.join("table.md"), &table).map_err(|error| error.to_string())?;
    eprintln!("{table}");
    Ok(())
}
