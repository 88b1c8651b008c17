//! Limits on compiled kernels. `--max-steps`: a run of more iterations than the limit ends as in the interpreter, whatever the bounds
//! of the loops are and on any number of threads. `--max-memory`: attention needs no memory for all of its scores.

mod compiler;
mod warm;

use std::path::PathBuf;
use std::process::{Command, Output};
use tempfile::TempDir;

/// Kernels with `n * n` iterations: bounds that are dims, an element, and a nest under a condition on elements.
const PROGRAM: &str = r#"
def dims(x: Tensor(("n",), "f32")) -> Tensor(("n",), "f32"):
    n = sym_var()
    return call_tir(by_dims, [x], Tensor((n,), "f32"))

def element(x: Tensor(("n",), "f32"), k: Tensor((1,), "i64")) -> Tensor(("n",), "f32"):
    n = sym_var()
    return call_tir(by_element, [x, k], Tensor((n,), "f32"))

def condition(x: Tensor(("n",), "f32"), k: Tensor((1,), "i64")) -> Tensor(("n",), "f32"):
    n = sym_var()
    return call_tir(by_condition, [x, k], Tensor((n,), "f32"))

@tensorir_function
def by_dims(X: Buffer(("n",), "f32"), Y: Buffer(("n",), "f32")):
    n = sym_var()
    for i in range(n):
        Y[i] = X[i]
        for j in range(n):
            Y[i] = Y[i] * 0.5 + X[j]

@tensorir_function
def by_element(X: Buffer(("n",), "f32"), K: Buffer((1,), "i64"), Y: Buffer(("n",), "f32")):
    n = sym_var()
    for i in range(n):
        Y[i] = X[i]
        for j in range(K[0]):
            Y[i] = Y[i] * 0.5 + X[i]

@tensorir_function
def by_condition(X: Buffer(("n",), "f32"), K: Buffer((1,), "i64"), Y: Buffer(("n",), "f32")):
    n = sym_var()
    for i in range(n):
        Y[i] = X[i]
        if K[0] > 3:
            for j in range(n):
                Y[i] = Y[i] * 0.5 + X[j]
"#;

/// A folder with the program, and a cache of compiled kernels that is its own.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder for the test"));
        std::fs::write(folder.path("p.rx"), PROGRAM).expect("the file is written");
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn relax(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_relax"));
        command.args(arguments).current_dir(self.0.path());
        command.env("XDG_CACHE_HOME", warm::cache(self.path("cache")));
        command.output().expect("the command runs")
    }

    /// Calls a function with `n` numbers; `n` again is the element that bounds or guards a loop.
    fn run(&self, file: &[&str], entry: &str, n: u64, more: &[&str]) -> Output {
        let (x, k) = (format!("x=arange({n})"), format!("k=[{n}]"));
        let mut arguments = vec!["run"];
        arguments.extend(file);
        arguments.extend(["--entry", entry, "--input", &x]);
        if entry != "dims" {
            arguments.extend(["--input", &k]);
        }
        arguments.extend(more);
        self.relax(&arguments)
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const ENTRIES: [&str; 3] = ["dims", "element", "condition"];

#[test]
fn kernels_end_at_the_limit_as_the_interpreter_does() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    let built = folder.relax(&["build", "p.rx", "-o", "p.rxm"]);
    assert_eq!(built.status.code(), Some(0), "{}", said(&built));
    for entry in ENTRIES {
        for file in [&["p.rx"][..], &["p.rx", "--backend", "cpu"], &["p.rxm"]] {
            for threads in ["1", "2"] {
                // A kernel that did not end at the limit would take about a second.
                let more = ["--max-steps", "1000", "--threads", threads];
                let ended = folder.run(file, entry, 20_000, &more);
                let said = said(&ended);
                assert_eq!(ended.status.code(), Some(3), "{entry} of {file:?}: {said}");
                assert!(said.contains("exhausted"), "{said}");
                assert!(said.contains("out of steps"), "{said}");
                assert!(said.contains("raise the limit with --max-steps"), "{said}");
            }
        }
    }
}

