//! `relax run --mpi` under `mpirun`: results of `--ranks`, and one error for ranks that disagree, trap, die or hang. Skipped where there
//! is no MPI, which `RELAX_REQUIRE_MPI=1` forbids.

#[path = "command/folder.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod folder;
mod warm;

use folder::{Folder, text};
use relax_corpus::requirement;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Rows over two ranks: a sum over all of them, and rows that are taken by numbers.
const ROWS: &str = r#"module_attr("mesh[0]", "2")

def main(x: DTensor(("n", 4), "f32", "mesh[0]", "S[0]"), w: Tensor((4, 4), "f32")):
    y = matmul(x, w)
    return (y, sum(matmul(y, w), axis=[0]))

def taken(x: DTensor(("n",), "i64", "mesh[0]", "S[0]"), table: Tensor((5,), "f32")):
    return take(table, x, axis=0)
"#;

const SMALL: [&str; 4] = ["--input", "x=arange(5,4)", "--input", "w=full((4, 4), 0.5)"];

/// The file of `x` is a pipe that nobody writes to: a rank that reads it waits for ever.
const WAITS: [&str; 5] = ["rows.rx", "--input", "x=@pipe.npy", "--input", "w=full((4, 4), 0.5)"];

fn relax(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_relax"));
    command.args(arguments);
    command
}

/// The folder of the library, where MPI can be used; a skipped test says why.
fn engine() -> Option<PathBuf> {
    let folder = match std::env::var_os("RELAX_MPI").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/mpi"),
    };
    let started = Command::new("mpirun").arg("--version").output();
    let is_there = folder.join("librelax_mpi.so").exists() && started.is_ok();
    if !is_there {
        requirement::skip(
            "RELAX_REQUIRE_MPI",
            "there is no MPI: ./setup.sh mpi builds what it needs",
        );
    }
    is_there.then_some(folder)
}

/// What came of a run: standard output, messages, exit code.
struct Ended {
    out: String,
    said: String,
    code: Option<i32>,
    took: Duration,
}

impl Ended {
    /// Demands one error with these words, nothing on the standard output, and no file.
    fn is_one_error(&self, folder: &Folder, words: &[&str], code: i32) {
        let errors =
            self.said.lines().filter(|line| line.starts_with("error") || line.starts_with("trap["));
        assert_eq!(errors.count(), 1, "{}", self.said);
        for word in words {
            assert!(self.said.contains(word), "{word}: {}", self.said);
        }
        assert_eq!((self.out.as_str(), self.code), ("", Some(code)), "{}", self.said);
        assert!(!folder.0.path().join("y.npz").exists(), "a file is left");
    }
}

/// Starts processes, each of a kind by its own arguments of `relax run --mpi`, or of a shell with `$RELAX`.
fn mpirun(engine: &Path, folder: &Folder, kinds: &[(usize, &[&str])]) -> Ended {
    let mut command = Command::new("timeout");
    command.args([
        "--kill-after=5",
        "120",
        "mpirun",
        "--quiet",
        "--oversubscribe",
        "--bind-to",
        "none",
    ]);
    command.args(["--mca", "mpi_yield_when_idle", "1"]);
    for (at, (number, arguments)) in kinds.iter().enumerate() {
        if at > 0 {
            command.arg(":");
        }
        command.args(["-np", &number.to_string()]);
        if arguments[0] != "sh" {
            command.args([env!("CARGO_BIN_EXE_relax"), "run", "--mpi"]);
        }
        command.args(*arguments);
    }
    command.current_dir(folder.0.path()).env("RELAX_MPI", engine);
    command.env("XDG_CACHE_HOME", warm::cache(folder.0.path().join("cache")));
    command.env("RELAX", env!("CARGO_BIN_EXE_relax"));
    // Tests may be run by root, in a container.
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let started = Instant::now();
    let output = command.output().expect("mpirun starts");
    let (out, said) = (text(&output.stdout), text(&output.stderr));
    Ended { out, said, code: output.status.code(), took: started.elapsed() }
}

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("rows.rx", ROWS);
    folder.write("other.rx", &ROWS.replace("axis=[0]", "axis=[1]"));
    folder
}

fn with<'a>(file: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&[file], more].concat()
}

#[test]
fn processes_give_what_threads_give() {
    let Some(engine) = engine() else { return };
    let folder = folder();
    for backend in [&[][..], &["--backend", "cpu", "--exact"]] {
        let arguments = [&["rows.rx"], &SMALL[..], backend].concat();
        let (expected, code) =
            folder.ended(&[&["run", "--ranks", "2"], arguments.as_slice()].concat());
        assert_eq!(code, Some(0), "{expected}");
        let ended = mpirun(&engine, &folder, &[(2, &arguments)]);
        assert_eq!((ended.out, ended.code), (expected, Some(0)), "{}", ended.said);
    }
    let arguments = [&["rows.rx", "--output", "y.npz"], &SMALL[..]].concat();
    let ended = mpirun(&engine, &folder, &[(2, &arguments)]);
    assert_eq!((ended.out.as_str(), ended.code), ("", Some(0)), "{}", ended.said);
    assert!(folder.0.path().join("y.npz").exists());
}

