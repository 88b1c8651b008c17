//! The prover on 50,000 drawn claims of 20 families: no wrong answer, and a ratchet on the share that is proved without the solver.
//!
//! A claim counts where the prover proves it, or the solver does. Brute force looks for an assignment that refutes what was proved,
//! and for the claims that are false and need not be given to the solver. A sample is tested, by a number from `RELAX_SAMPLE` or else
//! from the commit; `RELAX_WHOLE=1` tests all. `RELAX_UNDECIDED=FILE` writes the claims that only the solver proves.

mod brute;
mod draw;

use draw::{Families, Question};
use relax_corpus::sample::{Sample, is_whole};
use relax_symbolic::{Prover, Stage, Verdict};
use relax_syntax::facts::Answer;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How many claims there are.
const CLAIMS: u64 = 50_000;
/// One in so many is tested.
const STRIDE: u64 = 100;
/// The share of claims proved without the solver, of those that are proved at all: of all claims, and of any sample. It only rises.
const SHARES: [f64; 2] = [0.993, 0.96];
/// The solver's steps for one question, as many as `relax prove` gives it.
const SOLVER_LIMIT: u32 = 2_000_000;

/// What came of the claims of a family.
#[derive(Default)]
struct Tally {
    claims: usize,
    refuted: usize,
    proved: usize,
    /// Those of them that the second attempt proves.
    second: usize,
    /// Those that only the solver proves.
    by_solver: usize,
    /// Those that neither proves and no assignment was seen to refute.
    open: usize,
}

impl Tally {
    fn share(&self) -> f64 {
        let proved = u32::try_from(self.proved).expect("few claims");
        let all = u32::try_from(self.proved + self.by_solver).expect("few claims");
        f64::from(proved) / f64::from(all.max(1))
    }
}

fn judged(question: &Question, mut prover: Prover) -> Verdict {
    let hypotheses = prover.suppose(question.facts.clone());
    prover.judge(&question.goal.clone().under(&hypotheses))
}

/// What the solver adds: whether it proves the question.
fn is_solved(question: &Question) -> bool {
    let asked = || judged(question, Prover::with_solver(SOLVER_LIMIT));
    cfg!(feature = "z3") && asked().answer == Answer::Proved
}

#[test]
fn no_wrong_answer_and_the_share_holds() {
    let families = Families::new();
    // Of each stride of claims another one: a stride that has a factor in common with the number of families would leave some out.
    let turned = |at: u64| at - at % STRIDE + (at + at / STRIDE) % STRIDE;
    let numbers = Sample::of("drawn claims", STRIDE as usize).take((0..CLAIMS).map(turned));
    let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
    let mut times: Vec<(Duration, String)> = Vec::new();
    let mut undecided = String::new();
    for question in numbers.filter_map(|number| families.question(number)) {
        let tally = tallies.entry(question.family).or_default();
        tally.claims += 1;
        let start = Instant::now();
        let Verdict { answer, stage } = judged(&question, Prover::new().with_second_attempt());
        times.push((start.elapsed(), question.text.clone()));
        if let Answer::Refuted(values) = &answer {
            assert!(
                brute::refutes(&question, values),
                "no counterexample: {values:?} of {}",
                question.text
            );
            tally.refuted += 1;
            continue;
        }
        let seen = brute::counterexample(&question);
        if answer == Answer::Proved {
            assert_eq!(seen, None, "proved, but false: {}", question.text);
            tally.proved += 1;
            tally.second += usize::from(stage == Stage::Thorough);
        } else if seen.is_none() {
            let solved = is_solved(&question);
            *if solved { &mut tally.by_solver } else { &mut tally.open } += 1;
            let who = if solved { "solver" } else { "open" };
            undecided += &format!("{who} {} {}\n", question.family, question.text);
        }
    }
    if let Ok(path) = std::env::var("RELAX_UNDECIDED") {
        std::fs::write(path, undecided).expect("the named file can be written");
    }
    report(&families, &tallies, times);
}

/// Prints a table, and compares the share with what it was.
fn report(
    families: &Families,
    tallies: &BTreeMap<&str, Tally>,
    mut times: Vec<(Duration, String)>,
) {
    times.sort();
    let mut total = Tally::default();
    eprintln!("{:10} claims refuted proved second solver open share", "family");
    for name in families.names() {
        let Some(tally) = tallies.get(name) else { continue };
        row(name, tally);
        total.claims += tally.claims;
        total.refuted += tally.refuted;
        total.proved += tally.proved;
        total.second += tally.second;
        total.by_solver += tally.by_solver;
        total.open += tally.open;
    }
    row("all", &total);
    let at = |share: usize| &times[(times.len() * share / 1000).min(times.len() - 1)];
    eprintln!("median {:?}, p99 {:?}, slowest {:?}", at(500).0, at(990).0, at(1000));
    let floor = SHARES[usize::from(!is_whole())];
    assert!(total.share() >= floor, "{} < {floor}", total.share());
}

fn row(name: &str, tally: &Tally) {
    let Tally { claims, refuted, proved, second, by_solver, open } = tally;
    let share = 100.0 * tally.share();
    eprintln!(
        "{name:10} {claims:6} {refuted:7} {proved:6} {second:6} {by_solver:6} {open:4} {share:6.2}"
    );
}
