//! Arguments of commands about gradients.

use super::{KernelCheckArgs, ModelArgs};
use clap::Args;
use std::path::PathBuf;

/// Add gradients to a program and print it
///
/// The function gets an adjoint beside it, `main_adjoint` of `main`: it gives the result, and the gradients of the loss by
/// the named parameters. The loss is the result, or the first field of it, a float tensor of rank 0. What is printed is a
/// program as any other: `run`, `build` and `diff` take it.
#[derive(Debug, Args)]
pub(crate) struct GradArgs {
    /// The program, or a model (`.onnx`); `-` is the standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// The parameters of which gradients are wanted; by default every float tensor
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) wrt: Vec<String>,
    /// The function; by default `main`, or the only public one
    #[arg(long, value_name = "NAME")]
    pub(crate) func: Option<String>,
    /// A budget of memory for the adjoint, for the dims of --sym: segments of the function are computed again in the backward
    /// computation, as few as keep it (gradient checkpointing). Bytes, or with K, M, G
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// The value of a symbolic variable for --memory
    #[arg(long, value_name = "NAME=N", requires = "memory")]
    pub(crate) sym: Vec<String>,
    /// Write the program to a file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Train the weights of a program
///
/// The configuration is a TOML file: a program with a scalar loss, how its weights begin, an optimizer, files of data, and a
/// folder for checkpoints (docs/TRAINING.md lists the keys). Loss, gradients and optimizer are compiled once for all
/// shapes. Equal configurations give equal checkpoints, bit for bit, also where a run is interrupted and resumed. SIGINT and SIGTERM end
/// the run after a step, with a checkpoint and exit code 3.
#[derive(Debug, Args)]
pub(crate) struct TrainArgs {
    /// The configuration; paths in it are relative to its folder
    pub(crate) config: PathBuf,
    /// Go on from the last checkpoint in the folder of the configuration, or from a given one
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub(crate) resume: Option<Option<PathBuf>>,
    /// Limit on the memory of all live tensors of a call, and on a file of tensors: bytes, or with K, M, G
    #[arg(long, value_name = "SIZE", default_value = "8G")]
    pub(crate) max_memory: String,
    #[command(flatten)]
    pub(crate) kernel_check: KernelCheckArgs,
}
