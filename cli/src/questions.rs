//! `--questions FILE`: what a command asks the prover.

use crate::exit::Outcome;
use crate::files::write_whole;
use crate::terminal::Terminal;
use relax_symbolic::asked::{Questions, finish, start};
use serde_json::json;
use std::path::Path;

/// Runs a command and writes the questions that it asks of provers, also where it fails.
pub(crate) fn noted(
    path: &Path,
    terminal: &mut Terminal,
    command: impl FnOnce(&mut Terminal) -> Outcome,
) -> Outcome {
    start();
    let outcome = command(terminal);
    let asked = finish();
    if asked.dropped > 0 {
        let known = asked.known.len();
        terminal.note(&format!(
            "note: {known} distinct questions were noted, and {} more were asked",
            asked.dropped
        ));
    }
    write_whole(path, lines(&asked).as_bytes()).and(outcome)
}

fn lines(asked: &Questions) -> String {
    let mut lines = String::new();
    for (at, (question, asked)) in asked.known.iter().enumerate() {
        let object = json!({
            "id": at,
            "assume": question.facts,
            "query": question.statement,
            "expect": asked.answer,
            "times": asked.times,
        });
        lines += &format!("{object}\n");
    }
    lines
}
