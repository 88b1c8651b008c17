//! Arguments of the commands that search: for cheaper forms of a program, and for faults of the compiler.

use super::{ModelArgs, one_of};
use clap::Args;
use relax_rewrite::pass::Device;
use std::path::PathBuf;

/// Fuzz the compiler with generated programs
///
/// A finding is shrunk and written as a program with the command that reproduces it; the exit code is then 1, and
/// 5 when nothing was compared. With --programs a seed always gives the same programs.
#[derive(Debug, Args)]
pub(crate) struct FuzzArgs {
    /// For how long [default: 60]
    #[arg(long, conflicts_with = "programs")]
    pub(crate) seconds: Option<u64>,
    /// How many programs; as many more over meshes, where `ranks` is checked beside others
    #[arg(long)]
    pub(crate) programs: Option<u64>,
    /// Seed of the first program; each further one has the next [default: 0]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// The property to check: print, check, passes, pipeline, vm, twins, static, ranks (`relax explain twins`); by default all
    #[arg(long, value_delimiter = ',')]
    pub(crate) oracle: Vec<relax_fuzz::Oracle>,
    /// What runs the kernels of `vm`
    #[arg(long, value_parser = one_of(FUZZED))]
    pub(crate) backend: Option<Device>,
    /// Stop after this many findings
    #[arg(long, default_value_t = 1)]
    pub(crate) findings: usize,
    /// Where the programs of findings are written
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) out: PathBuf,
    /// Print the program of the seed, for `--oracle ranks` that over a mesh, and exit
    #[arg(long)]
    pub(crate) show: bool,
    /// Check the program of a finding again, with the oracle and the seed that its header names; --oracle and --seed give
    /// them for a program without a header
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seconds", "programs", "findings", "show", "out"])]
    pub(crate) replay: Option<PathBuf>,
}

/// What runs kernels.
const FUZZED: [(Device, &str); 2] =
    [(Device::Interp, "The interpreter of tensor programs"), (Device::Cpu, "C")];

/// Rewrite a program by proved rules and print it
///
/// Regions of trap-free calls are replaced by the form that is proved to cost no more for all dims. The program is
/// normalized first.
#[derive(Debug, Args)]
pub(crate) struct RewriteArgs {
    /// The program, a model (`.onnx`), or a module file, of which the source is taken; `-` is the standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) rules: SaturationArgs,
    /// Print which rules rewrote what, per function, and which rules took most work
    #[arg(long)]
    pub(crate) explain: bool,
    /// With --explain: also the time that each of these rules took, which differs from run to run
    #[arg(long, requires = "explain")]
    pub(crate) times: bool,
    /// Print functions with versions behind comparisons of dims, as `relax versions` lists them
    #[arg(long, conflicts_with = "explain")]
    pub(crate) versions: bool,
}

/// List versions of a function with their guards and costs
#[derive(Debug, Args)]
pub(crate) struct VersionsArgs {
    /// The program, a model (`.onnx`), or a module file, of which the source is taken; `-` is the standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) rules: SaturationArgs,
}

/// Which rules are used, and how far.
#[derive(Debug, Args)]
pub(crate) struct SaturationArgs {
    /// Only rules of these families (`all` for every one) and of these files, `mine.rx`, which are proved first
    #[arg(long, value_name = "FAMILY|FILE,...")]
    pub(crate) rules: Option<String>,
    /// Also use rules of files that have neither a proof nor a counterexample; each use is a warning
    #[arg(long, requires = "rules")]
    pub(crate) unproved: bool,
    /// Also use rules over the real numbers, which round floats elsewhere
    #[arg(long)]
    pub(crate) approximate: bool,
    /// Limits of a region: nodes, iterations, classes, matches (of a rule in a round), extraction (steps of a search for a
    /// cheaper form)
    #[arg(long, value_name = "NAME=N")]
    pub(crate) limit: Vec<String>,
}
