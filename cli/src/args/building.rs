//! Arguments of the commands that compile and that measure for it.

use super::Target;
use clap::Args;
use std::path::PathBuf;

/// Compile a program into a module file
///
/// The file holds code for the virtual machine, kernels as machine code of this processor, constants,
/// and the source for messages; `relax run` runs it, and programs that embed the runtime do. With
/// --params the values of external constants and of parameters of the entry function go into the file;
/// parameters without a value stay parameters.
#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// The program, or a model (`.onnx`); `-` is the standard input
    pub(crate) file: PathBuf,
    /// Where to write it
    #[arg(short, long, value_name = "FILE.rxm")]
    pub(crate) output: PathBuf,
    /// What code is made for
    #[arg(long, value_enum, default_value = "cpu")]
    pub(crate) target: Target,
    /// A safetensors file with external constants and parameters
    #[arg(long, value_name = "FILE")]
    pub(crate) params: Option<PathBuf>,
    /// Let the code form sums of floats in any order, and of f32 in f32: results are not bit for bit those of
    /// the interpreter
    #[arg(long)]
    pub(crate) fast: bool,
    /// Cut products as was measured by `relax tune`: on this machine, or in a file; without it as the built-in model
    /// says, which is the same everywhere
    #[arg(long, value_name = "TABLE", num_args = 0..=1)]
    pub(crate) tuned: Option<Option<PathBuf>>,
    /// Put a certificate of the way to the kernels' program into the file, for `relax verify`
    #[arg(long)]
    pub(crate) certify: bool,
    /// Refuse a program of which an operator stays with the reference library (RX0505)
    #[arg(long)]
    pub(crate) deny_fallback: bool,
}

/// Measure how products of matrices are best cut on this machine
///
/// Tiles that the registers hold are timed once, and the table is kept beside the compiled kernels; `relax build --fast
/// --tuned` uses it. Prints the facts of the processor, the table and what is chosen. With --backend the versions that a device has
/// of a product are timed, and a decision tree is learned; `relax run`, `bench` and `diff` with that backend use it.
#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    /// Measure nothing: show what is known
    #[arg(long)]
    pub(crate) show: bool,
    /// What is measured
    #[arg(long, value_enum, default_value_t = Target::Cpu)]
    pub(crate) backend: Target,
    /// Products that are measured on a device, instead of the built-in ones
    #[arg(long, value_name = "ROWSxTERMSxCOLUMNS", conflicts_with = "show")]
    pub(crate) over: Vec<String>,
    /// Where the table is, instead of $XDG_CACHE_HOME/relax
    #[arg(short, long, value_name = "TABLE")]
    pub(crate) output: Option<PathBuf>,
    /// Which versions of a product are used: nx768x2304 as n grows, 64x768x2304 for one
    #[arg(long, value_name = "ROWSxTERMSxCOLUMNS")]
    pub(crate) extents: Vec<String>,
}
