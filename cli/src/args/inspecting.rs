//! The arguments of `relax inspect`.

use super::ModelArgs;
use clap::Args;
use std::path::PathBuf;

/// Show what is in a program, a model, a module file or a file of weights
///
/// Of a module file: target, numerics, the kernel check, functions with parameters and bounds, kernels, constants, memory,
/// and the host functions that a caller registers. Of a model: operator sets, inputs, outputs, operators and weights. Of a
/// program: functions, phase and operators. Of a GGUF or safetensors file, or an index of several: metadata and tensors with
/// format, shape and bytes. Nothing is run, and a module file may be of another processor.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// The file; `-` is a program from the standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}
