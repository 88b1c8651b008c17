//! Verdicts and their exit codes: what was not compared or not proved is no success.

#[cfg(unix)]
use super::folder::editing;
use super::{compiler, relax};
use std::path::PathBuf;
use tempfile::TempDir;

/// What a command wrote to both streams, and its exit code.
fn ended(arguments: &[&str]) -> (String, Option<i32>) {
    let output = relax(arguments).output().expect("the command runs");
    let both = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&both).into_owned(), output.status.code())
}

fn file(folder: &TempDir, name: &str, text: &str) -> String {
    let path: PathBuf = folder.path().join(name);
    std::fs::write(&path, text).expect("the file is written");
    path.to_str().expect("a path of the test").to_owned()
}

const DOUBLED: &str = "def main(x: Tensor((\"n\",), \"f32\")):\n    return add(x, x)\n";
/// Traps for every n.
const TRAPS: &str = "def main(x: Tensor((\"n\", 4), \"f32\")):\n    n = sym_var()\n    return reshape(x, shape(n, -1))\n";

#[test]
fn a_comparison_of_nothing_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    let doubled = file(&folder, "doubled.rx", DOUBLED);
    let traps = file(&folder, "traps.rx", TRAPS);
    let out = folder.path().to_str().expect("a path of the test");
    for arguments in [
        &["diff", &doubled, "--cases", "0"][..],
        &["diff", &traps],
        &["fuzz", "--programs", "0", "--out", out],
    ] {
        let (said, code) = ended(arguments);
        assert_eq!(code, Some(5), "{arguments:?}: {said}");
        assert!(said.contains("nothing compared") && !said.contains("the same"), "{said}");
    }
    let (said, code) = ended(&["diff", &doubled]);
    assert!(code == Some(0) && said.starts_with("the same: "), "{said}");
}

/// `relax diff` had left constants of the compiled side without values.
#[test]
fn diff_gives_constants_values_on_both_sides() {
    if !compiler::is_there() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let text = "def main(x: Tensor((\"n\", 4), \"f32\")):\n    w = param(\"w\", Tensor((4, 2), \"f32\"))\n    return matmul(x, w)\n";
    let path = file(&folder, "param.rx", text);
    let (said, code) = ended(&["diff", &path, "--backend", "cpu", "--cases", "5"]);
    assert!(code == Some(0) && said.starts_with("the same: 5 compared"), "{said}");
}

/// A C compiler that gets another text: what it makes is wrong, and finite. `relax diff` had compared f64 runs of the
/// interpreter with each other then.
#[test]
#[cfg(unix)]
fn wrong_floats_are_a_difference() {
    if !compiler::is_there() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(&folder, "doubled.rx", DOUBLED);
    let compiler = editing(folder.path(), r"s/\[i0\] + /[i0] * 1.5f + /");
    let compiler = compiler.to_str().expect("a path of the test");
    for numerics in [&[][..], &["--exact"]] {
        let command = ["diff", &path, "--backend", "cpu", "--no-kernel-check", "--cases", "9"];
        let wrong = |compiler: &str| {
            let mut command = relax(&[&command[..], numerics].concat());
            command
                .env("CC", compiler)
                .env("XDG_CACHE_HOME", folder.path().join(compiler.len().to_string()));
            command.output().expect("the command runs").status.code()
        };
        assert_eq!((wrong("cc"), wrong(compiler)), (Some(0), Some(1)), "{numerics:?}");
    }
}

/// Numerics are chosen where something is compiled.
#[test]
fn numerics_are_refused_where_there_are_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(&folder, "doubled.rx", DOUBLED);
    for arguments in [
        &["diff", &path, "--exact"][..],
        &["run", &path, "--fast", "--input", "x=[1]"],
        &["build", &path, "--exact", "--fast", "-o", "never.rxm"],
        &["build", &path, "--exact", "--tuned", "-o", "never.rxm"],
    ] {
        let (said, code) = ended(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
    }
    assert_eq!(ended(&["run", &path, "--exact", "--input", "x=[1]"]).1, Some(0));
    let module = folder.path().join("m.rxm");
    let module = module.to_str().expect("a path of the test");
    assert_eq!(ended(&["build", &path, "-o", module]).1, Some(0));
    for numerics in ["--exact", "--fast"] {
        let (said, code) = ended(&["run", module, "--input", "x=[1]", numerics]);
        assert!(code == Some(2) && said.contains("that it was built with"), "{said}");
    }
}

