//! `relax verify`: certificates, replayed by a checker that knows nothing of the prover.

use super::at_most_one_stdin;
use crate::args::{Format, VerifyArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::files::{read_text, shown_name};
use crate::terminal::Terminal;
use relax_proofs::Outcome::{Proved, Trusted};
use relax_proofs::{Checked, Refused, check_all};
use serde_json::{Value, json};

/// The text of the rules that certificates may use.
const RULES: Option<&str> = Some(relax_symbolic::RULES);

pub(super) fn verify(args: &VerifyArgs, terminal: &mut Terminal) -> Outcome {
    at_most_one_stdin(args.files.iter().map(AsRef::as_ref))?;
    let mut exit = Exit::Fine;
    for path in &args.files {
        let name = shown_name(path);
        for result in check_all(&read_text(path)?, RULES) {
            let accepted = match &result {
                Ok(checked) => checked.outcome == Proved || !args.no_trust,
                Err(_) => false,
            };
            if !accepted {
                exit = Exit::Wrong;
            }
            match terminal.format {
                Format::Json => terminal.result(&format!("{}\n", json_of(&name, &result)))?,
                Format::Text => show(&name, &result, accepted, terminal)?,
            }
        }
    }
    Ok(exit)
}

type Replayed = Result<Checked, Refused>;

/// `accepted` is false for what is refused, and for what is trusted where nothing shall be.
fn show(
    name: &str,
    result: &Replayed,
    accepted: bool,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let line = match result {
        Ok(checked) => text_of(checked),
        Err(Refused { line, why }) => {
            terminal.message(format!("error: {name}:{line}: {why}\n").as_bytes());
            return Ok(());
        }
    };
    terminal.result(&line)?;
    if !accepted {
        terminal
            .message(format!("error: {name}: trusted only, which --no-trust refuses\n").as_bytes());
    }
    Ok(())
}

fn text_of(checked: &Checked) -> String {
    let hypotheses = checked.hypotheses.join(", ");
    let space = if hypotheses.is_empty() { "" } else { " " };
    let statement = format!("{hypotheses}{space}|- {}", checked.goal);
    match &checked.outcome {
        Proved => {
            let steps = checked.steps;
            format!("verified: {statement}  ({steps} step{})\n", if steps == 1 { "" } else { "s" })
        }
        Trusted { solver, version, rlimit, .. } => {
            format!("trusted ({solver} {version}, rlimit {rlimit}): {statement}\n")
        }
    }
}

fn json_of(name: &str, result: &Replayed) -> Value {
    let checked = match result {
        Ok(checked) => checked,
        Err(Refused { line, why }) => {
            return json!({ "file": name, "verdict": "refused", "line": line, "why": why });
        }
    };
    let mut object = json!({
        "file": name,
        "verdict": "verified",
        "hypotheses": checked.hypotheses,
        "goal": checked.goal,
        "steps": checked.steps,
        "rules_used": checked.rules_used,
    });
    if let Trusted { solver, version, rlimit, question } = &checked.outcome {
        object["verdict"] = json!("trusted");
        object["solver"] = json!(solver);
        object["version"] = json!(version);
        object["rlimit"] = json!(rlimit);
        object["question"] = json!(question);
    }
    object
}
