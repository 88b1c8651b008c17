//! The arguments of `relax verify`.

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
