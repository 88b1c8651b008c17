//! The arguments of `relax prove` and `relax verify`.

use super::ModelArgs;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// What `--trust` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Trusted {
    Z3,
}

/// Verify certificates of proofs and compilations
///
/// The checker shares no code with the prover. Not covered: the VM's code, the C source, the C compiler and the
/// machine code that are made of the last program. Exit code 1 when a certificate is refused, or rests on a solver that
/// --trust does not name; 6 when it holds and leaves obligations open, which are listed.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Files with one or more certificates, or module files that embed one; `-` is the standard input
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Accept what this solver decided, without a proof to replay
    #[arg(long, value_enum)]
    pub(crate) trust: Option<Trusted>,
    /// The program that the certificate of a compilation must be about
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
}

/// Prove that two programs are equal for all dims and inputs, or find inputs where they differ
///
/// Functions of one name must have the same values, bit for bit, and stop for the same inputs. Random cases look for a difference first, which is
/// shown as `relax diff` shows it, with small dims; then a proof is tried. It takes constants `param(...)` of one name for the same. Exit code 0
/// when all functions are proved equal, 1 for a difference, 5 when a function had no value in any case, 6 when some are neither proved nor
/// refuted, which are listed with the reason.
#[derive(Debug, Args)]
pub(crate) struct EquivArgs {
    /// A program or model (`.onnx`); `-` is the standard input
    #[arg(value_name = "FILE")]
    pub(crate) left: PathBuf,
    /// Another one, with functions of the same names
    #[arg(value_name = "OTHER")]
    pub(crate) right: PathBuf,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Only this function
    #[arg(long)]
    pub(crate) entry: Option<String>,
    /// A safetensors or GGUF file with external constants and parameters, for the random cases
    #[arg(long, value_name = "FILE")]
    pub(crate) params: Option<PathBuf>,
    /// Random cases for each function
    #[arg(long, default_value_t = 100)]
    pub(crate) cases: u32,
    /// Seed of dims and inputs
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Do not count what rounding explains as a difference of a random case; proofs are of every bit all the same
    #[arg(long)]
    pub(crate) up_to_rounding: bool,
    /// Where to write inputs, expected and found values of a difference; random constants go into a file beside it
    #[arg(long, value_name = "FILE.npz")]
    pub(crate) save: Option<PathBuf>,
    /// Accept what this solver decided, without a proof to replay
    #[arg(long, value_enum)]
    pub(crate) trust: Option<Trusted>,
    /// Where to write the certificate, which `relax verify` replays; nothing is written where the programs differ
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate: Option<PathBuf>,
}

/// Decide a statement on integers
///
/// Or analyze a term: --simplify, --bounds, --no-overflow. Exit code 0 when the statement is proved or the question
/// answered, 1 when it is refuted or not decided.
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("question").required(true),
    override_usage = "relax prove [OPTIONS] <STATEMENT>\n       \
                      relax prove [OPTIONS] --simplify|--bounds|--no-overflow <TERM>\n       \
                      relax prove [OPTIONS] --file <FILE>"
)]
pub(crate) struct ProveArgs {
    /// `n * 4 == 4 * n`; and, or, not, implies(a, b) connect comparisons, divides(a, b) is one; integers up to 2^110
    #[arg(group = "question", allow_hyphen_values = true)]
    pub(crate) statement: Option<String>,
    /// A statement to assume
    #[arg(long, value_name = "STATEMENT", allow_hyphen_values = true)]
    pub(crate) assume: Vec<String>,
    /// Cases as JSON lines: id, assume, query, expect; a line that cannot be read is answered with `error`
    #[arg(long, value_name = "FILE", group = "question", conflicts_with = "assume")]
    pub(crate) file: Option<PathBuf>,
    /// Print an equal term in canonical form
    #[arg(long, value_name = "TERM", group = "question", allow_hyphen_values = true)]
    pub(crate) simplify: Option<String>,
    /// Print the least and the greatest value that could be proved
    #[arg(long, value_name = "TERM", group = "question", allow_hyphen_values = true)]
    pub(crate) bounds: Option<String>,
    /// Prove that every intermediate value fits i64
    #[arg(long, value_name = "TERM", group = "question", allow_hyphen_values = true)]
    pub(crate) no_overflow: Option<String>,
    /// Write a proof of what is proved, for `relax verify`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["simplify", "bounds", "no_overflow"])]
    pub(crate) certificate: Option<PathBuf>,
    /// Skip the SMT solver, the last stage
    #[arg(long)]
    pub(crate) no_solver: bool,
    /// Print what each stage of the prover decided, and how long it took
    #[arg(long)]
    pub(crate) stats: bool,
    /// The same as --format json
    #[arg(long)]
    pub(crate) json: bool,
}