#[test]
fn a_limit_that_is_enough_changes_nothing() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    for entry in ENTRIES {
        let file = ["p.rx", "--backend", "cpu"];
        let free = folder.run(&file, entry, 300, &[]);
        assert_eq!(free.status.code(), Some(0), "{}", said(&free));
        let limited = folder.run(&file, entry, 300, &["--max-steps", "100000"]);
        assert!(limited.stdout == free.stdout, "{entry}: {}", said(&limited));
    }
}

/// The least limit that is enough, by bisection.
fn least(folder: &Folder, entry: &str, threads: &str) -> u64 {
    let (mut low, mut high) = (0, 1_000_000);
    while low + 1 < high {
        let middle = (low + high) / 2;
        let limit = middle.to_string();
        let more = ["--max-steps", limit.as_str(), "--threads", threads];
        let ended = folder.run(&["p.rxm"], entry, 200, &more);
        match ended.status.code() {
            Some(0) => high = middle,
            Some(3) => low = middle,
            _ => panic!("{entry}: {}", said(&ended)),
        }
    }
    high
}

#[test]
fn the_same_limit_is_enough_on_any_number_of_threads() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    let built = folder.relax(&["build", "p.rx", "-o", "p.rxm"]);
    assert_eq!(built.status.code(), Some(0), "{}", said(&built));
    let counts = ENTRIES.map(|entry| least(&folder, entry, "1"));
    assert_eq!(counts, ENTRIES.map(|entry| least(&folder, entry, "2")));
    // 200 iterations, each with 200 of the loop in it, and the instructions around the kernel.
    for (entry, count) in ENTRIES.iter().zip(counts) {
        assert!((40_200..40_300).contains(&count), "{entry}: {count} steps");
    }
}

/// The operator, and attention that is written out, plain and causal.
const ATTENTION: &str = r#"
def operator(q: Tensor(("b", "n", "h", "d"), "f32"), k: Tensor(("b", "n", "h", "d"), "f32")):
    return attention(q, k, k)

def causal(q: Tensor(("b", "n", "h", "d"), "f32"), k: Tensor(("b", "n", "h", "d"), "f32")):
    return attention(q, k, k, causal_mask="TopLeft")

def written(q: Tensor(("b", "h", "n", "d"), "f32"), k: Tensor(("b", "h", "n", "d"), "f32")):
    scores = multiply(matmul(q, permute_dims(k, axes=[0, 1, 3, 2])), const(0.125, "f32"))
    return matmul(softmax(scores, axis=-1), k)

def written_causal(q: Tensor(("b", "h", "n", "d"), "f32"), k: Tensor(("b", "h", "n", "d"), "f32")):
    n = sym_var()
    scores = multiply(matmul(q, permute_dims(k, axes=[0, 1, 3, 2])), const(0.125, "f32"))
    seen = where(tril(ones((n, n), "bool")), scores, const(-3.0e38, "f32"))
    return matmul(softmax(seen, axis=-1), k)
"#;

#[test]
fn attention_needs_no_memory_for_all_scores() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    std::fs::write(folder.path("a.rx"), ATTENTION).expect("the file is written");
    // The scores of 8 heads of 1,024 rows take 32 MiB, those of 64 rows 2 MiB.
    for (entry, shape) in [
        ("operator", "1, 1024, 8, 64"),
        ("causal", "1, 1024, 8, 64"),
        ("written", "1, 8, 1024, 64"),
        ("written_causal", "1, 8, 1024, 64"),
    ] {
        for numerics in [&[][..], &["--exact"]] {
            let [q, k] = ["q", "k"].map(|name| format!("{name}=ones({shape})"));
            let arguments =
                ["run", "a.rx", "--backend", "cpu", "--entry", entry, "--input", &q, "--input", &k];
            let limits = ["--max-memory", "20M", "--threads", "2"];
            let ended = folder.relax(&[&arguments[..], &limits, numerics].concat());
            assert_eq!(ended.status.code(), Some(0), "{entry} {numerics:?}: {}", said(&ended));
        }
    }
}
