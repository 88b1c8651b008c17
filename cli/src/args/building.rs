//! Arguments of the commands that compile and that measure for it.

use super::{ModelArgs, compiled};
use crate::exit::Failure;
use clap::{Args, ValueEnum};
use relax_cpu::Cpu;
use relax_driver::KernelCheck;
use relax_rewrite::pass::Device;
use relax_runtime::program::Numerics;
use std::path::PathBuf;

/// Compile a program into a module file
///
/// The file contains code for the virtual machine, kernels as machine code, constants, and the
/// source for messages. `relax run` runs it, and so do programs that embed the runtime. With --params the values of
/// external constants and of parameters of the entry function go into the file; parameters without a value stay
/// parameters.
#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// The program, a model (`.onnx`, `.mlir`), or a module file, of which the source is built anew; `-` is the standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Where to write it
    #[arg(short, long, value_name = "FILE.rxm")]
    pub(crate) output: PathBuf,
    /// The compilation target
    #[arg(long, value_parser = compiled(), default_value = "cpu")]
    pub(crate) target: Device,
    /// The processor of the machine code: `native` is this one; others as `-march` or `-mcpu` of the C compiler takes them,
    /// such as x86-64-v2, x86-64-v3, x86-64-v4 or znver4
    #[arg(long, value_name = "NAME", default_value = "native")]
    pub(crate) cpu: Cpu,
    /// A safetensors or GGUF file with external constants and parameters
    #[arg(long, value_name = "FILE")]
    pub(crate) params: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) numerics: NumericsArgs,
    #[command(flatten)]
    pub(crate) rules: PipelineRulesArgs,
    /// What products with quantized weights read: activations as they are, rounded to 8 bits in blocks of 32, or rounded to bf16, as products with
    /// weights of 16 bits do then
    #[arg(long, value_enum, default_value = "f32")]
    pub(crate) activations: Activations,
    /// Tile matrix products, and weigh bytes against operations where rules choose a form, by the measurements of `relax tune`: those of this
    /// machine, or a file. By default the built-in cost model decides, which is the same everywhere
    #[arg(long, value_name = "TABLE", num_args = 0..=1, conflicts_with = "exact")]
    pub(crate) tuned: Option<Option<PathBuf>>,
    /// Build what each rank of the program's mesh runs, for `relax run --ranks` and `--mpi`: of `main`, or of another function. It is the
    /// program of `relax shard --local`
    #[arg(long, value_name = "FUNCTION", num_args = 0..=1, require_equals = true, default_missing_value = "main", conflicts_with_all = ["certify", "rules"])]
    pub(crate) ranks: Option<String>,
    /// With --ranks: have ranks choose among layouts for several sizes, as `relax shard --versions` does
    #[arg(long, requires = "ranks")]
    pub(crate) versions: bool,
    /// Embed a certificate of the compilation, for `relax verify`
    #[arg(long)]
    pub(crate) certify: bool,
    /// Refuse a program of which an operator stays with the reference library (RX0505), or a parallel loop runs on one thread (RX0416)
    #[arg(long)]
    pub(crate) deny_fallback: bool,
    #[command(flatten)]
    pub(crate) kernel_check: KernelCheckArgs,
}

/// Numerics of compiled code.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct NumericsArgs {
    /// Compute the interpreter's bits: float sums in text order, in f64. By default compiled code reassociates float sums
    /// and accumulates those of f32 in f32, so results differ by rounding
    #[arg(long, conflicts_with = "fast")]
    exact: bool,
    /// Reassociate float sums, which is the default
    #[arg(long, hide = true)]
    fast: bool,
}

impl NumericsArgs {
    pub(crate) fn chosen(self) -> Numerics {
        if self.exact { Numerics::Exact } else { Numerics::Reassociated }
    }

    /// Refuses reassociation where nothing is compiled.
    pub(crate) fn refuse_reassociation(self) -> Result<(), Failure> {
        match self.fast {
            true => Err(Failure::usage("`--fast` is for compiled code: give a --backend")),
            false => Ok(()),
        }
    }

