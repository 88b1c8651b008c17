//! The prover against thousands of restated questions: no wrong answer, and a ratchet on how many
//! are decided. `RELAX_UNDECIDED=FILE` writes those that are left to a file.

use relax_symbolic::Prover;
use relax_symbolic::claims::Formula;
use relax_symbolic::statement;
use relax_syntax::facts::Answer;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How many true cases are proved, without the solver and with it. It only rises.
const PROVED: [usize; 2] = [1548, 1557];
/// How many false cases are refuted, without the solver and with it. It only rises.
const REFUTED: [usize; 2] = [1193, 1200];
/// The solver's steps for one question.
const SOLVER_LIMIT: u32 = 2_000_000;

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

fn answer(case: &Case, mut prover: Prover) -> Answer {
    let hypotheses = prover.suppose(case.assume.clone());
    prover.decide_formula(&case.query.clone().under(&hypotheses))
}

/// What came of all cases, with one kind of prover.
#[derive(Default)]
struct Tally {
    counts: BTreeMap<(String, &'static str), usize>,
    wrong: Vec<String>,
    times: Vec<(Duration, String)>,
    undecided: String,
}

impl Tally {
    fn note(&mut self, case: &Case, prover: Prover) -> Answer {
        let start = Instant::now();
        let answer = answer(case, prover);
        self.times.push((start.elapsed(), case.id.clone()));
        let name = match &answer {
            Answer::Proved => "proved",
            Answer::Refuted(_) => "refuted",
            Answer::Unknown => "unknown",
        };
        if name == "unknown" {
            self.undecided += &format!("{} {} {}\n", case.expect, case.id, case.text);
        } else if name != case.expect {
            self.wrong.push(format!("{} {answer:?}: {}", case.id, case.text));
        }
        *self.counts.entry((case.expect.clone(), name)).or_default() += 1;
        answer
    }

    fn check(mut self, what: &str, proved: usize, refuted: usize) {
        self.times.sort();
        let (times, counts) = (&self.times, &self.counts);
        let median = times.get(times.len() / 2);
        eprintln!("{what}: {counts:?}, median {median:?}, slowest {:?}", times.last());
        assert!(self.wrong.is_empty(), "wrong answers:\n{}", self.wrong.join("\n"));
        let count = |key: &str| counts.get(&(key.to_owned(), key)).copied().unwrap_or(0);
        assert!(count("proved") >= proved, "{what}: proved {} < {proved}", count("proved"));
        assert!(count("refuted") >= refuted, "{what}: refuted {} < {refuted}", count("refuted"));
    }
}

#[test]
fn no_wrong_answer_and_the_ratchet_holds() {
    let cases = include_str!("arith_cases.jsonl").lines().filter_map(read);
    let (mut quick, mut solver) = (Tally::default(), Tally::default());
    for case in cases {
        let prover = Prover::new().with_second_attempt();
        if quick.note(&case, prover) == Answer::Unknown && cfg!(feature = "z3") {
            solver.note(&case, Prover::with_solver(SOLVER_LIMIT));
        }
    }
    if let Ok(path) = std::env::var("RELAX_UNDECIDED") {
        let left = if cfg!(feature = "z3") { &solver.undecided } else { &quick.undecided };
        std::fs::write(path, left).expect("the named file can be written");
    }
    quick.check("without the solver", PROVED[0], REFUTED[0]);
    if cfg!(feature = "z3") {
        solver.check("with the solver", PROVED[1] - PROVED[0], REFUTED[1] - REFUTED[0]);
    }
}
