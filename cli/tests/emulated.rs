//! The command with `--backend cuda` on an emulated CUDA: all the code from arguments to the driver's calls runs, and what the
//! driver was asked for is counted. Nothing it refuses, or is left with, goes unseen.
#![cfg(feature = "cuda")]

#[path = "../../backends/cuda/tests/emulator/mod.rs"]
mod emulator;

use emulator::{Emulator, Report};
use relax_corpus::requirement;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// A graph that is recorded; a kernel that may stop; products that a library computes.
const PROGRAM: &str = r#"
def main(x: Tensor(("n", 4), "f32")):
    n = sym_var(upper_bound=64)
    a: Tensor((4, n), "f32") = cumsum(permute_dims(x), axis=0)
    b = cumsum(cumsum(a, axis=0), axis=0)
    c = cumsum(cumsum(b, axis=0), axis=0)
    return nn.softmax(cumsum(c, axis=0), axis=0)

def dense(x: Tensor(("n", 16), "f32"), w: Tensor((16, 8), "f32"), b: Tensor((8,), "f32")):
    n = sym_var(lower_bound=2, upper_bound=64)
    with dataflow():
        y = relu(add(matmul(x, w), b))
        output(y)
    return y

def halves(x: Tensor((3, "n", 16), "f16"), w: Tensor((16, 8), "f16"), b: Tensor((8,), "f16")):
    n = sym_var(lower_bound=2, upper_bound=64)
    with dataflow():
        y = gelu_tanh(add(matmul(x, w), b))
        output(y)
    return y

def shorts(x: Tensor((2, "n", 16), "bf16"), w: Tensor((2, 16, 8), "bf16")):
    n = sym_var(lower_bound=2, upper_bound=64)
    with dataflow():
        y = matmul(x, w)
        output(y)
    return y

def raised(x: Tensor((3,), "f32"), at: Tensor((1,), "i64")):
    y: Tensor((3,), "f32") = call_tir_inplace(raise_up_to, [x, at], inplace=[0], out=Tensor((3,), "f32"))
    return y

@tensorir_function
def raise_up_to(X: Buffer((3,), "f32"), I: Buffer((1,), "i64")):
    for i in range(4):
        if i <= I[0]:
            X[i] += 1.0
"#;

/// Rows in f32: sums by trees, functions of the device, and what stays in f64 all the same.
const ROWS: &str = r#"
def softmax_rows(x: Tensor(("n", "m"), "f32")):
    return nn.softmax(multiply(x, const(3.0, "f32")), axis=-1)

def layer_norm_rows(x: Tensor(("n", "m"), "f32"), g: Tensor(("m",), "f32"), b: Tensor(("m",), "f32")):
    return nn.layer_norm(x, g, b, axes=[-1], epsilon=1e-5)

def rms_norm_rows(x: Tensor(("n", "m"), "f32"), g: Tensor(("m",), "f32")):
    return nn.rms_norm(x, g, axes=[-1], epsilon=1e-5)

def sums(x: Tensor(("n", "m"), "f32")):
    return (sum(x, axis=[-1]), mean(x, axis=[0]), std(x, axis=[-1]), max(x, axis=[-1]))

def functions(x: Tensor(("n", "m"), "f32")):
    return (gelu(x), tanh(x), sigmoid(x), erf(x), exp(x), sin(x), cos(x), rsqrt(add(multiply(x, x), const(1.0, "f32"))))

def attended(x: Tensor(("n", 16), "f32")):
    n = sym_var()
    y = reshape(x, shape(1, n, 2, 8))
    return nn.attention(y, y, y, causal_mask="TopLeft")

def product(x: Tensor(("n", "k"), "f32"), w: Tensor(("k", "m"), "f32")):
    return relu(matmul(x, w))
"#;

/// A folder with the program and a cache of its own, and the emulator.
struct Folder(TempDir, Emulator);

impl Folder {
    fn new() -> Option<Self> {
        let emulator = Emulator::build()?;
        let folder = tempfile::tempdir().expect("a folder for the test");
        std::fs::write(folder.path().join("p.rx"), PROGRAM).expect("the file is written");
        Some(Self(folder, emulator))
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = self.1.command(env!("CARGO_BIN_EXE_relax"));
        command.args(arguments.split(' ')).current_dir(self.0.path());
        command.env("XDG_CACHE_HOME", self.0.path().join("cache"));
        command
    }

    fn watch(&self, command: &mut Command) -> (Output, Report) {
        self.1.watch(command)
    }

