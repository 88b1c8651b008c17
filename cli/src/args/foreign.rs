//! Flags of what reads and writes other formats.

use crate::exit::Failure;
use clap::{Args, ValueEnum};
use relax_import::Bound;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Import a model of another format
///
/// Reads ONNX, operator sets 7 to 24, StableHLO text of JAX (`.mlir`), descriptions of `relaxc.torch` (`.aten.json`), and
/// the text that TVM prints (`.py`). Named dims become symbolic variables;
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
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// What is said of a model that is imported.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ModelArgs {
    /// Bounds of a symbolic dim of a model, both included; one may be left out: `batch=1..64`, `length=..512`
    #[arg(long, value_name = "DIM=LOWER..UPPER", allow_hyphen_values = true)]
    bound: Vec<String>,
}

impl ModelArgs {
    /// The bounds by dim.
    pub(crate) fn bounds(&self) -> Result<BTreeMap<String, Bound>, Failure> {
        let mut bounds = BTreeMap::new();
        for text in &self.bound {
            let wrong = |why: &str| Failure::usage(format!("--bound {text}: {why}"));
            let (name, range) = text
                .split_once('=')
                .map(|(name, range)| (name.trim(), range))
                .filter(|(name, _)| !name.is_empty())
                .ok_or_else(|| wrong("expected DIM=LOWER..UPPER, such as batch=1..64"))?;
            let bound = range_of(range).map_err(|why| wrong(&why))?;
            if bounds.insert(name.to_owned(), bound).is_some() {
                return Err(wrong(&format!("`{name}` is bounded twice")));
            }
        }
        Ok(bounds)
    }

    /// Refuses bounds where there is no model.
    pub(crate) fn refuse(&self) -> Result<(), Failure> {
        match self.bound.is_empty() {
            true => Ok(()),
            false => Err(Failure::usage(
                "--bound is for ONNX models; a program declares bounds: `n = sym_var(lower_bound=1, upper_bound=64)`",
            )),
        }
    }
}

/// `1..64`, `1..` or `..64`.
fn range_of(text: &str) -> Result<Bound, String> {
    let end = |text: &str| match text.trim() {
        "" => Ok(None),
        digits => match digits.parse::<i64>() {
            Ok(value) if value >= 0 => Ok(Some(value)),
            Ok(_) => Err(format!("a dim is at least 0, found `{digits}`")),
            Err(_) => Err(format!("expected an integer, found `{digits}`")),
        },
    };
    let (lower, upper) =
        text.split_once("..").ok_or("expected LOWER..UPPER, such as 1..64".to_owned())?;
    let (lower, upper) = (end(lower)?, end(upper.strip_prefix('=').unwrap_or(upper))?);
    match (lower, upper) {
        (None, None) => Err("expected a lower or an upper bound".to_owned()),
        (Some(lower), Some(upper)) if lower > upper => {
            Err(format!("the lower bound {lower} is above the upper bound {upper}"))
        }
        (lower, upper) => Ok(Bound { lower, upper }),
    }
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
    /// The program, a model (`.onnx`), or a module file, of which the source is exported; `-` is the standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
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
