//! Flags of what reads and writes other formats.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Import a model of another format
///
/// Reads ONNX, operator sets 7 to 24, and the text that TVM prints (`.py`). Named dims become symbolic variables;
/// small constants stand in the program, all others go to the file of --params. Everything that is not supported is
/// listed, and the exit code is 1.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The model
    pub(crate) file: PathBuf,
    /// The format; by default by the file name
    #[arg(long, value_enum)]
    pub(crate) from: Option<Foreign>,
    /// Where to write the program, instead of the standard output
    #[arg(short, long, value_name = "FILE.rx")]
    pub(crate) output: Option<PathBuf>,
    /// Where to write the constants
    #[arg(long, value_name = "FILE.safetensors")]
    pub(crate) params: Option<PathBuf>,
    /// Another name for a dim of the model, or a number in its place
    #[arg(long, value_name = "DIM=NAME")]
    pub(crate) dim: Vec<String>,
    /// The value of an input, which is then a constant: for axes and shapes that are inputs
    #[arg(long, value_name = "NAME=SPEC")]
    pub(crate) bind: Vec<String>,
    /// The type of an input that is a list, an optional or of unknown rank: `Tuple[Tensor(("n",), "f32")]`,
    /// or `none` for an optional that holds nothing
    #[arg(long = "type", value_name = "NAME=ANNOTATION")]
    pub(crate) types: Vec<String>,
    /// The name of the function
    #[arg(long, default_value = "main")]
    pub(crate) entry: String,
}

/// What models are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Foreign {
    Onnx,
    Tvmscript,
}

/// Export a program to another compiler's text
///
/// As TVM 0.27 prints it. Everything that TVM cannot express is listed, and the exit code is 1.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The program; `-` is the standard input
    pub(crate) file: PathBuf,
    /// What to write
    #[arg(long, value_enum, default_value = "tvmscript")]
    pub(crate) to: Exported,
    /// Where to write it, instead of the standard output
    #[arg(short, long, value_name = "FILE.py")]
    pub(crate) output: Option<PathBuf>,
}

/// What programs are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Exported {
    Tvmscript,
}
