//! `relax prove`: statements on integers, decided for all values.

mod statement;

use crate::args::{Format, ProveArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::files::unreadable;
use crate::terminal::Terminal;
use relax_symbolic::Prover;
use relax_symbolic::claims::Formula;
use relax_syntax::facts::{Answer, Counterexample};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

pub(super) fn prove(args: &ProveArgs, terminal: &mut Terminal) -> Outcome {
    if args.json {
        terminal.format = Format::Json;
    }
    if let Some(path) = &args.file {
        return prove_cases(path, terminal);
    }
    let statement = args.statement.as_deref().unwrap_or_default();
    let answer = decide(&args.assume, statement).map_err(Failure::usage)?;
    let line = match terminal.format {
        Format::Text => text_of(&answer),
        Format::Json => format!("{}\n", json_of(&answer)),
    };
    terminal.result(&line)?;
    Ok(if answer == Answer::Proved { Exit::Fine } else { Exit::Wrong })
}

/// Decides one statement; the error says what is wrong with its text.
fn decide(assume: &[String], statement: &str) -> Result<Answer, String> {
    let read = |text: &str| statement::formula(text).map_err(|why| format!("`{text}`: {why}"));
    let known: Vec<Formula> = assume.iter().map(|text| read(text)).collect::<Result<_, _>>()?;
    let goal = read(statement)?;
    let formula = if known.is_empty() { goal } else { Formula::implies(Formula::And(known), goal) };
    Ok(Prover::new().decide_formula(&formula))
}

fn word(answer: &Answer) -> &'static str {
    match answer {
        Answer::Proved => "proved",
        Answer::Refuted(_) => "refuted",
        Answer::Unknown => "unknown",
    }
}

fn text_of(answer: &Answer) -> String {
    match answer {
        Answer::Refuted(values) if values.is_empty() => "refuted\n".to_owned(),
        Answer::Refuted(values) => format!("refuted: {}\n", assignment(values)),
        _ => format!("{}\n", word(answer)),
    }
}

fn assignment(values: &Counterexample) -> String {
    values.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")
}

fn json_of(answer: &Answer) -> Value {
    let mut object = json!({ "answer": word(answer) });
    if let Answer::Refuted(values) = answer {
        let values: BTreeMap<&str, i64> = values.iter().map(|(n, v)| (n.as_str(), *v)).collect();
        object["counterexample"] = json!(values);
    }
    object
}

/// Decides every case of a file of JSON lines and counts; `Wrong` when an answer contradicts what
/// the case expects. Not decided is no contradiction.
fn prove_cases(path: &Path, terminal: &mut Terminal) -> Outcome {
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    let mut counts: BTreeMap<(String, &'static str), u32> = BTreeMap::new();
    let mut contradictions = 0;
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let at = |why: &str| Failure::usage(format!("{}:{}: {why}", path.display(), index + 1));
        let case: Value = serde_json::from_str(line).map_err(|error| at(&error.to_string()))?;
        let query = case["query"].as_str().ok_or_else(|| at("the case has no `query`"))?;
        let expected = case["expect"].as_str().unwrap_or("nothing").to_owned();
        let assume: Vec<String> = case["assume"]
            .as_array()
            .map(|list| list.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect())
            .unwrap_or_default();
        let answer = decide(&assume, query).map_err(|why| at(&why))?;
        let found = word(&answer);
        let contradicts = matches!(
            (expected.as_str(), &answer),
            ("proved", Answer::Refuted(_)) | ("refuted", Answer::Proved)
        );
        contradictions += u32::from(contradicts);
        if terminal.format == Format::Json {
            let mut line = json_of(&answer);
            line["id"] = case["id"].clone();
            terminal.result(&format!("{line}\n"))?;
        } else if contradicts {
            terminal.result(&format!("line {}: expected {expected}, {found}\n", index + 1))?;
        }
        *counts.entry((expected, found)).or_default() += 1;
    }
    if terminal.format == Format::Text {
        for ((expected, found), count) in &counts {
            terminal.result(&format!("expected {expected}: {count} {found}\n"))?;
        }
    }
    Ok(if contradictions > 0 { Exit::Wrong } else { Exit::Fine })
}
