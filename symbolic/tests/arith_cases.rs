//! The prover against thousands of restated questions: no wrong answer, and a ratchet on how many
//! are decided. `RELAX_UNDECIDED=FILE` writes those that are left to a file.

mod query_text;

use relax_symbolic::claims::Formula;
use relax_symbolic::{Prover, Stage, StageStatistics};
use relax_syntax::facts::{Answer, Facts};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Instant;

/// How many true cases are proved. It only rises.
const PROVED: usize = 1548;
/// How many false cases are refuted. It only rises.
const REFUTED: usize = 1193;

struct Case {
    id: String,
    assume: Vec<Formula>,
    query: Formula,
    expect: String,
    text: String,
}

fn text_of<'a>(object: &'a Value, key: &str) -> &'a str {
    object[key].as_str().expect("the data has this key")
}

fn read(line: &str) -> Option<Case> {
    let object: Value = serde_json::from_str(line).expect("one JSON object a line");
    let assumed = object["assume"].as_array().expect("a list of facts");
    let assume = assumed.iter().map(|fact| query_text::formula(fact.as_str().expect("text")));
    Some(Case {
        id: text_of(&object, "id").to_owned(),
        assume: assume.collect::<Option<Vec<_>>>()?,
        query: query_text::formula(text_of(&object, "query"))?,
        expect: text_of(&object, "expect").to_owned(),
        text: format!("{} |- {}", object["assume"], text_of(&object, "query")),
    })
}

/// Nanoseconds since the first call.
fn clock() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Plain claims become facts; what has other connectives becomes a hypothesis of the query. Also
/// what the stage of rules did.
fn answer(case: &Case) -> (Answer, StageStatistics) {
    let mut prover = Prover::timed(clock);
    let answer = ask(&mut prover, case);
    (answer, prover.statistics().stages[Stage::EGraph as usize])
}

fn ask(prover: &mut Prover, case: &Case) -> Answer {
    let mut hypotheses = Vec::new();
    let mut pending: Vec<&Formula> = case.assume.iter().rev().collect();
    while let Some(fact) = pending.pop() {
        match fact {
            Formula::Claim(claim) => prover.assume(claim.clone()),
            Formula::And(parts) => pending.extend(parts.iter().rev()),
            other => hypotheses.push(other.clone()),
        }
    }
    if hypotheses.is_empty() {
        return prover.decide_formula(&case.query);
    }
    prover.decide_formula(&Formula::implies(Formula::And(hypotheses), case.query.clone()))
}

#[test]
fn no_wrong_answer_and_the_ratchet_holds() {
    let data = include_str!("arith_cases.jsonl");
    let mut counts: BTreeMap<(String, &str), usize> = BTreeMap::new();
    let (mut unread, mut wrong) = (0, Vec::new());
    let (mut times, mut rules, mut undecided) = (Vec::new(), Vec::new(), String::new());
    for line in data.lines() {
        let Some(case) = read(line) else {
            unread += 1;
            continue;
        };
        let start = Instant::now();
        let (answer, by_rules) = answer(&case);
        if by_rules.asked > 0 {
            rules.push((by_rules.nanoseconds / 1000, by_rules.proved, case.id.clone()));
        }
        times.push((start.elapsed(), case.id.clone()));
        let name = match &answer {
            Answer::Proved => "proved",
            Answer::Refuted(_) => "refuted",
            Answer::Unknown => "unknown",
        };
        if name == "unknown" {
            undecided += &format!("{} {} {}\n", case.expect, case.id, case.text);
        } else if name != case.expect {
            wrong.push(format!("{} {answer:?}: {}", case.id, case.text));
        }
        *counts.entry((case.expect.clone(), name)).or_default() += 1;
    }
    times.sort();
    let median = times[times.len() / 2].0;
    eprintln!("{counts:?}, not read: {unread}, median {median:?}, slowest {:?}", times.last());
    rules.sort();
    eprintln!("rules, in microseconds, proved: {rules:?}");
    if let Ok(path) = std::env::var("RELAX_UNDECIDED") {
        std::fs::write(path, undecided).expect("the named file can be written");
    }
    assert!(wrong.is_empty(), "wrong answers:\n{}", wrong.join("\n"));
    let count = |key: &str| counts.get(&(key.to_owned(), key)).copied().unwrap_or(0);
    assert!(count("proved") >= PROVED, "proved {} < {PROVED}", count("proved"));
    assert!(count("refuted") >= REFUTED, "refuted {} < {REFUTED}", count("refuted"));
}