/// A module file of `relax build --ranks` in processes: the bits of the text, and one error where files differ or are of something else.
#[test]
fn processes_run_module_files() {
    let Some(engine) = engine() else { return };
    let folder = folder();
    for (file, output) in [("rows.rx", "rows.rxm"), ("other.rx", "other.rxm")] {
        let (said, code) = folder.ended(&["build", file, "--ranks", "--exact", "-o", output]);
        assert_eq!(code, Some(0), "{said}");
    }
    let (said, code) = folder.ended(&["build", "rows.rx", "--exact", "-o", "alone.rxm"]);
    assert_eq!(code, Some(0), "{said}");
    let text = [&["rows.rx", "--backend", "cpu", "--exact"], &SMALL[..]].concat();
    let (expected, code) = folder.ended(&[&["run", "--ranks", "2"], text.as_slice()].concat());
    assert_eq!(code, Some(0), "{expected}");
    let ended = mpirun(&engine, &folder, &[(2, &with("rows.rxm", &SMALL))]);
    assert_eq!((ended.out, ended.code), (expected, Some(0)), "{}", ended.said);
    let written = [&["--output", "y.npz"], &SMALL[..]].concat();
    let first = with("rows.rxm", &written);
    for (second, words) in [
        (
            with("other.rxm", &SMALL),
            "the ranks disagree about the program: rank 0 has a module file with",
        ),
        (with("rows.rx", &SMALL), "the ranks disagree about the program"),
        (with("alone.rxm", &SMALL), "rank 1 cannot run: --mpi: alone.rxm has code for one rank"),
    ] {
        let ended = mpirun(&engine, &folder, &[(1, &first), (1, &second)]);
        ended.is_one_error(&folder, &[words], 2);
    }
    let ended = mpirun(&engine, &folder, &[(3, &first)]);
    ended.is_one_error(&folder, &["--mpi in 3 processes: the mesh", "mpirun -np 2"], 2);
}

#[test]
fn ranks_that_disagree_do_not_run() {
    let Some(engine) = engine() else { return };
    let folder = folder();
    let first = with("rows.rx", &SMALL);
    let wrong = [
        (with("other.rx", &SMALL), "the ranks disagree about the program: rank 0 has"),
        (
            with("rows.rx", &["--input", "x=ones(6,4)", "--input", "w=ones(4,4)"]),
            "about the argument `x`: rank 0 has f32 [5, 4]",
        ),
        (
            with("rows.rx", &["--input", "x=ones(5,4)", "--input", "w=full((4, 4), 0.5)"]),
            "about the argument `x`",
        ),
        (
            with("rows.rx", &["--backend", "cpu", SMALL[0], SMALL[1], SMALL[2], SMALL[3]]),
            "about the backend",
        ),
        (
            with(
                "rows.rx",
                &["--entry", "taken", "--input", "x=zeros(2)", "--input", "table=ones(5)"],
            ),
            "about the function: rank 0 has ",
        ),
        (with("missing.rx", &SMALL), "rank 1 cannot run: cannot read missing.rx"),
    ];
    for (second, words) in wrong {
        let second = [&second[..], &["--output", "y.npz"]].concat();
        let ended = mpirun(&engine, &folder, &[(1, &first), (1, &second)]);
        ended.is_one_error(&folder, &[words], 2);
        // The first rank is the one that is wrong.
        let ended = mpirun(&engine, &folder, &[(1, &second), (1, &first)]);
        let words = if words.starts_with("rank 1") { "error: " } else { "the ranks disagree" };
        ended.is_one_error(&folder, &[words], 2);
    }
}

#[test]
fn a_world_of_another_size_does_not_run() {
    let Some(engine) = engine() else { return };
    let folder = folder();
    for processes in [1, 3] {
        let ended = mpirun(&engine, &folder, &[(processes, &with("rows.rx", &SMALL))]);
        let words = format!("--mpi in {processes} processes: the mesh \"mesh[0]\"");
        ended.is_one_error(&folder, &[&words, "mpirun -np 2"], 2);
    }
}

