//! `relax build`, and `relax run` of what it made: the same results, the same traps, the same exit codes as of
//! the text; and files that are no modules.

mod compiler;
mod warm;

use relax_runtime::file::Image;
use relax_runtime::program::Numerics;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A folder with programs, and a cache of compiled kernels that is its own.
struct Folder(TempDir);

/// Kernels, an operator that only the reference library has, a branch, a closure, a scalar, a shape.
const PROGRAM: &str = r#"
def main(x: Tensor(("n", 4), "f32"), w: Tensor((4, "m"), "f32"), s: Shape(["n"])):
    y = relu(matmul(x, w))
    print("{} and {}", y, s)
    return (y, unique(flatten(y)), s, shape_of(y))

def pick(x: Tensor(("n",), "f32"), c: Tensor((), "bool")) -> Tensor(("n",), "f32"):
    if c:
        y = multiply(x, const(2.0, "f32"))
    else:
        y = negative(x)
    return y

def cast(x: Tensor(("n",), "f32")):
    m = sym_var()
    y = unique(x)
    z = match_cast(y, Tensor((m,), "f32"))
    return reshape(z, shape(m // 2, 2))
"#;

/// A constant of a file, and one parameter beside.
const WEIGHTS: &str = r#"
def main(x: Tensor(("n", 2), "f32"), scale: Tensor((2,), "f32")):
    return multiply(add(x, param("bias", Tensor((2,), "f32"))), scale)
"#;

/// Operators and a tensor program; traps where `n` is not 3.
const TWICE: &str = r#"
def main(x: Tensor(("n",), "f32")):
    n = sym_var()
    a = exp(x)
    b = call_tir(double, [a], Tensor((n,), "f32"))
    return reshape(b, shape(3, 1))

@tensorir_function
def double(X: Buffer(("n",), "f32"), Y: Buffer(("n",), "f32")):
    n = sym_var()
    for i in range(n):
        Y[i] = X[i] * 2.0
"#;

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder for the test"));
        folder.write("p.rx", PROGRAM.as_bytes());
        folder.write("w.rx", WEIGHTS.as_bytes());
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).expect("the file is written");
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).expect("the file is there")
    }

    fn relax(&self, arguments: &[&str]) -> Output {
        warm::cache(self.path("cache"));
        self.command(arguments, "cache").output().expect("the command runs")
    }

    fn command(&self, arguments: &[&str], cache: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_relax"));
        command.args(arguments).current_dir(self.0.path());
        command.env("XDG_CACHE_HOME", self.path(cache));
        command
    }

    fn build(&self, program: &str, module: &str, more: &[&str]) -> Output {
        self.relax(&[&["build", program, "-o", module], more].concat())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_module_does_what_its_text_does() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    let built = folder.build("p.rx", "p.rxm", &[]);
    assert_eq!(built.status.code(), Some(0), "{}", text(&built.stderr));
    let x = "x=[[1, -2, 3, 4], [0.5, 0, 0, 1]]";
    let calls: [&[&str]; 8] = [
        &["--input", x, "--input", "w=ones(4, 3)", "--input", "s=shape(2)"],
        &["--input", "x=zeros(0, 4)", "--input", "w=ones(4, 3)", "--input", "s=shape(0)"],
        &["--entry", "pick", "--input", "x=[1, 2]", "--input", "c=True"],
        &["--entry", "pick", "--input", "x=[1, 2]", "--input", "c=False", "--format", "json"],
        &["--entry", "cast", "--input", "x=[3, 1, 3, 2, 7]"],
        &["--entry", "pick", "--random", "--sym", "n=5", "--seed", "3"],
        &["--entry", "pick"],
        &["--entry", "nothing"],
    ];
    for call in calls {
        let interpreted = folder.relax(&[&["run", "p.rx"], call].concat());
        let compiled = folder.relax(&[&["run", "p.rx", "--backend", "cpu"], call].concat());
        let module = folder.relax(&[&["run", "p.rxm"], call].concat());
        assert_eq!(text(&module.stdout), text(&interpreted.stdout), "{call:?}");
        assert_eq!(text(&compiled.stdout), text(&interpreted.stdout), "{call:?}");
        assert_eq!(module.status.code(), interpreted.status.code(), "{}", text(&module.stderr));
        assert_eq!(compiled.status.code(), interpreted.status.code(), "{call:?}");
    }
}