    /// What it prints when all is well: nothing is refused, and nothing left behind.
    fn fine(&self, arguments: &str) -> (String, Report) {
        let (output, report) = self.watch(&mut self.command(arguments));
        let (code, said) = (output.status.code(), words(&output.stderr));
        assert_eq!((code, report.lines.len()), (Some(0), 0), "{arguments}: {said}{report:?}");
        (words(&output.stdout), report)
    }

    /// Ends with a code and words, but does nothing wrong with the driver.
    fn stops(&self, command: &mut Command, code: i32, told: &str) -> Report {
        let (output, report) = self.watch(command);
        let said = words(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}{report:?}");
        assert!(said.contains(told), "{said}");
        let is_only_refused = report.lines.iter().all(|line| line.starts_with("refused "));
        assert!(is_only_refused, "{report:?}");
        report
    }
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn counts<const N: usize>(report: &Report, names: [&str; N]) -> [u64; N] {
    names.map(|name| report.count(name))
}

#[test]
fn the_device_is_told() {
    let Some(folder) = Folder::new() else { return };
    let (said, _) = folder.fine("devices");
    assert!(said.contains("cuda: Emulated CUDA device (sm_90), 4096 MiB\n"), "{said}");
}

#[test]
fn without_a_device_or_a_compiler_it_says_so() {
    let Some(folder) = Folder::new() else { return };
    let run = "run p.rx --backend cuda --entry raised --input x=[1.0,2.0,3.0] --input at=[1]";
    for line in [run, "tune --backend cuda"] {
        let mut command = folder.command(line);
        let none = command.env("EMULATED_CUDA_DEVICES", "0");
        assert_eq!(folder.stops(none, 4, "there is no CUDA device").count("refused"), 1);
    }
    let mut command = folder.command(run);
    folder.stops(command.env("RELAX_NVRTC", "/"), 4, "NVRTC is not there");
    if !Path::new("/proc/driver/nvidia").exists() {
        let mut command = folder.command(run);
        let none = command.env_remove("LD_LIBRARY_PATH");
        folder.stops(none, 4, "there is no CUDA device: its driver (libcuda) is not installed");
    }
}

#[test]
fn a_library_that_is_not_wanted_is_not_used() {
    let Some(folder) = Folder::new() else { return };
    let line = "diff p.rx --entry dense --backend cuda --cases 3";
    let (_, with) = folder.fine(line);
    assert!(with.count("products") > 0, "{with:?}");
    let (output, without) = folder.watch(folder.command(line).env("RELAX_CUBLAS", "0"));
    assert!(output.status.success() && without.lines.is_empty(), "{output:?}{without:?}");
    assert_eq!(counts(&without, ["products"]), [0]);
    assert!(without.count("launches") > with.count("launches"), "{without:?}");
    folder.stops(folder.command(line).env("RELAX_CUBLAS", "no"), 2, "RELAX_CUBLAS is 0 ");
}

/// The script that measures devices goes through. Its figures are of no device, and are not looked at.
#[test]
fn the_measurements_go_through() {
    let Some(folder) = Folder::new() else { return };
    if Command::new("python3").arg("--version").output().is_err() {
        requirement::skip("RELAX_REQUIRE_PYTHON", "there is no python3");
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/gpu/run.py");
    let mut command = folder.1.command("python3");
    let cases = ["softmax", "product", "dense_f16"];
    command.arg(script).args(["--tiny", env!("CARGO_BIN_EXE_relax")]).args(cases);
    let (output, report) = folder.watch(command.env("XDG_CACHE_HOME", folder.0.path()));
    let said = words(&output.stdout);
    assert!(output.status.success() && report.lines.is_empty(), "{output:?}{report:?}");
    assert!(said.contains("the same: ") && said.contains("these are no measurements"), "{said}");
    assert_eq!(said.lines().filter(|line| line.contains(" | 3 x 64 | ")).count(), 3, "{said}");
    assert!(report.count("products") > 0 && report.count("launches") > 0, "{report:?}");
}

/// What the driver refuses is told, and all that was made before goes.
#[test]
fn what_the_driver_refuses_is_told_and_leaves_nothing() {
    let Some(folder) = Folder::new() else { return };
    let run = "run p.rx --backend cuda --entry raised --input x=[1.0,2.0,3.0] --input at=[1]";
    for call in
        ["cuModuleLoadData", "cuStreamCreate", "cuMemAlloc", "cuMemsetD8Async", "cuLaunchKernel"]
    {
        let mut command = folder.command(run);
        let failing = command.env("EMULATED_CUDA_FAILS", call);
        let report = folder.stops(failing, 4, "CUDA_ERROR_OUT_OF_MEMORY");
        assert_eq!(report.count("contexts"), 1, "{call}");
    }
    // Where nothing can be recorded, or the library has no memory, kernels are launched one by one.
    let bench =
        |entry: &str| format!("bench p.rx --backend cuda --sym n=4 --seconds 0.01 --entry {entry}");
    for call in ["cuStreamBeginCapture", "cuGraphInstantiate"] {
        let mut command = folder.command(&bench("main"));
        let report = folder.stops(command.env("EMULATED_CUDA_FAILS", call), 0, "");
        assert_eq!(counts(&report, ["graphs", "replays"]), [0, 0], "{call}");
    }
    let mut command = folder.command(&bench("dense --fast"));
    let report = folder.stops(command.env("EMULATED_CUDA_MEMORY", "1000000"), 0, "");
    assert_eq!(report.count("products"), 0);
}

#[test]
fn programs_run_and_stop_as_they_do_elsewhere() {
    let Some(folder) = Folder::new() else { return };
    let run = "run p.rx --backend cuda --entry raised --input x=[1.0,2.0,3.0] --input at";
    let (said, report) = folder.fine(&format!("{run}=[1]"));
    assert!(said.contains("[2. 3. 3.]"), "{said}");
    assert_eq!(counts(&report, ["contexts", "launches", "uploads", "downloads"]), [1, 1, 2, 2]);
    let report = folder.stops(&mut folder.command(&format!("{run}=[3]")), 3, "tir/out_of_bounds");
    assert_eq!((report.count("launches"), report.lines.len()), (1, 0));
    let (said, report) = folder.fine("run p.rx --backend cuda --input x=zeros(0,4)");
    assert!(said.contains("Tensor((4, 0), \"f32\")"), "{said}");
    assert_eq!(report.count("launches"), 0);
    let (said, report) = folder.fine("diff p.rx --backend cuda --cases 10");
    assert!(said.contains("the same: ") && said.contains(" 0 unsupported, 0 rejected"), "{said}");
    let [captures, graphs, replays] = counts(&report, ["captures", "graphs", "replays"]);
    assert!(captures == graphs && graphs > 1 && replays > 1, "{report:?}");
}

#[test]
fn graphs_are_replayed_and_products_are_the_librarys() {
    let Some(folder) = Folder::new() else { return };
    let bench =
        |rest: &str| format!("bench p.rx --backend cuda --sym n=4 --seconds 0.01 --entry {rest}");
    let (_, report) = folder.fine(&bench("main --exact"));
    assert_eq!(counts(&report, ["captures", "nodes"]), [1, 6]);
    assert!(report.count("replays") > 0, "{report:?}");
    for entry in ["dense", "halves", "shorts"] {
        let (_, report) = folder.fine(&bench(entry));
        let [heuristics, launches, products] =
            counts(&report, ["heuristics", "launches", "products"]);
        assert!(heuristics == 1 && launches == 0 && products > 1, "{entry}: {report:?}");
        let (_, report) = folder.fine(&bench(&format!("{entry} --exact")));
        assert!(report.count("launches") > 1 && report.count("products") == 0, "{report:?}");
    }
}

/// What is measured here says nothing of any device: that it is measured, kept and used is what is tested.
#[test]
fn products_are_measured_and_the_table_is_used() {
    let Some(folder) = Folder::new() else { return };
    let (said, report) = folder.fine("tune --backend cuda --over 4x16x8 --over 16x16x16");
    assert!(said.contains("this device: Emulated CUDA device, sm_90, CUDA 12.4"), "{said}");
    assert!(said.contains("4 products, times beside the best version"), "{said}");
    // A module for each of five versions, of two types.
    assert_eq!(report.count("modules"), 10);
    let (shown, report) = folder.fine("tune --backend cuda --show");
    assert_eq!((shown == said, report.count("modules")), (true, 0), "{shown}");
    folder.fine("diff p.rx --backend cuda --cases 3 --entry dense");
}

/// What is computed in f32 by default agrees with the interpreter as far as rounding goes, and with `--exact` bit for bit.
#[test]
fn rows_in_f32_agree() {
    let Some(folder) = Folder::new() else { return };
    std::fs::write(folder.0.path().join("rows.rx"), ROWS).expect("a file");
    let (said, report) = folder.fine("diff rows.rx --backend cuda --cases 12");
    assert!(said.contains("the same: 83 compared, 1 trapped alike"), "{said}");
    assert!(report.count("launches") > 100, "{report:?}");
    let (said, _) = folder.fine("diff rows.rx --backend cuda --cases 6 --exact");
    assert!(said.contains("the same: "), "{said}");
}

/// Rows over two ranks: an all-reduce, an all-to-all, and rows that are taken by numbers.
const RANKS: &str = r#"module_attr("mesh[0]", "2")

def main(x: DTensor(("n", 4), "f32", "mesh[0]", "S[0]"), w: Tensor((4, 6), "f32")):
    y = relu(matmul(x, w))
    z = redistribute(y, "mesh[0]", "S[1]")
    return (z, sum(matmul(y, permute_dims(w)), axis=[0]))

def taken(x: DTensor(("n",), "i64", "mesh[0]", "S[0]"), table: Tensor((5,), "f32")):
    return sum(take(table, x, axis=0))
"#;

const ROWS_GIVEN: &str = "--input x=randn(5,4) --input w=randn(4,6)";

/// A folder with the program of ranks, and a command that finds so many devices.
fn ranked() -> Option<Folder> {
    let folder = Folder::new()?;
    std::fs::write(folder.0.path().join("ranks.rx"), RANKS).expect("a file");
    Some(folder)
}

fn with_devices(folder: &Folder, count: usize, arguments: &str) -> Command {
    let mut command = folder.command(arguments);
    command.env("EMULATED_CUDA_DEVICES", count.to_string());
    command
}

#[test]
fn ranks_run_on_devices_of_their_own() {
    let Some(folder) = ranked() else { return };
    let run = format!("run ranks.rx --ranks 2 {ROWS_GIVEN}");
    let expected = folder.fine(&run).0;
    let mut command = with_devices(&folder, 2, &format!("{run} --backend cuda --exact"));
    let (output, report) = folder.watch(&mut command);
    let said = words(&output.stderr);
    assert_eq!((output.status.code(), report.lines.len()), (Some(0), 0), "{said}{report:?}");
    assert_eq!(words(&output.stdout), expected);
    assert_eq!(counts(&report, ["contexts", "communicators", "aborted"]), [2, 2, 2]);
    // Arguments are brought to the devices, and results from there: nothing in between.
    assert_eq!(counts(&report, ["uploads", "downloads"]), [4, 4]);
    assert!(report.count("ncclSend") > 0, "{report:?}");
    // In any order an all-reduce is the library's, which each rank calls.
    let mut command = with_devices(&folder, 2, &format!("{run} --backend cuda"));
    let (_, report) = folder.watch(&mut command);
    assert_eq!((report.count("ncclAllReduce"), report.lines.len()), (2, 0), "{report:?}");
}

/// One rank traps while another one waits for it: all end with its trap.
#[test]
fn a_rank_that_traps_on_its_device_ends_all() {
    let Some(folder) = ranked() else { return };
    let run =
        "run ranks.rx --entry taken --ranks 2 --backend cuda --input table=arange(5) --input x";
    let mut command = with_devices(&folder, 2, &format!("{run}=[0,1,9,2]"));
    let report = folder.stops(&mut command, 3, "trap[take/C4]");
    assert!(report.lines.is_empty(), "{report:?}");
    let mut command = with_devices(&folder, 2, &format!("{run}=[0,1,4,2]"));
    folder.stops(&mut command, 0, "");
}

#[test]
fn what_ranks_on_devices_need_is_said() {
    let Some(folder) = ranked() else { return };
    let run = |ranks: usize| format!("run ranks.rx --ranks {ranks} {ROWS_GIVEN} --backend cuda");
    let few = "each of the 2 ranks needs a CUDA device of its own, and there are 1";
    folder.stops(&mut with_devices(&folder, 1, &run(2)), 4, few);
    folder.stops(&mut with_devices(&folder, 0, &run(2)), 4, "there is no CUDA device");
    let mut command = with_devices(&folder, 2, &run(2));
    let missing = "NCCL, which moves tensors between devices, is not there";
    folder.stops(command.env("RELAX_NCCL", "/"), 4, missing);
    // A rank alone moves nothing.
    let text = RANKS.replace("\"mesh[0]\", \"2\"", "\"mesh[0]\", \"1\"");
    std::fs::write(folder.0.path().join("ranks.rx"), text).expect("a file");
    let mut command = with_devices(&folder, 1, &run(1));
    let report = folder.stops(command.env("RELAX_NCCL", "/"), 0, "");
    assert_eq!((report.count("communicators"), report.lines.len()), (0, 0), "{report:?}");
    let mut command = folder.command("run ranks.rx --mpi --backend cuda");
    folder.stops(&mut command, 2, "--mpi does not run with --backend cuda: with --ranks");
}
