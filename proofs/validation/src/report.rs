//! What is told of the obligations of a compilation.

use crate::derive::Counts;
use crate::obligation::{Kind, Obligation, Outcome};
use std::fmt::Write;

/// The ways in which an obligation ends, as people are told: what is not proved was tested, or nobody knows.
const COLUMNS: [&str; 5] = ["proved (rules)", "proved (z3)", "tested", "open", "refuted"];

/// A table of how many obligations of each kind ended how. `tested` is the number of runs of a test.
#[must_use]
pub fn table(counts: &Counts, tested: u64) -> String {
    let mut text = format!("{:<8}", "");
    COLUMNS.iter().for_each(|column| _ = write!(text, "{column:>16}"));
    text.push('\n');
    for kind in counts.kinds() {
        let _ = write!(text, "{:<8}", kind.name());
        for column in COLUMNS {
            let _ = write!(text, "{:>16}", cell(counts, kind, column, tested));
        }
        text.push('\n');
    }
    text
}

fn cell(counts: &Counts, kind: Kind, column: &str, tested: u64) -> usize {
    match column {
        "tested" if tested > 0 => counts.count(kind, "unproved"),
        "open" if tested == 0 => counts.count(kind, "unproved"),
        _ => counts.count(kind, column),
    }
}

/// Those that ended otherwise than proved by rules, a line each.
#[must_use]
pub fn unproved(obligations: &[Obligation]) -> Vec<String> {
    obligations.iter().filter(|each| each.outcome != Outcome::Proved).map(line).collect()
}

/// An obligation, how it ended, and why.
#[must_use]
pub fn line(obligation: &Obligation) -> String {
    match obligation.why() {
        "" => format!("{obligation}: {}", obligation.outcome.word()),
        why => format!("{obligation}: {}: {why}", obligation.outcome.word()),
    }
}