#[test]
fn checks_that_always_fail_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let traps = file(&folder, "traps.rx", TRAPS);
    let (said, code) = ended(&["check", &traps]);
    assert!(code == Some(1) && said.contains("error[RX0501]"), "{said}");
    assert!(said.contains("this fails for all sizes"), "{said}");
    let empty = TRAPS.replace("-1", "5");
    let empty = file(&folder, "empty.rx", &empty);
    let (said, code) = ended(&["check", &empty]);
    assert!(code == Some(0) && said.contains("warning[RX0501]"), "{said}");
    assert!(said.contains("all sizes that are not 0"), "{said}");
    assert_eq!(ended(&["check", "--deny", "warnings", &empty]).1, Some(1));
    // Passes take what traps: so does what they make of it.
    assert_eq!(ended(&["opt", &traps, "--to", "P2.1"]).1, Some(0));
    let doubled = file(&folder, "doubled.rx", DOUBLED);
    assert_eq!(ended(&["check", "--deny", "warnings", &doubled]), (String::new(), Some(0)));
}

/// What need not be reached need not hold, and neither does what another size makes right.
#[test]
fn checks_that_may_hold_are_not_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let behind = "def main(x: Tensor((\"n\", 4), \"f32\"), c: Tensor((), \"bool\")):\n    n = sym_var()\n    \
                  if c:\n        y = reshape(x, shape(n, 5))\n    else:\n        y = reshape(x, shape(n, -1))\n    \
                  return y\n";
    let may = "def main(x: Tensor((\"n\", 4), \"f32\"), k: Tensor((\"m\",), \"f32\")):\n    n = sym_var()\n    \
               m = sym_var()\n    return reshape(x, shape(m, 4))\n";
    for (name, text) in [("behind.rx", behind), ("may.rx", may)] {
        let path = file(&folder, name, text);
        assert_eq!(ended(&["check", "--deny", "warnings", &path]), (String::new(), Some(0)));
    }
}

#[test]
fn a_certificate_with_open_obligations_is_partial() {
    let folder = tempfile::tempdir().expect("a folder");
    let program =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../corpus/regressions/zeros_of_two_signs.rx");
    let certificate = folder.path().join("certificate");
    let certificate = certificate.to_str().expect("a path of the test");
    let made = ["--to", "P2.1", "--certify", "--certificate", certificate, "--output", "/dev/null"];
    assert_eq!(ended(&[&["opt", program], &made[..]].concat()).1, Some(0));
    let (said, code) = ended(&["verify", certificate]);
    assert_eq!(code, Some(6), "{said}");
    let counts = said.strip_prefix("partial: ").and_then(|rest| rest.split_once(", P2.1 for cpu"));
    let (proved, all) = counts.and_then(|(counts, _)| counts.split_once(" of ")).expect(&said);
    let [proved, all] = [proved, all].map(|count| count.parse::<usize>().expect(&said));
    assert!(0 < proved && proved < all, "{said}");
    assert_eq!(said.lines().filter(|line| line.contains(": unproved")).count(), all - proved);
    assert!(
        said.ends_with("not covered: the VM's code, the C source, the C compiler, machine code\n")
    );
    let (said, code) = ended(&["verify", "--format", "json", certificate]);
    assert_eq!(code, Some(6), "{said}");
    assert!(
        said.contains("\"verdict\":\"partial\"") && said.contains(&format!("\"proved\":{proved}")),
        "{said}"
    );
}

#[test]
fn lines_of_cases_that_cannot_be_read_are_answered_with_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = "{\"id\": 1, \"query\": \"n +\", \"expect\": \"proved\"}\nno JSON\n\
                 {\"id\": 3, \"query\": \"1298074214633706907132624082305025 > 0\", \"expect\": \"proved\"}\n\
                 {\"id\": 4, \"query\": \"n + 1 > n\", \"expect\": \"proved\"}\n";
    let path = file(&folder, "cases.jsonl", cases);
    let (said, code) = ended(&["prove", "--file", &path, "--json"]);
    assert_eq!(code, Some(2), "{said}");
    let answers: Vec<&str> = said.lines().collect();
    assert_eq!(answers.len(), 4, "{said}");
    assert!(answers[..3].iter().all(|line| line.contains("\"answer\":\"error\"")), "{said}");
    assert!(answers[2].contains("\"id\":3") && answers[2].contains("beyond 2^110"), "{said}");
    assert!(answers[3].contains("\"answer\":\"proved\""), "{said}");
    let (said, code) = ended(&["prove", "--file", &path]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("line 2: error: ") && said.contains("expected proved: 1 proved"),
        "{said}"
    );
}

/// Dims are i64; integers of statements are not.
#[test]
fn integers_beyond_i64_are_calculated_with() {
    for (statement, code) in [
        ("9223372036854775807 + 1 == 9223372036854775808", 0),
        ("n * 4294967296 * 4294967296 == n * 18446744073709551616", 0),
        ("18446744073709551617 // 18446744073709551616 == 1", 0),
        ("1298074214633706907132624082305024 % 4294967296 == 0", 0),
        ("18446744073709551616 == 18446744073709551617", 1),
    ] {
        let (said, found) = ended(&["prove", statement]);
        assert_eq!(found, Some(code), "{statement}: {said}");
    }
    let known = ["--assume", "n < 18446744073709551616", "n < 36893488147419103232"];
    let (said, code) = ended(&[&["prove"], &known[..]].concat());
    assert_eq!(code, Some(0), "{said}");
}

