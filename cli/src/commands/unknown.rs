//! The error for a word on the command line that nothing has.

use crate::exit::Failure;
use relax_syntax::suggest;

/// The error for an unknown word of some kind, with what was probably meant.
pub(super) fn unknown(kind: &str, word: &str, known: &[&str]) -> Failure {
    let hint = suggest::hint(word, known).map_or_else(String::new, |hint| format!("; {hint}"));
    Failure::usage(format!("there is no {kind} `{word}`{hint}"))
}
