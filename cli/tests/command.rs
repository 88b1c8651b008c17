//! The command as a user meets it: help, results and errors, each held against a transcript in
//! `tests/cmd/`. `TRYCMD=overwrite cargo test -p relax-cli --test command` rewrites them.

mod compiler;
#[path = "command/deployed.rs"]
mod deployed;
#[path = "command/differences.rs"]
mod differences;
#[path = "command/equivalence.rs"]
mod equivalence;
#[path = "command/external.rs"]
mod external;
#[path = "command/folder.rs"]
mod folder;
#[path = "command/kinds.rs"]
mod kinds;
#[path = "command/pages.rs"]
mod pages;
mod piped;
#[path = "command/profile.rs"]
mod profile;
#[path = "command/ranks_file.rs"]
mod ranks_file;
#[path = "command/rewritten.rs"]
mod rewritten;
#[path = "command/slices.rs"]
mod slices;
#[path = "command/tools.rs"]
mod tools;
#[path = "command/verdicts.rs"]
mod verdicts;
mod warm;
#[path = "command/weights.rs"]
mod weights;

use std::process::{Command, Stdio};

#[test]
fn transcripts() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}

fn relax(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_relax"));
    command.args(arguments);
    command
}

/// With the feature it may find one, which `emulated.rs` is about.
#[cfg(not(feature = "cuda"))]
#[test]
fn a_build_without_cuda_says_so() {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cmd/errors.in/product.rx");
    let ended = relax(&["run", program, "--backend", "cuda"]).output().expect("the command runs");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(4));
    let how = "build it with `cargo build --release -p relax-cli --features cuda`";
    assert!(said.contains(&format!("this build has no devices of CUDA: {how}")), "{said}");
}

#[test]
fn a_reader_that_stops_reading_is_no_success() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = relax(&["ops", "--markdown"]);
    let ended = command.stdout(writer).stderr(Stdio::piped()).output().expect("it runs");
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(2), b"".as_slice()));
}

#[test]
fn environment_variables_that_are_not_understood_are_errors() {
    for (name, value, why) in [
        ("RELAX_THREAD", "1", "not understood; did you mean `RELAX_THREADS`?"),
        ("RELAX_THREADS", "many", "RELAX_THREADS is a number of threads, found `many`"),
    ] {
        let ended = relax(&["ops"]).env(name, value).output().expect("the command runs");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!((ended.status.code(), ended.stdout.as_slice()), (Some(2), b"".as_slice()));
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn the_version_says_what_was_built_in() {
    let ended = relax(&["--version"]).output().expect("the command runs");
    let said = String::from_utf8_lossy(&ended.stdout);
    let keys: Vec<&str> = said.lines().filter_map(|line| line.split([':', ' ']).next()).collect();
    assert_eq!(keys, ["relax", "commit", "backends", "solver"], "{said}");
    let wgpu = cfg!(feature = "wgpu");
    assert_eq!(said.contains("wgpu"), wgpu, "{said}");
}

#[test]
fn hostile_programs_end_with_a_message() {
    let deep = "[".repeat(100_000);
    let long = format!("def f(x: Object):\n    return {}\n", "y".repeat(1_000_000));
    let texts: [&[u8]; 5] = [b"\xff\xfe", b"\0", deep.as_bytes(), long.as_bytes(), b"\tdef"];
    for text in texts {
        let ended = piped::relax(&["check", "-"], text);
        assert_eq!(ended.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&ended.stderr).contains("error[RX"));
    }
}

#[test]
fn output_is_whole_and_reads_back() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let program = folder.path().join("double.rx");
    let text = "def main(x: Tensor((\"n\",), \"f16\")):\n    return (add(x, x), shape_of(x))\n";
    std::fs::write(&program, text).expect("the program is written");
    let program = program.display().to_string();
    for (name, code) in [("out.npz", 0), ("out.safetensors", 0), ("folder", 0), ("out.npy", 2)] {
        let path = folder.path().join(name);
        let ended = relax(&["run", &program, "--input", "x=[1, 2.5]", "--output"])
            .arg(&path)
            .output()
            .expect("the command ends");
        assert_eq!(ended.status.code(), Some(code), "{name}: {ended:?}");
        assert_eq!(path.exists(), code == 0, "{name}");
    }
    let again = format!("x=@{}:result_0", folder.path().join("out.npz").display());
    let ended = relax(&["run", &program, "--input", &again]).output().expect("the command ends");
    assert!(String::from_utf8_lossy(&ended.stdout).contains("[ 4. 10.]"), "{ended:?}");
}

/// A device or a pipe is written to, never replaced; a link to a file stays a link.
#[cfg(unix)]
#[test]
fn output_to_what_is_no_file() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let program = folder.path().join("double.rx");
    let text = "def main(x: Tensor((\"n\",), \"f32\")):\n    return add(x, x)\n";
    std::fs::write(&program, text).expect("the program is written");
    let program = program.display().to_string();
    let opt = |path: &std::path::Path| {
        let ended = relax(&["opt", &program, "-o"]).arg(path).output().expect("the command ends");
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
        String::from_utf8_lossy(&ended.stdout).into_owned()
    };

    let pipe = folder.path().join("pipe");
    std::os::unix::fs::symlink("/dev/stdout", &pipe).expect("the link is made");
    assert!(opt(&pipe).contains("add(x, x)"));
    assert!(pipe.is_symlink());

    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    std::fs::write(&file, "old").expect("the file is written");
    std::os::unix::fs::symlink("file", &link).expect("the link is made");
    assert_eq!(opt(&link), "");
    assert!(link.is_symlink());
    assert!(std::fs::read_to_string(&file).is_ok_and(|text| text.contains("add(x, x)")));
}
