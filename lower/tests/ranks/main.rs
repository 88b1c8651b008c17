//! Certificates of local programs: each is proved, and none with a bug is.

#[path = "../../../sharding/tests/spmd/branching.rs"]
mod branching;
#[path = "../../../sharding/tests/spmd/bugs.rs"]
mod bugs;
#[path = "../../../sharding/tests/spmd/choosing.rs"]
mod choosing;
mod control;
#[path = "../../../sharding/tests/spmd/edits.rs"]
mod edits;
#[path = "../../../sharding/tests/spmd/pipelines.rs"]
mod pipelines;
#[expect(dead_code, reason = "arguments are for runs, and nothing runs here")]
#[path = "../../../sharding/tests/spmd/programs.rs"]
mod programs;
mod stages;
mod symbolic;
mod table;

use bugs::BUGS;
use edits::{Edit, Kind, edited};
use programs::{Case, case, cases};
use relax_corpus::sample::Sample;
use relax_lower::certify::certified;
use relax_program::frontend::{Program, print};
use relax_sharding::lower::lower;
use relax_sharding::propagate::propagate;
use relax_symbolic::Prover;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use relax_validation::certificate::{Certificate, Header};
use relax_validation::check::verify;
use relax_validation::derive::Stage;
use relax_validation::obligation::Outcome;
use relax_validation::ranks::RANKS;
use relax_validation::report;
use std::collections::{BTreeMap, BTreeSet};

/// A program with its local program.
struct Sharded {
    global: Module,
    /// The text of the local program.
    text: String,
}

impl Sharded {
    /// Of the first function of a module; why it is not sharded.
    fn of(global: Module) -> Result<Self, Diagnostic> {
        let function = global.functions().next().expect("the module has a function");
        let plan = propagate(&global, function, &BTreeMap::new(), &mut Prover::new())?;
        let local = lower(&global, function, &plan, &mut Prover::new());
        Ok(Self { text: print(&local), global })
    }
}

fn sharded(case: &Case) -> Sharded {
    of_text(&case.text)
}

fn of_text(text: &str) -> Sharded {
    let program = Program::load(Source::new("program", text));
    Sharded::of(program.module).unwrap_or_else(|refused| panic!("{refused:?}\n{text}"))
}

/// The certificate of a local program; why there is none where its text is no program.
fn certificate(sharded: &Sharded, local: &str) -> Result<Certificate, String> {
    let header = Header { route: RANKS.to_owned(), target: "any target".to_owned(), tested: 0 };
    let input = Stage::read("input", &print(&sharded.global)).expect("a program");
    Ok(certified(header, vec![input, Stage::read(RANKS, local)?]))
}

/// What is not proved.
fn open(certificate: &Certificate) -> Vec<String> {
    let is_open = |outcome: &Outcome| !matches!(outcome, Outcome::Proved | Outcome::Trusted);
    let open = certificate.obligations.iter().filter(|each| is_open(&each.outcome));
    open.map(report::line).collect()
}

/// Whether a local program, which may be another one, is proved.
fn is_proved(sharded: &Sharded, local: &str) -> bool {
    certificate(sharded, local).is_ok_and(|made| open(&made).is_empty())
}

/// The bugs by rule of local programs.
fn bugs_by_rule(all: &[Sharded]) -> Vec<(&Sharded, Edit)> {
    let mut bugs = Vec::new();
    for sharded in all {
        let local = Program::load(Source::new("local", &*sharded.text)).module;
        bugs.extend(edited(&local).into_iter().map(|edit| (sharded, edit)));
    }
    bugs
}

#[test]
fn local_programs_are_proved_for_all_dims() {
    demand_proofs(cases());
}

/// Demands that local programs are proved, and that their certificates are replayed.
fn demand_proofs(cases: Vec<Case>) {
    let mut wrong = Vec::new();
    for case in cases {
        let sharded = sharded(&case);
        let certificate = certificate(&sharded, &sharded.text).expect("a program");
        let open = open(&certificate);
        if !open.is_empty() {
            wrong.push(format!("{}: {open:#?}\n{}\n{}", case.name, case.text, sharded.text));
            continue;
        }
        let verified = verify(&certificate.text(), Some(&sharded.text));
        assert_eq!(verified.map(|verified| verified.obligations), Ok(certificate.obligations));
    }
    assert!(wrong.is_empty(), "{} open: {}", wrong.len(), wrong.join("\n"));
}

#[test]
fn no_seeded_bug_is_proved() {
    let mut proved = Vec::new();
    for &(name, mesh, what, old, new) in BUGS {
        let sharded = sharded(&case(name, mesh));
        assert_eq!(sharded.text.matches(old).count(), 1, "{what} in {name} on {mesh}");
        let edited = sharded.text.replace(old, new);
        if is_proved(&sharded, &edited) {
            proved.push(format!("{what} in {name} on {mesh}"));
        }
    }
    assert!(proved.is_empty(), "{proved:#?}");
}

/// All values are right, but the declared result does not always fit them.
#[test]
fn a_program_with_a_check_of_its_own_is_not_proved() {
    let sharded = sharded(&case("megatron, columns", "2"));
    assert_eq!(sharded.text.matches("):\n").count(), 1, "{}", sharded.text);
    let checked = sharded.text.replace("):\n", ") -> Tensor((\"f\", 4), \"f32\"):\n");
    let open = open(&certificate(&sharded, &checked).expect("a program"));
    assert!(open.iter().any(|line| line.contains("a rank may stop")), "{open:#?}\n{checked}");
}

#[test]
fn no_bug_by_rule_is_proved() {
    let texts: BTreeSet<String> = cases().into_iter().map(|case| case.text).collect();
    let all: Vec<Sharded> = texts.iter().map(|text| of_text(text)).collect();
    let mut bugs = bugs_by_rule(&all);
    let mut seen = BTreeSet::new();
    bugs.retain(|(_, edit)| seen.insert(edit.text.clone()));
    let mut kinds: BTreeMap<Kind, usize> = BTreeMap::new();
    let mut proved = Vec::new();
    for (sharded, edit) in Sample::of("bugs of ranks that are certified", 16).take(bugs) {
        *kinds.entry(edit.kind).or_default() += 1;
        if is_proved(sharded, &edit.text) {
            proved.push(format!("{}\n{}", edit.what, edit.text));
        }
    }
    eprintln!("{} bugs: {kinds:?}", kinds.values().sum::<usize>());
    assert!(proved.is_empty(), "{}", proved.join("\n"));
}
