//! The tensor program of each operator is proved to be the operator, for all shapes: the calls of
//! `legalized_cases`, whose dims are symbols. `legalized_proofs.txt` says of each operator in how many of its
//! calls that is so, and why not in the others; `RELAX_BLESS=1` writes it, and what is proved there must stay
//! proved.

mod legalized_cases;

use legalized_cases::{Case, cases};
use relax_program::frontend::Program;
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::{PIPELINE, Unwatched, run};
use relax_symbolic::Prover;
use relax_syntax::facts::Facts;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use relax_theorems::validation::{Outcome, validate};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const LOCK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/legalized_proofs.txt");

fn prover() -> Box<dyn Facts> {
    Box::new(Prover::new())
}

fn after(before: &Module) -> Module {
    let route = PIPELINE.named("legalize_ops").expect("the pass is there");
    run(before, &route, &Settings::default(), &mut Prover::new(), &mut Unwatched)
        .unwrap_or_else(|_| panic!("the pass fails"))
}

fn normalized(text: &str) -> Module {
    let program = Program::load(Source::new("case", text));
    let route = PIPELINE.named("normalize").expect("the pass is there");
    run(&program.module, &route, &Settings::default(), &mut Prover::new(), &mut Unwatched)
        .unwrap_or_else(|_| panic!("the pass fails: {text}"))
}

fn outcome(case: &Case, dtype: &str) -> Outcome {
    let before = normalized(&case.text(dtype));
    let findings = validate(&before, &after(&before), STEPS, &mut prover);
    findings.into_iter().next().map_or(Outcome::Unproved("nothing".into()), |found| found.outcome)
}

/// Steps of one comparison: many more than a certificate spends, for here each operator is compared once.
const STEPS: u64 = 20_000_000;
/// Dtypes of a call that are tried: shapes are what differs most.
const MOST_DTYPES: usize = 1;

/// How many calls of an operator there are, how many are proved, and why the first other one is not.
#[derive(Default)]
struct Tally {
    proved: usize,
    all: usize,
    why: Option<String>,
}

#[test]
fn programs_are_proved_to_be_their_operators() {
    let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
    let wanted = std::env::var("RELAX_ROW").ok();
    for case in cases().filter(|case| wanted.as_ref().is_none_or(|row| row == case.row)) {
        for dtype in case.dtypes.iter().take(MOST_DTYPES) {
            let tally = tallies.entry(case.row).or_default();
            tally.all += 1;
            match outcome(case, dtype) {
                Outcome::Proved => tally.proved += 1,
                Outcome::Unproved(why) | Outcome::Refuted(why) => {
                    if wanted.is_some() {
                        eprintln!("{} {dtype}: {why}", case.call);
                    }
                    let call = format!("{} {dtype}: {}", case.call, why.replace('\n', " "));
                    tally.why.get_or_insert(call);
                }
            }
        }
    }
    if wanted.is_some() {
        return;
    }
    let whole = tallies.values().filter(|tally| tally.proved == tally.all).count();
    let mut lines = format!(
        "# Operators whose tensor programs are proved to be the operator, of all calls that are tried:\n\
         # {whole} of {} operators in every call.\n",
        tallies.len()
    );
    for (row, Tally { proved, all, why }) in &tallies {
        let why = why.as_ref().map_or(String::new(), |why| format!(" | {why}"));
        let _ = writeln!(lines, "{row} {proved}/{all}{why}");
    }
    if std::env::var_os("RELAX_BLESS").is_some() {
        std::fs::write(LOCK, &lines).expect("the file can be written");
        return;
    }
    let known = std::fs::read_to_string(LOCK).expect("the file is there");
    for line in known.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let (Some(row), Some(share)) = (words.next(), words.next()) else { continue };
        let before: usize = share.split('/').next().and_then(|n| n.parse().ok()).expect("a share");
        let now = tallies.get(row).map_or(0, |tally| tally.proved);
        assert!(
            now >= before,
            "{row}: {now} calls are proved, it were {before}: {:?}",
            tallies[row].why
        );
    }
}