#[test]
fn a_module_traps_as_its_text_does() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    folder.build("p.rx", "p.rxm", &[]);
    let calls: [(&[&str], &str); 4] = [
        (
            &["--input", "x=ones(2, 4)", "--input", "w=ones(4, 1)", "--input", "s=shape(3)"],
            "trap[boundary/dim]",
        ),
        (&["--entry", "cast", "--input", "x=[1, 2, 3]"], "trap[reshape/C2]"),
        (&["--entry", "cast", "--input", "x=[[1], [2]]"], "trap[boundary/rank]"),
        (&["--entry", "pick", "--input", "x=[1]", "--input", "c=[True]"], "trap[boundary/rank]"),
    ];
    for (call, id) in calls {
        for file in ["p.rx", "p.rxm"] {
            let ended = folder.relax(&[&["run", file], call].concat());
            let message = text(&ended.stderr);
            assert_eq!(ended.status.code(), Some(3), "{file} {call:?}: {message}");
            assert!(message.contains(id), "{file}: {message}");
            assert!(message.contains("p.rx:"), "the source line is shown: {message}");
        }
    }
    // Which dim comes from where is told alike, too.
    let of_names = &calls[0].0;
    let told = |file| text(&folder.relax(&[&["run", file], *of_names].concat()).stderr);
    assert!(told("p.rxm").contains("n = 2 was bound by dim 0 of parameter `x`"));
    assert_eq!(told("p.rxm"), told("p.rx"));
    let call = ["--entry", "pick", "--input", "x=zeros(1000)", "--input", "c=True"];
    let ended = folder.relax(&[&["run", "p.rxm", "--max-memory", "4001"][..], &call].concat());
    assert_eq!(ended.status.code(), Some(3), "{}", text(&ended.stderr));
}

#[test]
fn equal_programs_have_equal_files() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    for (cache, module) in [("one", "a.rxm"), ("two", "b.rxm")] {
        let mut command = folder.command(&["build", "p.rx", "-o", module], cache);
        assert!(command.output().expect("the command runs").status.success());
    }
    assert_eq!(folder.read("a.rxm"), folder.read("b.rxm"));
}

/// Files of the cache of modules.
fn kept(folder: &Folder) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(folder.path("cache/relax/modules")).expect("something was kept");
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("the folder is readable").path()).collect();
    paths.sort();
    paths
}

#[test]
fn what_was_built_is_found_again() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    folder.build("p.rx", "first.rxm", &[]);
    let [entry]: [PathBuf; 1] = kept(&folder).try_into().expect("one file");
    assert_eq!(folder.read("first.rxm"), std::fs::read(&entry).expect("it is there"));
    // What is damaged there is made anew, for who builds and for who runs.
    let call = ["--entry", "pick", "--input", "x=[1, 2]", "--input", "c=True"];
    for damaged in [b"something else".to_vec(), folder.read("first.rxm")[..640].to_vec()] {
        std::fs::write(&entry, &damaged).expect("it is written");
        folder.build("p.rx", "second.rxm", &[]);
        assert_eq!(folder.read("first.rxm"), folder.read("second.rxm"));
        let run = || folder.relax(&[&["run", "p.rx", "--backend", "cpu"], &call[..]].concat());
        let (made, found) = (text(&run().stdout), text(&run().stdout));
        assert!(made == found && made.contains("[2. 4.]"), "{made}{found}");
    }
    // Another text, other options: other entries. What stands there is what is given.
    let before = kept(&folder).len();
    folder.write("other.rx", b"def main(x: Tensor((\"n\",), \"f32\")):\n    return relu(x)\n");
    folder.build("other.rx", "other.rxm", &[]);
    folder.build("p.rx", "exact.rxm", &["--exact"]);
    assert_eq!(kept(&folder).len(), before + 2);
    std::fs::write(&entry, folder.read("other.rxm")).expect("it is written");
    folder.build("p.rx", "third.rxm", &[]);
    assert_eq!(folder.read("third.rxm"), folder.read("other.rxm"));
}

