//! What proofs take operators to be, for all shapes: the calls of `legalized_cases`, whose dims are symbols.
//!
//! A proof about a compilation takes an operator to be the tensor program of its row, which `legalized` holds against the
//! operator in the interpreter. First it is proved that calls mean the same after `legalize_ops`; then, that rules of
//! rewriting, which have a meaning of their own, see in an element of the call what the program computes.
//! `legalized_proofs.txt` says of each operator in how many of its calls both are so, and why not in the others;
//! `RELAX_BLESS=1` writes it, and what is proved there must stay proved.

mod legalized_cases;

use legalized_cases::{Case, cases};
use relax_program::frontend::Program;
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::{PIPELINE, Unwatched, run};
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::dtype::DType;
use relax_syntax::facts::Facts;
use relax_syntax::ir::tensor::BufferId;
use relax_syntax::ir::{Module, TensorProgram};
use relax_syntax::span::Source;
use relax_theorems::validation::{Outcome, compare_meanings, validate};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

const LOCK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/legalized_proofs.txt");

fn prover() -> Box<dyn Facts> {
    Box::new(Prover::new())
}

/// What programs leave in elements is compared here; that they read no uninitialized ones is an obligation of certificates.
fn initialized(
    _: &TensorProgram,
    empty: &BTreeSet<BufferId>,
    _: &mut dyn Facts,
) -> Option<BTreeSet<BufferId>> {
    Some(empty.clone())
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

/// Whether the call means the same as a call of its tensor program.
fn legalized(case: &Case, dtype: &str) -> Outcome {
    let before = normalized(&case.text(dtype));
    let findings = validate(&before, &after(&before), STEPS, &mut prover, initialized);
    findings.into_iter().next().map_or(Outcome::Unproved("nothing".into()), |found| found.outcome)
}

/// Whether rules see the call as its tensor program computes it.
fn seen(case: &Case, dtype: &str) -> Outcome {
    let module = normalized(&case.text(dtype));
    let function = module.function(&Name::new("f")).expect("the function of a case");
    let mut own = compare_meanings(&module, function, &mut prover).into_iter();
    let found = own.find(|(row, _)| *row == case.row);
    found.map_or(Outcome::Unproved("no call with known dims".into()), |(_, outcome)| outcome)
}

/// Steps of one comparison: many more than a certificate spends, for here each operator is compared once.
const STEPS: u64 = 20_000_000;

/// The first dtype, and the first one of integers: sums of floats are rounded, which rules do not see.
fn dtypes(case: &Case) -> impl Iterator<Item = &'static str> {
    let is_integer = |dtype: &&&str| DType::parse(dtype).is_some_and(DType::is_integer);
    let integers = case.dtypes.iter().skip(1).find(is_integer);
    case.dtypes.first().into_iter().chain(integers).copied()
}

/// How many calls of an operator there are, how many are proved, and why the first other one is not.
#[derive(Default)]
struct Tally {
    proved: usize,
    all: usize,
    why: Option<String>,
}

impl Tally {
    fn count(&mut self, case: &Case, dtype: &str, outcome: Outcome) {
        self.all += 1;
        match outcome {
            Outcome::Proved => self.proved += 1,
            Outcome::Unproved(why) | Outcome::Refuted(why) => {
                let call = format!("{} {dtype}: {}", case.call, why.replace('\n', " "));
                self.why.get_or_insert(call);
            }
        }
    }

    fn is_whole(&self) -> bool {
        self.proved == self.all
    }
}

/// What is known of the calls of an operator.
#[derive(Default)]
struct Row {
    legalized: Tally,
    seen: Tally,
}

fn written(rows: &BTreeMap<&str, Row>) -> String {
    let whole =
        |tally: fn(&Row) -> &Tally| rows.values().filter(|row| tally(row).is_whole()).count();
    let mut lines = format!(
        "# Operators, with the calls that are proved to mean the same after `legalize_ops`, and those that rules see as the\n\
         # program computes them. Of {} operators {} and {} in every call.\n",
        rows.len(),
        whole(|row| &row.legalized),
        whole(|row| &row.seen),
    );
    for (name, Row { legalized, seen }) in rows {
        let why = [&legalized.why, &seen.why].into_iter().flatten();
        let why: String = why.map(|why| format!(" | {why}")).collect();
        let (a, b) = (legalized, seen);
        let _ = writeln!(lines, "{name} {}/{} {}/{}{why}", a.proved, a.all, b.proved, b.all);
    }
    lines
}

#[test]
fn programs_are_proved_to_be_their_operators() {
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    for case in cases() {
        let row = rows.entry(case.row).or_default();
        for dtype in dtypes(case) {
            row.legalized.count(case, dtype, legalized(case, dtype));
            row.seen.count(case, dtype, seen(case, dtype));
        }
    }
    if std::env::var_os("RELAX_BLESS").is_some() {
        std::fs::write(LOCK, written(&rows)).expect("the file can be written");
        return;
    }
    let known = std::fs::read_to_string(LOCK).expect("the file is there");
    for line in known.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let name = words.next().expect("a line has a name");
        let now = rows.get(name).unwrap_or_else(|| panic!("{name} has no case"));
        for (tally, share) in [&now.legalized, &now.seen].into_iter().zip(words) {
            let before = share.split('/').next().and_then(|count| count.parse().ok());
            let before: usize = before.unwrap_or_else(|| panic!("{line}: a share is expected"));
            let found = tally.proved;
            assert!(found >= before, "{name}: {found}, it were {before}: {:?}", tally.why);
        }
    }
}
