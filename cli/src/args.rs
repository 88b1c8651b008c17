//! The command line. `--help` texts are the documentation comments here.

mod building;
mod foreign;
mod generating;
mod help;
mod inspecting;
mod reference;
mod searching;
mod serving;
mod sharding;
mod training;
mod verifying;

pub(crate) use building::{
    Activations, BuildArgs, CacheArgs, KernelCheckArgs, NumericsArgs, PipelineRulesArgs, TuneArgs,
};
pub(crate) use foreign::{ExportArgs, Exported, Foreign, ImportArgs, ModelArgs};
pub(crate) use generating::{GenerateArgs, LoadingArgs, Quantize, SpeechTask};
pub(crate) use help::command;
pub(crate) use inspecting::InspectArgs;
pub(crate) use reference::{CompletionsArgs, ExplainArgs, ManArgs, OpsArgs, RulesArgs};
pub(crate) use searching::{FuzzArgs, RewriteArgs, SaturationArgs, VersionsArgs};
pub(crate) use serving::ServeArgs;
pub(crate) use sharding::{Extents, ShardArgs};
pub(crate) use training::{GradArgs, TrainArgs};
pub(crate) use verifying::{EquivArgs, ProveArgs, VerifyArgs};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use relax_driver::backend;
use relax_rewrite::pass::Device;
use std::num::NonZero;
use std::path::PathBuf;

/// A compiler for machine-learning models with dynamic shapes.
///
/// Exit codes: 0 success; 1 the program is wrong; 2 wrong usage; 3 a run-time check failed or a limit was reached;
/// 4 a device, a tool or a feature of this build is missing; 5 a comparison compared nothing; 6 a certificate leaves
/// obligations open; 70 a bug in relax.
#[derive(Debug, Parser)]
#[command(name = "relax", version, long_version = crate::version::long(), disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of every subcommand.
#[derive(Debug, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// Print results and errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more details
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Text for people, JSON lines for tools; for CI, a SARIF log or GitHub annotations of `check` and `fuzz`
    #[arg(long, global = true, value_enum, default_value = "text")]
    pub(crate) format: OutputFormat,
    /// When to color messages
    #[arg(long, global = true, value_enum, default_value = "auto")]
    pub(crate) color: ColorChoice,
    /// Write the distinct questions on dims that the prover is asked, one JSON object a line, as `relax prove --file` reads them
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) questions: Option<PathBuf>,
}

/// Who reads the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    Text,
    Json,
    Sarif,
    Github,
}

/// Whether people or tools read what a command prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

/// When messages are colored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    Auto,
    Always,
    Never,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Check(CheckArgs),
    Inspect(InspectArgs),
    Import(ImportArgs),
    Export(ExportArgs),
    Run(Box<RunArgs>),
    Generate(Box<GenerateArgs>),
    Serve(Box<ServeArgs>),
    Train(TrainArgs),
    Fmt(FmtArgs),
    Opt(OptArgs),
    Grad(GradArgs),
    Shard(ShardArgs),
    Build(BuildArgs),
    Bench(BenchArgs),
    Tune(TuneArgs),
    Cache(CacheArgs),
    /// List the devices of this machine
    Devices,
    Diff(DiffArgs),
    Equiv(EquivArgs),
    Fuzz(FuzzArgs),
    Prove(ProveArgs),
    Ops(OpsArgs),
    Rules(RulesArgs),
    Rewrite(RewriteArgs),
    Versions(VersionsArgs),
    Explain(ExplainArgs),
    Verify(VerifyArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Check programs: text, names, annotations, well-formedness
///
/// Every error is shown at its place; the exit code is 1 when there is one. Run-time checks that fail for all sizes
/// are errors, those that hold for sizes of 0 alone are warnings.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Programs, models (`.onnx`, `.mlir`) or module files, of which the source is checked; `-` is the standard input
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// The phase to check against; by default the one that the program records, else P0
    #[arg(long, value_enum, ignore_case = true)]
    pub(crate) phase: Option<Phase>,
    /// Exit with code 1 on warnings too
    #[arg(long, value_enum)]
    pub(crate) deny: Option<Denied>,
    /// Apply the fixes that are certain, then check; the standard input is printed fixed
    #[arg(long)]
    pub(crate) fix: bool,
}

/// What `--deny` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Denied {
    Warnings,
}