#[test]
fn weights_are_in_the_file_or_stay_parameters() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    let missing = folder.build("w.rx", "w.rxm", &[]);
    assert_eq!(missing.status.code(), Some(2), "{}", text(&missing.stderr));
    assert!(text(&missing.stderr).contains("`bias`"));
    folder.write("make.rx", b"def main(bias: Tensor((2,), \"f32\")):\n    return bias\n");
    folder.relax(&["run", "make.rx", "--input", "bias=[10, 20]", "--output", "one.safetensors"]);
    rename_tensor(&folder.path("one.safetensors"), "result", "bias");
    let built = folder.build("w.rx", "w.rxm", &["--params", "one.safetensors"]);
    assert_eq!(built.status.code(), Some(0), "{}", text(&built.stderr));
    std::fs::remove_file(folder.path("one.safetensors")).expect("it was there");
    let inputs = ["--input", "x=[[1, 2]]", "--input", "scale=[1, -1]"];
    let ran = folder.relax(&[&["run", "w.rxm"][..], &inputs].concat());
    assert!(
        text(&ran.stdout).contains("[[ 11. -22.]]"),
        "{}{}",
        text(&ran.stdout),
        text(&ran.stderr)
    );
}

/// Gives the only tensor of a safetensors file another name of as many or fewer characters.
fn rename_tensor(path: &Path, from: &str, to: &str) {
    let bytes = std::fs::read(path).expect("the file is there");
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    let (header, data) = bytes[8..].split_at(usize::try_from(length).expect("it is small"));
    let header = text(header).replace(&format!("\"{from}\""), &format!("\"{to}\""));
    let mut renamed = (header.len() as u64).to_le_bytes().to_vec();
    renamed.extend(header.as_bytes());
    renamed.extend(data);
    std::fs::write(path, renamed).expect("the file is written");
}

/// A certificate is in the file where it is asked for, and is about the source in it.
#[test]
fn a_certified_module_is_verified() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    folder.build("p.rx", "bare.rxm", &[]);
    for more in [&["--certify"][..], &["--certify", "--exact"]] {
        let built = folder.build("p.rx", "p.rxm", more);
        assert_eq!(built.status.code(), Some(0), "{}", text(&built.stderr));
        let verified = folder.relax(&["verify", "p.rxm"]);
        // Obligations of `lower_builtins` stay open: "a tensor in memory of an unknown shape".
        assert_eq!(verified.status.code(), Some(6), "{}", text(&verified.stderr));
        let head = text(&verified.stdout);
        assert!(head.starts_with("partial: ") && head.contains(", build "), "{head}");
        let table = text(&verified.stdout);
        let memory = table.lines().find(|line| line.starts_with("memory")).expect("a row");
        let counts: Vec<&str> = memory.split_whitespace().skip(1).collect();
        assert_ne!(counts[0], "0", "{table}");
        assert_eq!(counts[3..], ["0", "0"], "memory is proved where shapes are dims:\n{table}");
        let run = ["--entry", "pick", "--input", "x=[1, 2]", "--input", "c=True"];
        let [plain, certified] =
            ["bare.rxm", "p.rxm"].map(|file| folder.relax(&[&["run", file], &run[..]].concat()));
        assert_eq!(text(&plain.stdout), text(&certified.stdout));
    }
    let image = Image::from_bytes(&folder.read("p.rxm")).expect("it reads");
    let source = image.source.replace("const(2.0", "const(3.0");
    assert_ne!(source, image.source);
    folder.write("forged.rxm", &Image { source, ..image.clone() }.to_bytes());
    let mut other = image.clone();
    assert_eq!(other.metadata.numerics, Numerics::Exact);
    other.metadata.numerics = Numerics::Reassociated;
    folder.write("numerics.rxm", &other.to_bytes());
    let certificate = image.certificate.replace("negative(x)", "multiply(x, x)");
    assert_ne!(certificate, image.certificate);
    folder.write("changed.rxm", &Image { certificate, ..image }.to_bytes());
    for (file, why) in [
        ("bare.rxm", "there is no certificate in it: build it with --certify"),
        ("forged.rxm", "the certificate is about another source than that of the file"),
        (
            "numerics.rxm",
            "about `build --exact`, and the numerics of the file are those of `build`",
        ),
        ("changed.rxm", "changed.rxm: "),
        ("p.rx", "no JSON object"),
    ] {
        let refused = folder.relax(&["verify", file]);
        assert_eq!(refused.status.code(), Some(1), "{file}");
        assert!(text(&refused.stderr).contains(why), "{file}: {}", text(&refused.stderr));
    }
}

