//! Ranks that `mpirun` starts against interpreted ranks in one process: every size of the programs of the sharding tests on every mesh,
//! each collective for each dtype, and ranks that disagree. This program starts itself as the ranks.
//!
//! Without MPI nothing is tested, which `RELAX_REQUIRE_MPI=1` forbids.

#[path = "../../../../driver/tests/compiled/by_hand.rs"]
mod by_hand;
#[path = "../../../../sharding/tests/spmd/pipelines.rs"]
mod pipelines;
#[path = "../../../../sharding/tests/spmd/programs.rs"]
#[expect(dead_code, reason = "a case by its name is for other tests")]
mod programs;
mod worker;

use libtest_mimic::{Arguments, Failed, Trial};
use relax_corpus::sample::Sample;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::time::{Duration, Instant};
use worker::WORKER;

fn main() -> ExitCode {
    if let Ok(job) = std::env::var(WORKER) {
        return worker::run(&job);
    }
    let arguments = Arguments::from_args();
    let engine = match engine() {
        Ok(engine) => engine,
        Err(why) if std::env::var_os("RELAX_REQUIRE_MPI").is_some_and(|value| value == "1") => {
            eprintln!("error: {why}, and RELAX_REQUIRE_MPI=1");
            return ExitCode::FAILURE;
        }
        Err(why) => {
            eprintln!("skipped: {why}");
            return ExitCode::SUCCESS;
        }
    };
    let mut trials = Vec::new();
    for (mesh, ranks) in [("1", 1), ("2", 2), ("3", 3), ("4", 4), ("2, 2", 4)] {
        let engine = engine.clone();
        let name = format!("every_size_on_the_mesh_{}", mesh.replace(", ", "_by_"));
        trials.push(Trial::test(name, move || {
            passes(&engine, ranks, &format!("sizes {}", cases(mesh)))
        }));
    }
    for (name, job) in [
        ("collectives_have_the_bits_of_the_interpreter_for_each_dtype", "dtypes"),
        ("ranks_that_disagree_stop_as_interpreted_ones_do", "disagreements"),
        ("ranks_that_go_on_beside_a_collective_do_what_interpreted_ones_do", "beside"),
        ("ranks_move_no_more_bytes_than_they_must", "counts"),
    ] {
        let engine = engine.clone();
        trials.push(Trial::test(name, move || passes(&engine, 3, job)));
    }
    for (job, words) in [
        ("hangs 1", "rank 1 did not come to spmd.all_reduce(op_type=sum) within 2 s"),
        ("hangs 0", "rank 0 did not come to spmd.all_reduce(op_type=sum) within 2 s"),
        ("dies 1", "exited on signal 6"),
        ("dies 0", "exited on signal 6"),
    ] {
        let engine = engine.clone();
        let name = format!("a_rank_that_{}_ends_all", job.replace(' ', "_"));
        trials.push(Trial::test(name, move || fails(&engine, job, words)));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The folder of the library, where MPI can be used.
fn engine() -> Result<PathBuf, String> {
    let folder = match std::env::var_os("RELAX_MPI").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/mpi"),
    };
    let file = folder.join("librelax_mpi.so");
    if !file.exists() {
        return Err(format!("{} is missing: ./setup.sh mpi builds it", file.display()));
    }
    let started = Command::new("mpirun").arg("--version").output();
    started.map(|_| folder).map_err(|error| format!("mpirun: {error}"))
}

/// The numbers of the cases on a mesh, and of those that are compiled as well.
fn cases(mesh: &str) -> String {
    let first = format!("module_attr(\"mesh[0]\", \"{mesh}\")");
    let cases = every_case();
    let is_there = |number: &usize| cases[*number].text.starts_with(&first);
    let all: Vec<usize> = (0..cases.len()).filter(is_there).collect();
    let compiled: Vec<usize> =
        Sample::of("compiled ranks over MPI", 13).take(all.clone()).collect();
    format!("{} {}", listed(&all), listed(&compiled))
}

/// Programs without stages, and with them.
fn every_case() -> Vec<programs::Case> {
    programs::cases().into_iter().chain(pipelines::pipelines()).collect()
}

fn listed(numbers: &[usize]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Starts this program as ranks, which do a job.
fn started(engine: &Path, ranks: usize, job: &str) -> Result<Output, Failed> {
    let exe = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("timeout")
        .args(["--kill-after=5", "300", "mpirun", "-np", &ranks.to_string(), "--oversubscribe"])
        .args(["--mca", "mpi_yield_when_idle", "1", "--bind-to", "none"])
        .arg(exe)
        .env(WORKER, job)
        .env("RELAX_MPI", engine)
        // Tests may be run by root, in a container.
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .output()
        .map_err(|error| format!("mpirun: {error}"))?;
    Ok(output)
}

fn passes(engine: &Path, ranks: usize, job: &str) -> Result<(), Failed> {
    let output = started(engine, ranks, job)?;
    let said = String::from_utf8_lossy(&output.stderr);
    let done = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && done.contains("done: ") {
        eprint!("{done}");
        return Ok(());
    }
    Err(format!("{job} on {ranks} ranks: {}\n{done}{said}", output.status).into())
}

/// Three ranks end in time, with one error that has these words.
fn fails(engine: &Path, job: &str, words: &str) -> Result<(), Failed> {
    let since = Instant::now();
    let output = started(engine, 3, job)?;
    let said = String::from_utf8_lossy(&output.stderr);
    let is_one = said.matches(words).count() == 1 && !said.contains("no rank failed");
    let in_time = since.elapsed() < Duration::from_secs(30);
    if is_one && in_time && !output.status.success() {
        return Ok(());
    }
    Err(format!("{job}: {} after {:?}\n{said}", output.status, since.elapsed()).into())
}