    /// Refuses a choice of numerics where there is none.
    pub(crate) fn refuse(self, why: &str) -> Result<(), Failure> {
        let given = match self {
            Self { exact: true, .. } => "--exact",
            Self { fast: true, .. } => "--fast",
            Self { exact: false, fast: false } => return Ok(()),
        };
        Err(Failure::usage(format!("`{given}` {why}")))
    }
}

/// Rules that the pipeline of a target rewrites graph functions by.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PipelineRulesArgs {
    /// Rewrite graph functions by rules of these families (`all` for every one, `none` for none) and of these files,
    /// `mine.rx`, which are proved first, as `relax rewrite` does. Without it all families are used for a few steps. Rules over
    /// the real numbers are used without --exact only
    #[arg(long, value_name = "FAMILY|FILE,...")]
    pub(crate) rules: Option<String>,
    /// Also use rules of files that have neither a proof nor a counterexample; each use is a warning
    #[arg(long, requires = "rules")]
    pub(crate) unproved: bool,
}

/// What products with quantized weights read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Activations {
    /// Activations as they are.
    #[default]
    F32,
    /// Activations rounded to 8 bits, in blocks of 32 with a scale each.
    Q8,
    /// Activations rounded to bf16, also where weights have 16 bits.
    Bf16,
}

impl From<Activations> for relax_driver::Activations {
    fn from(own: Activations) -> Self {
        match own {
            Activations::F32 => Self::F32,
            Activations::Q8 => Self::Q8,
            Activations::Bf16 => Self::Bf16,
        }
    }
}

impl Activations {
    fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Q8 => "q8",
            Self::Bf16 => "bf16",
        }
    }

    /// Refuses to round where the interpreter's bits are asked for.
    pub(crate) fn with(self, numerics: NumericsArgs) -> Result<Self, Failure> {
        match self {
            Self::Q8 | Self::Bf16 if numerics.chosen() == Numerics::Exact => {
                Err(Failure::usage(format!(
                    "`--activations {}` rounds, and `--exact` does not: give one of them",
                    self.name()
                )))
            }
            own => Ok(own),
        }
    }
}

/// Whether compiled kernels are checked.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct KernelCheckArgs {
    /// Do not compare compiled kernels of this processor with the interpreter
    #[arg(long)]
    no_kernel_check: bool,
}

impl KernelCheckArgs {
    pub(crate) fn policy(self) -> KernelCheck {
        if self.no_kernel_check { KernelCheck::Off } else { KernelCheck::default() }
    }
}

/// Autotune matrix products on this machine
///
/// Register tiles are timed once, and the table is cached beside the compiled kernels; `relax build --tuned`
/// uses it. Prints the facts of the processor, the table and the choices. With --backend the versions of a product
/// on a device are timed, and a decision tree is learned; `relax run`, `bench` and `diff` with that backend use it.
#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    /// Measure nothing: print the current table
    #[arg(long)]
    pub(crate) show: bool,
    /// What is measured
    #[arg(long, value_parser = compiled(), default_value = "cpu")]
    pub(crate) backend: Device,
    /// Products that are measured on a device, instead of the built-in ones
    #[arg(long, value_name = "ROWSxTERMSxCOLUMNS", conflicts_with = "show")]
    pub(crate) over: Vec<String>,
    /// Folder of the table, instead of $XDG_CACHE_HOME/relax
    #[arg(short, long, value_name = "TABLE")]
    pub(crate) output: Option<PathBuf>,
    /// Print which versions of a product are used: nx768x2304 as n grows, 64x768x2304 for one
    #[arg(long, value_name = "ROWSxTERMSxCOLUMNS")]
    pub(crate) extents: Vec<String>,
}

/// Show or clear the cache of compiled kernels and module files
///
/// It is $XDG_CACHE_HOME/relax, or .cache/relax in the home folder. RELAX_CACHE_SIZE limits its size: bytes, or with
/// K, M, G; 2G by default, one half for kernels and one for modules. RELAX_MODEL_CACHE_SIZE limits that of compiled
/// language models, 64G by default. The least recently used entries are removed first.
#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    /// Remove all kernels, module files and compiled models. Tables of `relax tune` stay
    #[arg(long)]
    pub(crate) clear: bool,
}