#[test]
fn what_is_no_module_is_told() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    folder.build("p.rx", "p.rxm", &[]);
    let good = folder.read("p.rxm");
    let mut damaged = good.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 4;
    let cases: [(&str, &[u8], &str); 4] = [
        ("damaged.rxm", &damaged, "damaged"),
        ("short.rxm", &good[..good.len() - 64], "damaged"),
        ("text.rxm", PROGRAM.as_bytes(), "no module file"),
        ("empty.rxm", b"", "no module file"),
    ];
    for (name, bytes, what) in cases {
        folder.write(name, bytes);
        let ended = folder.relax(&["run", name]);
        let message = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{name}: {message}");
        assert!(message.contains(what) && message.contains(name), "{message}");
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    folder.build("p.rx", "p.rxm", &["--fast"]);
    let call = ["--random", "--sym", "n=300", "--sym", "m=700", "--input", "s=shape(300)"];
    let run = |threads: &[&str]| folder.relax(&[&["run", "p.rxm"], &call[..], threads].concat());
    let alone = run(&["--threads", "1"]);
    assert_eq!(alone.status.code(), Some(0), "{}", text(&alone.stderr));
    for threads in [&["--threads", "2"][..], &["--threads", "5"], &[]] {
        assert!(run(threads).stdout == alone.stdout, "{threads:?}");
    }
    assert_eq!(run(&["--threads", "0"]).status.code(), Some(2));
}

#[test]
fn a_trace_has_the_calls_and_bench_times_them() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    folder.build("p.rx", "p.rxm", &[]);
    let call = ["--entry", "pick", "--input", "x=[1, 2]", "--input", "c=True"];
    let ran = folder.relax(&[&["run", "p.rxm", "--trace", "t.json"], &call[..]].concat());
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let trace: serde_json::Value =
        serde_json::from_slice(&folder.read("t.json")).expect("the trace is JSON");
    let events = trace["traceEvents"].as_array().expect("it has events");
    let is_call = |event: &serde_json::Value| {
        event["ph"] == "X" && event["cat"] == "kernel" && event["dur"].as_f64() >= Some(0.0)
    };
    assert!(!events.is_empty() && events.iter().all(is_call), "{trace}");
    assert!(events[0]["args"]["shapes"].as_str().is_some_and(|shapes| shapes.contains("[2]")));
    for file in ["p.rx", "p.rxm"] {
        let bench = ["bench", file, "--sym", "n=9", "--input", "c=True", "--seconds", "0"];
        let timed = folder.relax(&[&bench, &call[..2]].concat());
        assert_eq!(timed.status.code(), Some(0), "{}", text(&timed.stderr));
        let table = text(&timed.stdout);
        assert!(table.contains("ms in the median") && table.contains("multiply"), "{table}");
    }
    let wrong = ["bench", "p.rxm", "--entry", "cast", "--input", "x=[1, 2, 3]"];
    assert_eq!(folder.relax(&wrong).status.code(), Some(3), "what stops is told");
}

/// The interpreter has a trace in the same format: an event a call, inner ones within outer ones; also of a run that traps.
#[test]
fn a_trace_of_the_interpreter_has_its_calls() {
    let folder = Folder::new();
    folder.write("twice.rx", TWICE.as_bytes());
    let events = |code: i32, input: &str| -> Vec<serde_json::Value> {
        let ran = folder.relax(&["run", "twice.rx", "--trace", "t.json", "--input", input]);
        assert_eq!(ran.status.code(), Some(code), "{}", text(&ran.stderr));
        let trace = serde_json::from_slice::<serde_json::Value>(&folder.read("t.json"));
        let trace = trace.expect("the trace is JSON");
        trace["traceEvents"].as_array().expect("it has events").clone()
    };
    let calls = |events: &[serde_json::Value]| -> Vec<String> {
        let shown = |event: &serde_json::Value| {
            let field = |at: &serde_json::Value| at.as_str().unwrap_or("none").to_owned();
            [field(&event["cat"]), field(&event["name"]), field(&event["args"]["shapes"])].join(" ")
        };
        events.iter().map(shown).collect()
    };
    let ran = events(0, "x=[1, 2, 3]");
    assert_eq!(
        calls(&ran),
        [
            "operator exp [3]",
            "kernel double [3] [3]",
            "operator call_tir [3]",
            "operator reshape [3]"
        ]
    );
    let time = |event: &serde_json::Value, field: &str| event[field].as_f64().expect("a number");
    let ends = |event: &serde_json::Value| time(event, "ts") + time(event, "dur");
    let (inner, outer) = (&ran[1], &ran[2]);
    assert!(time(outer, "ts") <= time(inner, "ts") && ends(inner) <= ends(outer) + 1e-3);
    assert_eq!(
        calls(&events(3, "x=[1, 2]")).last().map(String::as_str),
        Some("operator reshape [2]")
    );
}