/// Languages of compilers for devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    /// C, for the CPU
    C,
    /// CUDA C++, with loops bound to blocks and threads where they are not yet
    Cuda,
    /// WGSL, one source per kernel; with `--to P2.3` of programs whose loops are bound to threads
    Wgsl,
}

/// The phases of compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Phase {
    #[value(name = "P0")]
    P0,
    #[value(name = "P1")]
    P1,
    #[value(name = "P2.1")]
    P21,
    #[value(name = "P2.2")]
    P22,
    #[value(name = "P2.3")]
    P23,
}

impl From<Phase> for relax_semantics::check::Phase {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::P0 => Self::P0,
            Phase::P1 => Self::P1,
            Phase::P21 => Self::P21,
            Phase::P22 => Self::P22,
            Phase::P23 => Self::P23,
        }
    }
}

/// Run a function of a program
///
/// A SPEC is a literal `[[1, 2], [3, 4]]`, `zeros(4,128)`, `ones(4)`, `full((2,3), 0.5)`,
/// `arange(2,3)`, `randn(4,8)`, `shape(4,2)`, a tuple of SPECs, `@file.npy`, `@file.npz:name`, or
/// `2x3xf32=1 2 3 4 5 6`. With --sym the dims may be left out: `randn`.
/// Texts, models and weights from strangers are safe to run. A module file (`.rxm`) is machine code: run only what you trust.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    /// The program, a module file of `relax build`, or a model (`.onnx`, `.mlir`); `-` is the standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// The function to call
    #[arg(long, default_value = "main")]
    pub(crate) entry: String,
    /// The backend that runs the program
    #[arg(long, value_parser = runners(), default_value = "interp")]
    pub(crate) backend: Device,
    /// The value of a parameter
    #[arg(long, value_name = "NAME=SPEC")]
    pub(crate) input: Vec<String>,
    /// A safetensors or GGUF file with external constants and parameters
    #[arg(long, value_name = "FILE")]
    pub(crate) params: Option<PathBuf>,
    /// The value of a symbolic variable, for SPECs without dims
    #[arg(long, value_name = "NAME=INTEGER", allow_hyphen_values = true)]
    pub(crate) sym: Vec<String>,
    /// Seed of random data
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Fill parameters that have no input with random data
    #[arg(long)]
    pub(crate) random: bool,
    /// Write the results: a `.npz`, `.npy` or `.safetensors` file, or a folder of `.npy` files
    #[arg(long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Run all ranks of the program's mesh in this process, N of them, each on its own shards, and with --backend cuda on a device of its
    /// own. `2x4` gives each extent of a mesh; with --mpi too
    #[arg(long, value_name = "N")]
    pub(crate) ranks: Option<Extents>,
    /// Run as one rank of the program's mesh; the others are the processes that `mpirun` started with this one
    #[arg(long)]
    pub(crate) mpi: bool,
    /// Have ranks choose among layouts for several sizes, as `relax shard --versions` does
    #[arg(long)]
    pub(crate) versions: bool,
    /// How long a rank waits for others before all end with an error; by default 300
    #[arg(long, value_name = "SECONDS", requires = "mpi")]
    pub(crate) rank_timeout: Option<NonZero<u32>>,
    /// Limit on the memory of all live tensors: bytes, or with K, M, G
    #[arg(long, value_name = "SIZE", default_value = "8G")]
    pub(crate) max_memory: String,
    /// Limit on executed steps: of the interpreter, or iterations of compiled kernels on the CPU
    #[arg(long, value_name = "N")]
    pub(crate) max_steps: Option<u64>,
    /// Run the iterations of parallel loops in lock step and trap on a data race
    #[arg(long)]
    pub(crate) lock_step: bool,
    /// Threads per kernel; by default RELAX_THREADS, or the number of processors
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZero<usize>>,
    /// Write a trace of kernel launches with times and shapes, for Perfetto or chrome://tracing; of the interpreter, calls of
    /// operators and tensor programs
    #[arg(long, value_name = "FILE.json")]
    pub(crate) trace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) numerics: NumericsArgs,
    #[command(flatten)]
    pub(crate) rules: PipelineRulesArgs,
    #[command(flatten)]
    pub(crate) kernel_check: KernelCheckArgs,
}

