//! Arguments of commands about gradients.

use super::ModelArgs;
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
    /// Write the program to a file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
