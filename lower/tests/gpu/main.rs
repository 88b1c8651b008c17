//! Scheduled tensor programs: every tensor program of the corpus, as it stands in the text and as the pipeline makes it, is
//! scheduled and run in lock-step mode, whole and kernel by kernel, and gives the bits or the trap of the program before, at
//! sizes that hurt.

mod launch;
mod programs;

use libtest_mimic::{Arguments, Failed, Trial};
use programs::programs_of;
use relax_corpus::files;
use relax_lower::gpu::{Limits, schedule};
use relax_symbolic::Prover;

use std::path::{Path, PathBuf};


/// What devices have, and so little that every program has edges in both dims of the grid.
const LIMITS: [Limits; 2] = [Limits { threads: 256, blocks: 65_535 }, Limits { threads: 4, blocks: 3 }];

fn main() {
    let arguments = Arguments::from_args();
    let trials = files::programs().into_iter().map(trial).collect();
    libtest_mimic::run(&arguments, trials).exit();
}

fn trial(path: PathBuf) -> Trial {
    Trial::test(files::name(&path), move || hold(&path))
}

fn hold(path: &Path) -> Result<(), Failed> {
    for program in programs_of(path)? {
        for limits in LIMITS {
            let scheduled = schedule(&program, &mut Prover::new(), limits);
            let Some(scheduled) = scheduled else { continue };
            launch::agrees(&program, &scheduled).map_err(|why| Failed::from(why))?;
        }
    }
    Ok(())
}