/// What can run a program, with a line of help for each.
fn runners() -> impl TypedValueParser<Value = Device> {
    one_of(Device::ALL.map(|device| (device, backend(device).about())))
}

/// What a program is compiled for.
fn compiled() -> impl TypedValueParser<Value = Device> {
    let compiled = Device::ALL.into_iter().filter(|device| *device != Device::Interp);
    one_of(compiled.map(|device| (device, "")))
}

/// The names of these devices, with what the help says of each.
fn one_of(
    devices: impl IntoIterator<Item = (Device, &'static str)>,
) -> impl TypedValueParser<Value = Device> {
    let value = |(device, help): (Device, &'static str)| {
        let value = PossibleValue::new(device.name());
        if help.is_empty() { value } else { value.help(help) }
    };
    let named = |name: String| Device::ALL.into_iter().find(|device| device.name() == name);
    PossibleValuesParser::new(devices.into_iter().map(value))
        .map(move |name| named(name).expect("invariant: the parser knows devices only"))
}

/// Time a function of a program, compiled
///
/// Parameters without an input get random data; --sym gives their dims. Prints the minimum and the median time of a
/// call, and the time of each kernel in one call.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// The program, a module file of `relax build`, or a model (`.onnx`, `.mlir`); `-` is the standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// The function to call
    #[arg(long, default_value = "main")]
    pub(crate) entry: String,
    /// The value of a parameter, as for `relax run`
    #[arg(long, value_name = "NAME=SPEC")]
    pub(crate) input: Vec<String>,
    /// A safetensors or GGUF file with external constants and parameters
    #[arg(long, value_name = "FILE")]
    pub(crate) params: Option<PathBuf>,
    /// The value of a symbolic variable
    #[arg(long, value_name = "NAME=INTEGER", allow_hyphen_values = true)]
    pub(crate) sym: Vec<String>,
    /// Seed of random data
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// The backend, as for `relax run`
    #[arg(long, value_parser = compiled(), default_value = "cpu")]
    pub(crate) backend: Device,
    #[command(flatten)]
    pub(crate) numerics: NumericsArgs,
    #[command(flatten)]
    pub(crate) rules: PipelineRulesArgs,
    /// Threads per kernel; by default RELAX_THREADS, or the number of processors
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZero<usize>>,
    /// Seconds to measure
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub(crate) seconds: f64,
    /// Limit on the memory of all live tensors: bytes, or with K, M, G
    #[arg(long, value_name = "SIZE", default_value = "8G")]
    pub(crate) max_memory: String,
    /// Write a trace of one call, for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE.json")]
    pub(crate) trace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) kernel_check: KernelCheckArgs,
}

/// Format programs in place
#[derive(Debug, Args)]
pub(crate) struct FmtArgs {
    /// Programs; `-` formats the standard input to the standard output
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Change nothing; exit code 1 when a file is not formatted
    #[arg(long)]
    pub(crate) check: bool,
}

