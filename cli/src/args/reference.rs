//! Arguments of the subcommands that print reference: `ops`, `rules`, `explain`, `completions`, `man`.

use clap::Args;
use std::path::PathBuf;

/// List operators, or describe one
#[derive(Debug, Args)]
pub(crate) struct OpsArgs {
    /// The operator
    pub(crate) name: Option<String>,
    /// The operator reference as Markdown
    #[arg(long, conflicts_with = "name")]
    pub(crate) markdown: bool,
}

/// List rewrite rules and how far each is proved, or describe one
#[derive(Debug, Args)]
pub(crate) struct RulesArgs {
    /// The rule; or a file of rules, `mine.rx`, each of which is proved, or refused with a counterexample
    pub(crate) name: Option<String>,
    /// Only those of a family, such as matmul
    #[arg(long, conflicts_with = "name")]
    pub(crate) family: Option<String>,
    /// Only those that are not proved
    #[arg(long, conflicts_with = "name")]
    pub(crate) unproved: bool,
    /// Prove them now, instead of reading the record
    #[arg(long)]
    pub(crate) prove: bool,
}

/// Explain a code or a term: of a diagnostic, a trap, a constraint, or the glossary
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Such as RX0203, match_cast/dim, matmul/C2, sym_var, P2.1 or twins
    pub(crate) code: String,
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell that reads it
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Write man pages: one for the command, and one for each subcommand
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The folder; pages are named relax.1, relax-run.1 and so on
    pub(crate) folder: PathBuf,
}