#[test]
fn a_missing_compiler_is_told() {
    let folder = Folder::new();
    let mut command = folder.command(&["build", "p.rx", "-o", "p.rxm"], "cache");
    let ended = command.env("CC", "no-such-compiler").output().expect("the command runs");
    let message = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(4), "{message}");
    assert!(message.contains("no-such-compiler"), "{message}");
    assert!(!folder.path("p.rxm").exists(), "nothing is left of a build that fails");
}

/// A model of another format is built as what its import is, and one that needs more than it says is told so.
#[test]
fn a_model_is_built_as_its_import() {
    if !compiler::is_there() {
        return;
    }
    let folder = Folder::new();
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../import/tests/loops");
    let model = |name: &str| models.join(name).to_string_lossy().into_owned();
    let scan = model("scan.onnx");
    let built = folder.build(&scan, "scan.rxm", &["--certify", "--exact"]);
    assert_eq!(built.status.code(), Some(0), "{}", text(&built.stderr));
    for sym in [&["--sym", "t=0"], &["--sym", "t=5"]] {
        let call = [&["--random", "--seed", "1", "--sym", "b=2"], sym.as_slice()].concat();
        let interpreted = folder.relax(&[&["run", &scan], call.as_slice()].concat());
        let module = folder.relax(&[&["run", "scan.rxm"], call.as_slice()].concat());
        assert_eq!(interpreted.status.code(), Some(0), "{}", text(&interpreted.stderr));
        assert_eq!(text(&module.stdout), text(&interpreted.stdout), "{}", text(&module.stderr));
    }
    // Integer workspaces whose stores are forwarded are no difference.
    let reassociated = folder.build(&scan, "scan.rxm", &[]);
    assert_eq!(reassociated.status.code(), Some(0), "{}", text(&reassociated.stderr));
    let timed = folder.relax(&["bench", &scan, "--sym", "b=2", "--sym", "t=5", "--seconds", "0"]);
    assert_eq!(timed.status.code(), Some(0), "{}", text(&timed.stderr));
    assert!(text(&timed.stdout).starts_with("main: "), "{}", text(&timed.stdout));
    let untold = folder.relax(&["bench", &model("rank.onnx")]);
    assert_eq!(untold.status.code(), Some(2), "{}", text(&untold.stderr));
    let rank = folder.build(&model("rank.onnx"), "rank.rxm", &[]);
    assert_eq!(rank.status.code(), Some(2), "{}", text(&rank.stderr));
    assert!(text(&rank.stderr).contains("relax import"), "{}", text(&rank.stderr));
    let params = folder.build(&scan, "scan.rxm", &["--params", "w.safetensors"]);
    assert_eq!(params.status.code(), Some(2), "{}", text(&params.stderr));
    folder.write("broken.onnx", b"\x08no model");
    let broken = folder.build("broken.onnx", "broken.rxm", &[]);
    assert_eq!(broken.status.code(), Some(1), "{}", text(&broken.stderr));
    assert!(!folder.path("rank.rxm").exists() && !folder.path("broken.rxm").exists());
    // An operator that is not imported is what is missing here; the model is fine.
    let missing = folder.build(&model("../extents/missing.onnx"), "missing.rxm", &[]);
    assert_eq!(missing.status.code(), Some(4), "{}", text(&missing.stderr));
    assert!(text(&missing.stderr).contains("Det: this operator is not imported"));
}
