//! The backend tests of ONNX as our judge: each model is imported, runs in the interpreter, and is held
//! against the outputs that come with it.
//!
//! `RELAX_ONNX_TESTS` names the folder that `./setup.sh onnx-tests` fetches; without it nothing is run, and
//! said so. A sample of the tests is run; `RELAX_WHOLE=1` runs all of them, and `RELAX_BLESS=1` with it
//! writes the table of `docs/ONNX.md`; otherwise a test that passed when it was written must pass. `--list` and `--exact` are those of
//! Rust's own tests.

#![allow(clippy::print_stdout)] // it tells what it found

#[allow(dead_code)] // of tests with edits
mod case;
mod table;

use case::{Case, Outcome};
use relax_corpus::sample::Sample;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One test in so many is run.
const STRIDE: usize = 3;

/// The folder of the project.
fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs the cases on all processors; the results are in the order of the cases.
fn run(cases: &[Case]) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(vec![None; cases.len()]);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(index) else { return };
                    let outcome = case.run();
                    results.lock().expect("no thread panics while it holds the results")[index] =
                        Some(outcome);
                }
            });
        }
    });
    let results = results.into_inner().expect("no thread panics while it holds the results");
    results.into_iter().map(|outcome| outcome.expect("every case was run")).collect()
}

fn main() {
    let Some(folder) = std::env::var_os("RELAX_ONNX_TESTS") else {
        println!(
            "SKIPPED: RELAX_ONNX_TESTS does not name the tests of ONNX; ./setup.sh onnx-tests fetches them"
        );
        return;
    };
    let (flags, names): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with('-'));
    let has = |flag: &str| flags.iter().any(|given| given == flag);
    let mut cases = case::read(Path::new(&folder));
    assert!(!cases.is_empty(), "there are no tests in {}", folder.to_string_lossy());
    if has("--list") {
        cases.iter().for_each(|case| println!("{}: test", case.name));
        return;
    }
    let wanted = names.first();
    let is_whole =
        match wanted {
            Some(wanted) => {
                let is_exact = has("--exact");
                cases.retain(|Case { name, .. }| {
                    if is_exact { name == wanted } else { name.contains(wanted.as_str()) }
                });
                false
            }
            None => {
                let sample = Sample::of("tests of ONNX", STRIDE);
                cases = sample.take(cases).collect();
                sample.is_whole()
            }
        };
    let outcomes = run(&cases);
    let rows: Vec<_> = cases.iter().zip(&outcomes).collect();
    if wanted.is_some() {
        rows.iter().for_each(|(case, outcome)| println!("{}: {outcome}", case.name));
    }
    println!("{}", table::summary(&rows));
    let page = project().join("docs/ONNX.md");
    if std::env::var_os("RELAX_BLESS").is_some() {
        assert!(is_whole, "the table is written of all tests: RELAX_WHOLE=1");
        table::write(&page, &rows);
        return;
    }
    let lost = table::lost(&page, &rows);
    assert!(lost.is_empty(), "these passed before:\n{}", lost.join("\n"));
}