/// A kernel, its certificate as it is made, and what is said of it.
fn certified(folder: &TempDir, body: &str) -> (String, Option<i32>) {
    let program = format!(
        "def main(x: Tensor((\"n\",), \"f32\")):\n    n = sym_var()\n    \
         return call_tir(f, [x], Tensor((n,), \"f32\"))\n\n\
         @tensorir_function\n\
         def f(X: Buffer((\"n\",), \"f32\"), Y: Buffer((\"n\",), \"f32\")):\n    \
         n = sym_var()\n{body}"
    );
    let program = file(folder, "f.rx", &program);
    let certificate = folder.path().join("certificate");
    let certificate = certificate.to_str().expect("a path of the test");
    let made = ["--to", "P2.1", "--certify", "--certificate", certificate, "--output", "/dev/null"];
    let (said, code) = ended(&[&["opt", &program, "-v"], &made[..]].concat());
    if code != Some(0) {
        return (said, code);
    }
    ended(&["verify", certificate])
}

#[test]
fn accesses_beyond_the_end_are_refuted() {
    let folder = tempfile::tempdir().expect("a folder");
    let read = "`X`: is read in bounds";
    for (index, within) in
        [("i + 1", "i = 0, n = 1"), ("i - 1", "i = 0, n = 1"), ("n - i", "i = 0")]
    {
        let (said, code) =
            certified(&folder, &format!("    for i in range(n):\n        Y[i] = X[{index}]\n"));
        assert_eq!(code, Some(6), "{said}");
        let line = said.lines().find(|line| line.contains(": refuted: ")).expect(&said);
        assert!(line.starts_with("kernel: f: ") && line.contains(read), "{line}");
        assert!(line.contains(within), "{line}");
    }
}

/// Nothing is said to be wrong that no run has reached.
#[test]
fn accesses_that_may_not_be_reached_are_not_refuted() {
    let folder = tempfile::tempdir().expect("a folder");
    let guarded = "    for i in range(n):\n        if i + 1 < n:\n            Y[i] = X[i + 1]\n        else:\n            Y[i] = X[i]\n";
    let (said, code) = certified(&folder, guarded);
    assert!(code == Some(0) || (code == Some(6) && !said.contains("is read in bounds")), "{said}");
    let by_element = "    for i in range(n):\n        Y[i] = X[i]\n        if X[i] > 0.0:\n            Y[i] = X[i + 1]\n";
    let stopped = "    for i in range(n):\n        check(n < 0, \"f/C1\", \"never\")\n        Y[i] = X[i + 1]\n";
    for body in [by_element, stopped] {
        let (said, code) = certified(&folder, body);
        assert!(matches!(code, Some(0 | 6)), "{said}");
    }
    let (said, _) = certified(&folder, by_element);
    assert!(said.contains("is read in bounds: unproved"), "{said}");
}

/// The program of each rank, certified and verified; with another text in its place, or in the certificate, it is refused.
#[test]
fn the_program_of_ranks_is_verified() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "module_attr(\"mesh[0]\", \"3\")\n\ndef twice(x: Tensor((\"n\", 4), \"f32\")):\n    return add(x, x)\n\ndef main(x: DTensor((\"n\", 4), \"f32\", \"mesh[0]\", \"S[0]\")):\n    return sum(twice(x), axis=[0])\n";
    let program = file(&folder, "program.rx", text);
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let (local, certificate) = (path("local.rx"), path("ranks.cert"));
    let shard = ["shard", &program, "--local", "-o", &local, "--certificate", &certificate];
    let (said, code) = ended(&shard);
    assert!(code == Some(0) && said.contains("rank") && !said.contains("no certificate"), "{said}");
    let verify = ["verify", &certificate, "--program", &local];
    let (said, code) = ended(&verify);
    assert!(code == Some(0) && said.starts_with("verified: ranks for any target"), "{said}");
    assert!(said.contains("not covered: how arguments are cut"), "{said}");
    let whole = std::fs::read_to_string(&certificate).expect("a certificate");
    let read = std::fs::read_to_string(&local).expect("a program");
    assert!(read.contains("spmd.all_reduce") && whole.contains("\\\"sum\\\""), "{read}\n{whole}");
    file(&folder, "local.rx", &read.replace("\"sum\"", "\"max\""));
    let (said, code) = ended(&verify);
    assert!(
        code == Some(1) && said.contains("not the one that the certificate is about"),
        "{said}"
    );
    file(&folder, "ranks.cert", &whole.replace("\\\"sum\\\"", "\\\"max\\\""));
    let (said, code) = ended(&["verify", &certificate]);
    assert_eq!(code, Some(1), "{said}");
    // Without a file for the local program there is nothing that the certificate is about.
    let (said, code) = ended(&["shard", &program, "--certificate", &certificate]);
    assert_eq!(code, Some(2), "{said}");
}
