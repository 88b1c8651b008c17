//! `relax prove --file`: cases as JSON lines, each decided by a prover of its own.

use super::{Asked, Stages, json_of, read};
use crate::args::Format;
use crate::exit::{Exit, Failure};
use crate::terminal::Terminal;
use relax_program::tensor_files::read_file;
use relax_symbolic::claims::Formula;
use relax_symbolic::{StageStatistics, Statistics};
use relax_syntax::facts::Answer;
use relax_syntax::parse::limits::FILE_BYTES;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// A line of the file.
struct Case {
    id: Value,
    known: Vec<Formula>,
    query: Formula,
    expected: String,
}

/// Decides every case and counts; `Wrong` when an answer contradicts what the case expects, else `Usage` when a line
/// cannot be read. Not decided is no contradiction.
pub(super) fn prove(
    path: &Path,
    stages: Stages,
    certificates: &mut Option<String>,
    terminal: &mut Terminal,
) -> Result<(Exit, Statistics), Failure> {
    let bytes = read_file(path, FILE_BYTES as u64)
        .map_err(|error| Failure::of_file(&error.at(&format!("cannot read {}", path.display()))))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut counts: BTreeMap<(String, &'static str), u32> = BTreeMap::new();
    let mut statistics = Statistics::default();
    let (mut contradictions, mut uncertified, mut unread) = (0, 0, 0);
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let case = match case_of(line) {
            Ok(case) => case,
            Err(why) => {
                unread += 1;
                show_unread(index + 1, line, &why, terminal)?;
                continue;
            }
        };
        terminal.doing(format!("line {} of {}", index + 1, path.display()));
        let mut asked = Asked::knowing(case.known, stages);
        let verdict = asked.judge(&case.query);
        let elapsed = asked.start.elapsed();
        add(&mut statistics, &asked.statistics());
        if verdict.answer == Answer::Proved && !asked.certify(&case.query, certificates) {
            uncertified += 1;
        }
        let found = verdict.answer.word();
        let contradicts = matches!(
            (case.expected.as_str(), &verdict.answer),
            ("proved", Answer::Refuted(_)) | ("refuted", Answer::Proved)
        );
        contradictions += u32::from(contradicts);
        if terminal.format == Format::Json {
            let mut object = json_of(&verdict, elapsed);
            object["id"] = case.id;
            terminal.result(&format!("{object}\n"))?;
            terminal.flush()?;
        } else if contradicts {
            let expected = &case.expected;
            terminal.result(&format!("line {}: expected {expected}, {found}\n", index + 1))?;
        }
        *counts.entry((case.expected, found)).or_default() += 1;
    }
    if terminal.format == Format::Text {
        for ((expected, found), count) in &counts {
            terminal.result(&format!("expected {expected}: {count} {found}\n"))?;
        }
        if unread > 0 {
            terminal.result(&format!("not read: {unread} error\n"))?;
        }
    }
    if uncertified > 0 {
        terminal.note(&format!("note: no certificate was found for {uncertified} that are proved"));
    }
    let exit = match (contradictions, unread) {
        (0, 0) => Exit::Fine,
        (0, _) => Exit::Usage,
        _ => Exit::Wrong,
    };
    Ok((exit, statistics))
}

/// Answers `error` for a line that cannot be read, with its number, and its `id` where there is one.
fn show_unread(
    number: usize,
    line: &str,
    why: &str,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    if terminal.format == Format::Text {
        return terminal.result(&format!("line {number}: error: {why}\n"));
    }
    let id = serde_json::from_str(line).map_or(Value::Null, |case: Value| case["id"].clone());
    let object = json!({ "answer": "error", "line": number, "id": id, "why": why });
    terminal.result(&format!("{object}\n"))
}

/// Reads a line; the error says what is wrong with it.
fn case_of(line: &str) -> Result<Case, String> {
    let case: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let statement = |value: &Value, what: &str| {
        let text = value.as_str().ok_or_else(|| format!("the case has no {what}"))?;
        read(text).map_err(|failure| match failure {
            Failure::Message { text, .. } => text,
            _ => format!("`{text}` cannot be read"),
        })
    };
    let known = match &case["assume"] {
        Value::Null => Vec::new(),
        Value::Array(list) => {
            let read = list.iter().map(|value| statement(value, "text in `assume`"));
            read.collect::<Result<_, _>>()?
        }
        _ => return Err("`assume` is no list".to_owned()),
    };
    Ok(Case {
        known,
        query: statement(&case["query"], "`query`")?,
        expected: case["expect"].as_str().unwrap_or("nothing").to_owned(),
        id: case["id"].clone(),
    })
}

fn add(sum: &mut Statistics, one: &Statistics) {
    sum.queries += one.queries;
    for (sum, one) in sum.stages.iter_mut().zip(&one.stages) {
        let StageStatistics { asked, proved, refuted, nanoseconds } = one;
        sum.asked += asked;
        sum.proved += proved;
        sum.refuted += refuted;
        sum.nanoseconds += nanoseconds;
    }
}