/// Transform a program and print it
///
/// The module is checked after each pass. With -v each pass says what it did; `--format json` says
/// the same as JSON lines on the standard error.
#[derive(Debug, Args)]
pub(crate) struct OptArgs {
    /// The program, a model (`.onnx`, `.mlir`), or a module file, of which the source is transformed; `-` is the standard input
    #[arg(required_unless_present = "list_passes")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// The phase to reach: the passes of each stage up to it; by default P0, or the phase that the program records
    #[arg(long, value_enum, ignore_case = true)]
    pub(crate) to: Option<Phase>,
    /// Run these passes, in this order, instead of whole stages; a pass may have TVM's name, such as FuseOps or fusion, or be a
    /// program, such as ./mine, that reads a module as text and writes one
    #[arg(long, value_name = "PASS,...", value_delimiter = ',', conflicts_with = "to")]
    pub(crate) passes: Option<Vec<String>>,
    /// Seconds that a program among --passes may take
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub(crate) pass_seconds: u64,
    /// The target: which library functions exist, how memory is planned
    #[arg(long, value_parser = compiled(), default_value = "cpu")]
    pub(crate) target: Device,
    /// Values of external constants and of parameters of the entry function, for bind_params
    #[arg(long, value_name = "FILE")]
    pub(crate) params: Option<PathBuf>,
    /// List the passes, in the order of the pipeline
    #[arg(long)]
    pub(crate) list_passes: bool,
    /// Show the program after a pass, or after `all`, on the standard error
    #[arg(long, value_name = "PASS")]
    pub(crate) print_after: Option<String>,
    /// Write the program after each pass into a folder
    #[arg(long, value_name = "DIR")]
    pub(crate) dump_dir: Option<PathBuf>,
    /// Print the time of each pass
    #[arg(long)]
    pub(crate) time: bool,
    /// Compare the program after each pass with the input, in the interpreter, on random dims and inputs
    #[arg(long)]
    pub(crate) verify: bool,
    /// Cases for each function and pass
    #[arg(long, value_name = "N", default_value_t = 30, requires = "verify")]
    pub(crate) cases: u32,
    /// Seed of dims and inputs
    #[arg(long, default_value_t = 0, requires = "verify")]
    pub(crate) seed: u64,
    /// Print the memory plan instead of the program: storages, the tensors in them, and bytes beside the lower
    /// bound, the most bytes in use at once
    #[arg(long, value_enum, value_name = "FORMAT", num_args = 0..=1, default_missing_value = "text")]
    pub(crate) memory_report: Option<MemoryFormat>,
    /// The value of a symbolic variable in the memory report
    #[arg(long, value_name = "NAME=N", requires = "memory_report")]
    pub(crate) sym: Vec<String>,
    /// Print kernel source instead of the program
    #[arg(long, value_enum, value_name = "LANGUAGE", conflicts_with = "memory_report")]
    pub(crate) emit: Option<Language>,
    /// Compile the CUDA source for an architecture, such as sm_90, and print what each kernel takes: registers, shared memory, spills,
    /// occupancy. NVRTC does it, without a device
    #[arg(long, value_name = "ARCHITECTURE", requires = "emit")]
    pub(crate) resources: Option<String>,
    #[command(flatten)]
    pub(crate) numerics: NumericsArgs,
    /// Where to write it, instead of the standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Prove that memory, tensor programs and passes are correct for all dims, and write a certificate. Nothing is
    /// written if something is refuted
    #[arg(long, requires = "certificate", requires = "output", conflicts_with_all = ["memory_report", "emit"])]
    pub(crate) certify: bool,
    /// Where to write the certificate, which `relax verify` replays
    #[arg(long, value_name = "FILE", requires = "certify")]
    pub(crate) certificate: Option<PathBuf>,
}

/// The forms of a memory report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MemoryFormat {
    /// For people.
    Text,
    /// For tools.
    Json,
    /// A picture: steps of each function from left to right, bytes from top to bottom.
    Svg,
}

/// Compare programs or backends on random dims and inputs
///
/// Without --against, compares the program with its printed form parsed again, bit for bit, or the interpreter with what
/// `relax build` makes for a --backend, within the bound on rounding errors. A module file is compared with the
/// interpreter on the source in it, with the numerics that it was built with. With --against, floats of two programs are
/// compared within the tolerance of their dtype; of a program and a module file the program is interpreted; of two module
/// files each is compared with the source in the first. Constants `param(...)` get random values where --params has none. A
/// difference is shown with small dims, the first binding that differs and commands that run it again. Exit code 1 is a difference, 5 is nothing compared.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The program, a module file of `relax build`, or a model (`.onnx`, `.mlir`); `-` is the standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// A program, model or module file with functions of the same names
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
    /// A backend, instead of another program
    #[arg(long, value_parser = runners(), conflicts_with = "against")]
    pub(crate) backend: Option<Device>,
    /// Compare the gradients of a loss with differences of the function in f64, in the interpreter, instead of two routes
    #[arg(long, conflicts_with_all = ["against", "backend", "params", "save"])]
    pub(crate) grad: bool,
    /// Only this function
    #[arg(long)]
    pub(crate) entry: Option<String>,
    /// A safetensors or GGUF file with external constants and parameters; a module file needs the weights that it was built with
    #[arg(long, value_name = "FILE")]
    pub(crate) params: Option<PathBuf>,
    /// Cases for each function
    #[arg(long, default_value_t = 100)]
    pub(crate) cases: u32,
    /// Seed of dims and inputs
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Where to write inputs, expected and found values of a difference; random constants go into a file beside it
    #[arg(long, value_name = "FILE.npz")]
    pub(crate) save: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) numerics: NumericsArgs,
    #[command(flatten)]
    pub(crate) kernel_check: KernelCheckArgs,
}
