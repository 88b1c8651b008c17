//! `relax explain`: what a code means. Codes of diagnostics, traps and constraints.

use super::concepts;
use super::unknown::unknown;
use crate::args::ExplainArgs;
use crate::exit::{Exit, Outcome};
use crate::terminal::Terminal;
use relax_program::frontend::code_tables;
use relax_semantics::ops;
use relax_semantics::traps::TRAPS;
use serde_json::json;

/// What there is to say about a code.
struct Entry {
    title: String,
    text: String,
}

pub(super) fn explain(args: &ExplainArgs, terminal: &mut Terminal) -> Outcome {
    let code = args.code.trim();
    let entry = diagnostic(code).or_else(|| trap(code)).or_else(|| constraint(code));
    let Some(entry) = entry.or_else(|| term(code)) else {
        let known = known();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        return Err(unknown("code or term", code, &known));
    };
    let text = format!("{code}: {}\n\n{}", entry.title, entry.text);
    terminal.tell(
        &format!("{}\n", text.trim_end()),
        || json!({ "type": "explanation", "code": code, "title": entry.title, "explanation": entry.text }),
    )?;
    Ok(Exit::Fine)
}

fn diagnostic(code: &str) -> Option<Entry> {
    let mut infos = code_tables().into_iter().flatten();
    infos
        .find(|info| info.code.eq_ignore_ascii_case(code))
        .map(|info| Entry { title: info.title.to_owned(), text: info.explanation.to_owned() })
}

fn trap(code: &str) -> Option<Entry> {
    TRAPS.iter().find(|trap| trap.id == code).map(|trap| Entry {
        title: trap.title.to_owned(),
        text: format!(
            "A trap: a check at run time that failed. Every correct compilation of the program \
             fails it too.\n\n{}",
            trap.explanation
        ),
    })
}

/// `matmul/C2`: a constraint of an operator. Broken for all dims it is an error, else a trap.
fn constraint(code: &str) -> Option<Entry> {
    let (name, id) = code.rsplit_once('/')?;
    let row = ops::lookup(name)?;
    if id == "kind" {
        return Some(Entry {
            title: format!("an operand of `{}` of the wrong kind", row.name),
            text: format!(
                "A parameter got a value of another kind than it takes; known before the program \
                 runs, it is RX0502. `relax ops {}` shows the parameters.",
                row.short_name()
            ),
        });
    }
    let constraint = row.constraints.iter().find(|constraint| constraint.id == id)?;
    Some(Entry {
        title: format!("a constraint of `{}`", row.name),
        text: format!(
            "{}\n\nBroken for all dims it is an error of the check; where the check cannot decide \
             it, it is checked at run time and fails there with this code.\n\n`{}`: {}",
            constraint.text, row.name, row.doc
        ),
    })
}

/// A term: what the glossary and the language reference say of it.
fn term(word: &str) -> Option<Entry> {
    let (title, text) = concepts::explain(word)?;
    Some(Entry { title, text })
}

/// Every code and term.
fn known() -> Vec<String> {
    let mut known: Vec<String> =
        code_tables().into_iter().flatten().map(|info| info.code.to_owned()).collect();
    known.extend(TRAPS.iter().map(|trap| trap.id.to_owned()));
    for row in ops::all() {
        known.extend(row.constraints.iter().map(|c| format!("{}/{}", row.short_name(), c.id)));
    }
    known.extend(concepts::terms());
    known
}
