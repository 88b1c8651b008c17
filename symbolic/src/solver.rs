//! The last stage: an SMT solver on questions that the others leave open.
//!
//! A question becomes a text in SMT-LIB ([question] orders it, [encoding] writes it), and each text is
//! decided in a context of its own: an answer depends on nothing but the question. What bounds the
//! work is z3's own count of steps, not time. "No assignment" is believed, and marked as such by
//! [`Trusted`]; an assignment that the solver finds counts only after it was evaluated.

mod encoding;
#[cfg(feature = "z3")]
mod library;
mod question;
#[cfg(feature = "z3")]
mod strategy;

use crate::claims::Formula;
use encoding::Goal;
use question::Question;
use relax_syntax::facts::Claim;
use sha2::{Digest, Sha256};

pub use encoding::Encoding;
#[cfg(feature = "z3")]
pub(crate) use strategy::{Decision, decide, witness};

/// What a proof by the solver rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trusted {
    /// The version of z3.
    pub version: String,
    /// How divisions were written.
    pub encoding: Encoding,
    /// The steps that it was allowed, by its own count; it decides within them again.
    pub rlimit: u32,
    /// The SHA-256 of the text that it was given, hexadecimal.
    pub question: String,
}

/// The version of z3 that decides; `None` in a build without it.
#[must_use]
pub fn solver_version() -> Option<String> {
    #[cfg(feature = "z3")]
    return Some(library::version());
    #[cfg(not(feature = "z3"))]
    None
}

/// The text that the solver is given to prove `formula` under `facts`: satisfiable unless the formula
/// has a value and holds wherever the facts do. Its [`text_hash`] is [`Trusted::question`]. `None`
/// where it would be too big.
#[must_use]
pub fn solver_question(facts: &[Claim], formula: &Formula, encoding: Encoding) -> Option<String> {
    let question = Question::new(facts.iter(), formula)?;
    encoding::text(&question, encoding, Goal::Refused)
}

/// The SHA-256 of a text, hexadecimal.
#[must_use]
pub fn text_hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What became of a statement in [`prove_with_encoding`].
#[cfg(feature = "z3")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodingOutcome {
    /// Whether it was proved; else it is not decided.
    pub proved: bool,
    /// The steps that were used, by the solver's count.
    pub used: u32,
}

/// Asks the solver alone, with one encoding, for a proof within `rlimit` steps: what a test needs
/// that repeats a proof as it is on record.
#[cfg(feature = "z3")]
#[must_use]
pub fn prove_with_encoding(
    facts: &[Claim],
    formula: &Formula,
    encoding: Encoding,
    rlimit: u32,
) -> EncodingOutcome {
    let text = solver_question(facts, formula, encoding);
    let run = text.map(|text| library::run(&text, 0, rlimit));
    run.map_or(EncodingOutcome { proved: false, used: 0 }, |run| EncodingOutcome {
        proved: run.outcome == library::Outcome::Unsatisfiable,
        used: run.used,
    })
}
