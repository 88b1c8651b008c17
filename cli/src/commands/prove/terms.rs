//! Questions about a term: its canonical form, its bounds, and whether its intermediates fit i64.

use super::{Asked, assignment, json_values, microseconds};
use crate::args::Format;
use crate::exit::{Exit, Outcome};
use crate::terminal::Terminal;
use relax_symbolic::{Escape, Intermediates};
use relax_syntax::dim::Dim;
use relax_syntax::facts::Facts;
use serde_json::{Value, json};

pub(super) fn simplify(asked: &mut Asked, term: &Dim, terminal: &mut Terminal) -> Outcome {
    let simple = asked.prover.simplify(term).to_string();
    let object = json!({ "term": term.to_string(), "simplified": simple });
    answer(asked, &simple, object, terminal)?;
    Ok(Exit::Fine)
}

pub(super) fn bounds(asked: &mut Asked, term: &Dim, terminal: &mut Terminal) -> Outcome {
    let (low, high) = asked.prover.bounds_under(&asked.hypotheses, term);
    let text = match (low, high) {
        (Some(low), Some(high)) => format!("{low} <= {term} <= {high}"),
        (Some(low), None) => format!("{low} <= {term}"),
        (None, Some(high)) => format!("{term} <= {high}"),
        (None, None) => format!("no bounds found of {term}"),
    };
    let object = json!({ "term": term.to_string(), "least": low, "greatest": high });
    answer(asked, &text, object, terminal)?;
    Ok(if (low, high) == (None, None) { Exit::Wrong } else { Exit::Fine })
}

pub(super) fn no_overflow(asked: &mut Asked, term: &Dim, terminal: &mut Terminal) -> Outcome {
    let found = asked.prover.intermediates_under(&asked.hypotheses, term);
    let mut object = json!({ "term": term.to_string() });
    let text = match &found {
        Intermediates::Fit => {
            object["answer"] = json!("proved");
            "proved: every intermediate fits i64".to_owned()
        }
        Intermediates::Escape(escape) => {
            object["answer"] = json!("refuted");
            object["operation"] = json!(escape.operation.to_string());
            // A number beyond i64 is no number of JSON for every reader.
            object["value"] = json!(escape.result.map(|value| value.to_string()));
            object["counterexample"] = json_values(&escape.values);
            escaped(escape)
        }
        Intermediates::Unknown(operation) => {
            object["answer"] = json!("unknown");
            object["operation"] = json!(operation.to_string());
            format!("unknown: whether `{operation}` fits i64 is not decided")
        }
    };
    answer(asked, &text, object, terminal)?;
    Ok(if found == Intermediates::Fit { Exit::Fine } else { Exit::Wrong })
}

fn escaped(escape: &Escape) -> String {
    let Escape { values, operation, result } = escape;
    let values = if values.is_empty() { String::new() } else { assignment(values) + ": " };
    match result {
        Some(result) => format!("refuted: {values}`{operation}` is {result}, beyond i64"),
        None => format!("refuted: {values}`{operation}` divides by zero"),
    }
}

fn answer(
    asked: &Asked,
    text: &str,
    mut object: Value,
    terminal: &mut Terminal,
) -> Result<(), crate::exit::Failure> {
    match terminal.format {
        Format::Text => terminal.result(&format!("{text}\n")),
        Format::Json => {
            object["microseconds"] = json!(microseconds(asked.start.elapsed()));
            terminal.result(&format!("{object}\n"))
        }
    }
}
