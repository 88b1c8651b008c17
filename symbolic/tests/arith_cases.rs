//! The prover against thousands of restated questions: no wrong answer, and a ratchet on how many
//! are decided. `RELAX_UNDECIDED=FILE` writes those that are left to a file.

use relax_symbolic::Prover;
use relax_symbolic::claims::Formula;
use relax_symbolic::statement;
use relax_syntax::facts::Answer;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Instant;

/// How many true cases are proved. It only rises.
const PROVED: usize = 1547;
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
    let assume = assumed.iter().map(|fact| statement::formula(fact.as_str().expect("text")).ok());
    Some(Case {
        id: text_of(&object, "id").to_owned(),
        assume: assume.collect::<Option<Vec<_>>>()?,
        query: statement::formula(text_of(&object, "query")).ok()?,
        expect: text_of(&object, "expect").to_owned(),
        text: format!("{} |- {}", object["assume"], text_of(&object, "query")),
    })
}

fn answer(case: &Case) -> Answer {
    let mut prover = Prover::new();
    let hypotheses = prover.suppose(case.assume.clone());
    prover.decide_formula(&case.query.clone().under(&hypotheses))
}

#[test]
fn no_wrong_answer_and_the_ratchet_holds() {
    let data = include_str!("arith_cases.jsonl");
    let mut counts: BTreeMap<(String, &str), usize> = BTreeMap::new();
    let (mut unread, mut wrong) = (0, Vec::new());
    let (mut times, mut undecided) = (Vec::new(), String::new());
    for line in data.lines() {
        let Some(case) = read(line) else {
            unread += 1;
            continue;
        };
        let start = Instant::now();
        let answer = answer(&case);
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
    if let Ok(path) = std::env::var("RELAX_UNDECIDED") {
        std::fs::write(path, undecided).expect("the named file can be written");
    }
    assert!(wrong.is_empty(), "wrong answers:\n{}", wrong.join("\n"));
    let count = |key: &str| counts.get(&(key.to_owned(), key)).copied().unwrap_or(0);
    assert!(count("proved") >= PROVED, "proved {} < {PROVED}", count("proved"));
    assert!(count("refuted") >= REFUTED, "refuted {} < {REFUTED}", count("refuted"));
}