/// One program for any number of processes; two extents that are not known are given.
#[test]
fn the_mesh_gets_its_extents_from_the_processes() {
    let Some(engine) = engine() else { return };
    let folder = folder();
    folder.write("any.rx", &ROWS.replace("\"2\"", "\"p\""));
    let two = ROWS.replace("\"2\"", "\"p, q\"").replace("\"S[0]\"", "\"S[0], S[1]\"");
    let (square, _) = two.split_once("def taken").expect("two functions");
    folder.write("two.rx", square);
    for (file, processes, given) in [
        ("any.rx", 1, &[][..]),
        ("any.rx", 3, &[]),
        ("any.rx", 3, &["--ranks", "3"]),
        ("two.rx", 4, &["--ranks", "2x2"]),
        ("two.rx", 3, &["--ranks", "1x3", "--backend", "cpu"]),
    ] {
        let (expected, code) = folder.ended(&[&["run", file], &SMALL[..]].concat());
        assert_eq!(code, Some(0), "{expected}");
        let ended =
            mpirun(&engine, &folder, &[(processes, &[&[file], &SMALL[..], given].concat())]);
        assert_eq!((ended.out, ended.code), (expected, Some(0)), "{}", ended.said);
    }
    let refused = |processes: usize, arguments: &[&str], words: &str| {
        let ended = mpirun(&engine, &folder, &[(processes, &[arguments, &SMALL[..]].concat())]);
        ended.is_one_error(&folder, &[words], 2);
    };
    refused(3, &["two.rx"], "several extents that are not known: give each, such as 2x4");
    refused(3, &["two.rx", "--ranks", "2x2"], "the extents of --ranks have 4 workers");
    refused(2, &["rows.rx", "--ranks", "3"], "--ranks 3: the mesh \"mesh[0]\"");
    let square = |extents: &'static str| [&["two.rx", "--ranks", extents], &SMALL[..]].concat();
    let ended = mpirun(&engine, &folder, &[(1, &square("1x2")), (1, &square("2x1"))]);
    ended.is_one_error(&folder, &["the ranks disagree about the extents of the mesh"], 2);
}

#[test]
fn a_trap_of_one_rank_ends_all() {
    let Some(engine) = engine() else { return };
    let folder = folder();
    let arguments =
        ["rows.rx", "--entry", "taken", "--input", "table=ones(5)", "--output", "y.npz"];
    for backend in [&[][..], &["--backend", "cpu", "--exact"]] {
        let arguments = [&arguments[..], &["--input", "x=[0, 1, 2, 7]"], backend].concat();
        let ended = mpirun(&engine, &folder, &[(2, &arguments)]);
        let words = ["trap[take/C4]", "rows.rx:8", "on rank 1 of 2", "found 7"];
        ended.is_one_error(&folder, &words, 3);
    }
}

fn with_pipe() -> Folder {
    let folder = folder();
    let made = Command::new("mkfifo").arg(folder.0.path().join("pipe.npy")).status();
    assert!(made.expect("mkfifo starts").success());
    folder
}

#[test]
fn a_rank_that_dies_ends_all() {
    let Some(engine) = engine() else { return };
    let folder = with_pipe();
    let first = [&["rows.rx", "--output", "y.npz"], &SMALL[..]].concat();
    let quoted: Vec<String> = WAITS.iter().map(|one| format!("'{one}'")).collect();
    let killed = format!(
        "\"$RELAX\" run --mpi {} & p=$!; sleep 1; kill -KILL $p; wait $p",
        quoted.join(" ")
    );
    for kinds in [
        [(1, &first[..]), (1, &["sh", "-c", &killed])],
        [(1, &["sh", "-c", &killed]), (1, &first[..])],
    ] {
        let ended = mpirun(&engine, &folder, &kinds);
        assert_eq!((ended.out.as_str(), ended.code), ("", Some(137)), "{}", ended.said);
        assert!(!folder.0.path().join("y.npz").exists());
        assert!(ended.took < Duration::from_secs(60), "{:?}", ended.took);
    }
}

#[test]
fn a_rank_that_hangs_ends_all_in_time() {
    let Some(engine) = engine() else { return };
    let folder = with_pipe();
    let limit = ["--output", "y.npz", "--rank-timeout", "3"];
    let first = [&["rows.rx"], &SMALL[..], &limit].concat();
    let hangs = [&WAITS[..], &limit].concat();
    for (kinds, hung) in
        [([(1, &first[..]), (1, &hangs[..])], 1), ([(1, &hangs[..]), (1, &first[..])], 0)]
    {
        let ended = mpirun(&engine, &folder, &kinds);
        let words = format!("rank {hung} did not come to its start within 3 s");
        ended.is_one_error(&folder, &["trap[ranks/timeout]", &words], 3);
        assert!(ended.took < Duration::from_secs(60), "{:?}", ended.took);
    }
}

#[test]
fn what_ranks_do_not_do_is_refused() {
    let folder = folder();
    for (arguments, words) in [
        (&["run", "rows.rx", "--rank-timeout", "2"][..], "--mpi"),
        (&["run", "rows.rx", "--mpi", "--backend", "wgpu"], ""),
        (&["run", "rows.rx", "--mpi", "--trace", "t.json"], "--mpi writes no trace"),
    ] {
        let (said, code) = folder.ended(arguments);
        assert!(said.contains(words), "{said}");
        assert!(matches!(code, Some(2 | 4)), "{code:?}: {said}");
    }
    let mut command = relax(&["run", "rows.rx", "--mpi"]);
    let output = command.current_dir(folder.0.path()).env("RELAX_MPI", "/nowhere").output();
    let output = output.expect("the command runs");
    assert_eq!(output.status.code(), Some(4));
    assert!(text(&output.stderr).contains("./setup.sh mpi"), "{}", text(&output.stderr));
}
