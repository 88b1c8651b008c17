//! Scheduled tensor programs: those of a sample of the corpus, with each commit another one, as they stand in the text and as the
//! pipeline makes them, are scheduled and run in lock-step mode, and give the bits or the trap of the program before, at
//! sizes that hurt. Mistakes that are planted into schedules are found.

mod launch;
mod planted;
mod programs;

use libtest_mimic::{Arguments, Failed, Trial};
use programs::programs_of;
use relax_corpus::files;
use relax_corpus::sample::Sample;
use relax_lower::gpu::{Choices, Limits, schedule_by, schedule_in};
use relax_program::compare::Relation;
use relax_rewrite::classes::Tree;
use relax_rewrite::pass::Exactness;
use relax_symbolic::Prover;
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::BufferInfo;

use std::path::{Path, PathBuf};

/// What devices have, and so little that every program has edges in both dims of the grid.
const LIMITS: [Limits; 2] = [
    Limits { threads: 256, blocks: 65_535, shared: 48 << 10, busy: 3 },
    Limits { threads: 4, blocks: 3, shared: 48 << 10, busy: 3 },
];

/// Trees that choose otherwise than what is presumed: each pair of versions, in both orders, and by each extent.
const TREES: [&str; 3] = [
    "if m*n < 7\nelements\nelse\nsquares\n",
    "if k < 3\nsquares\nelse\ntiles\n",
    "if m*n*k < 30\ntiles\nelse\nelements\n",
];

/// Of so many files one is scheduled.
const SCHEDULED: usize = 2;

fn main() {
    let arguments = Arguments::from_args();
    let planted = Trial::test("planted", planted::all_are_found);
    let places = Trial::test("planted_places", planted::all_of_places_are_found);
    let in_corpus = Trial::test("planted_in_corpus", planted::all_in_the_corpus_are_found);
    let sample = Sample::of("programs that are scheduled for devices", SCHEDULED);
    let files = sample.take(files::programs());
    let trials = files.map(trial).chain([planted, places, in_corpus]).collect();
    libtest_mimic::run(&arguments, trials).exit();
}

fn trial(path: PathBuf) -> Trial {
    Trial::test(files::name(&path), move || hold(&path))
}

fn hold(path: &Path) -> Result<(), Failed> {
    for program in programs_of(path)? {
        for limits in LIMITS {
            let schedule = |exactness| schedule_in(&program, &mut Prover::new(), limits, exactness);
            let (Some(kept), Some(free)) =
                (schedule(Exactness::Exact), schedule(Exactness::Approximate))
            else {
                continue;
            };
            launch::agrees(&program, &kept, Relation::Equal, launch::LONG)?;
            if limits == LIMITS[1] {
                hold_learned(&program, &kept, limits)?;
            }
            if free != kept {
                launch::agrees(&program, &free, Relation::Close, launch::LONG)?;
            }
        }
        let is_half = |info: &BufferInfo| matches!(info.dtype, DType::F16 | DType::BF16);
        if program.buffers.iter().any(is_half) {
            hold_cores(&program)?;
        }
    }
    Ok(())
}

/// Products of which a tree chooses the versions: the same bits, whichever they are.
fn hold_learned(
    program: &TensorProgram,
    kept: &TensorProgram,
    limits: Limits,
) -> Result<(), Failed> {
    for text in TREES {
        let tree = Tree::parse(&text.lines().collect::<Vec<_>>(), 1)?;
        let choices = Choices { limits, exactness: Exactness::Exact, products: Some(&tree) };
        if let Some(learned) = schedule_by(program, &mut Prover::new(), &choices)
            && learned != *kept
        {
            launch::agrees(program, &learned, Relation::Equal, launch::LONG)?;
        }
    }
    Ok(())
}

/// Products for tensor cores, by one warp.
fn hold_cores(program: &TensorProgram) -> Result<(), Failed> {
    let limits = Limits { threads: 32, blocks: 3, shared: 48 << 10, busy: 3 };
    let schedule = |exactness| schedule_in(program, &mut Prover::new(), limits, exactness);
    if let Some(cores) = schedule(Exactness::Rounded(DType::F32))
        && schedule(Exactness::Approximate).as_ref() != Some(&cores)
    {
        launch::agrees(program, &cores, Relation::Close, launch::LONG)?;
    }
    Ok(())
}
