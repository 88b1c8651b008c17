//! Replays certificates: proofs of statements on integers, written by a prover that need not be
//! trusted. `docs/CERTIFICATES.md` is the specification.
//!
//! To read this crate with doubt, begin with the reading of atoms in [polynomial], then what a
//! statement [opens to](statement), the [derivations](steps), the [ends] of branches, and the tree of
//! branches ([proof]). What is trusted beside it: that its rule file states theorems, big integers
//! ([num_bigint]), and the reader of JSON.
#![forbid(unsafe_code)]

mod ends;
mod known;
mod line;
mod polynomial;
mod proof;
mod rules;
#[cfg(test)]
mod soundness;
mod statement;
mod steps;
mod text;

use thiserror::Error;

/// A certificate that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// What is assumed, as in the header.
    pub hypotheses: Vec<String>,
    /// What follows, as in the header.
    pub goal: String,
    /// How far that is known.
    pub outcome: Outcome,
    /// How many derivations and ends the proof has.
    pub steps: usize,
    /// The rules that it uses, sorted.
    pub rules_used: Vec<String>,
}

/// How far the goal is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The proof was replayed.
    Proved,
    /// Nothing was replayed: a solver is said to have decided it.
    Trusted {
        /// Its name.
        solver: String,
        /// Its version.
        version: String,
        /// The resources it was given.
        rlimit: u64,
        /// The SHA-256 of what it was asked.
        question: String,
    },
}

/// Why a certificate is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {why}")]
pub struct Refused {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

/// The longest reason, in characters.
const MAX_WHY: usize = 1_000;

impl Refused {
    /// The reason may quote what was read: it is cut, and nothing in it controls a terminal.
    fn new(line: usize, why: &str) -> Self {
        let shown =
            why.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c });
        Refused { line, why: shown.take(MAX_WHY).collect() }
    }
}

/// What a part of the checker gives: the error says why a line is refused.
type Checks<T> = Result<T, String>;

fn refuse<T>(why: impl Into<String>) -> Checks<T> {
    Err(why.into())
}

/// Checks one certificate. `rules` is the text of the rule file, without which no certificate
/// that uses rules is accepted.
///
/// # Errors
/// The first line that is refused, or that the certificate ends too early.
pub fn check(certificate: &str, rules: Option<&str>) -> Result<Checked, Refused> {
    proof::replay(certificate, rules)
}

/// Checks every certificate of a text; a header begins the next. Lines are counted in the whole text.
/// A text without any certificate gives one refusal.
pub fn check_all(text: &str, rules: Option<&str>) -> Vec<Result<Checked, Refused>> {
    let check_one = |(before, certificate): (usize, &str)| {
        check(certificate, rules)
            .map_err(|refused| Refused { line: refused.line + before, ..refused })
    };
    certificates(text).into_iter().map(check_one).collect()
}

/// The certificates of a text, each with the number of lines before it.
fn certificates(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let (mut begin, mut before, mut at) = (0, 0, 0);
    let mut empty = true;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if !empty && line::is_header(line) {
            found.push((before, &text[begin..at]));
            (begin, before) = (at, index);
        }
        empty &= line.trim().is_empty();
        at += line.len();
    }
    found.push((before, &text[begin..]));
    found
}
