//! Storages and the tensors in them, by the obligations of certificates (`relax_validation::memory`).

use relax_semantics::check::{Phase, codes};
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::facts::Facts;
use relax_syntax::ir::Module;
use relax_validation::answers::Source;
use relax_validation::heaps::raised;
use relax_validation::memory::Question;
use relax_validation::memory::demands::{MemoryDemand, memory_demands};
use relax_validation::obligation::Outcome;
use std::collections::BTreeMap;

/// Provers whose answers nobody replays.
struct Provers;

impl Source for Provers {
    fn facts(&mut self) -> Box<dyn Facts> {
        Box::new(Prover::new())
    }

    fn was_trusted(&mut self) -> bool {
        false
    }
}

/// What is refuted, and what is open. From P2.2 on one warning stands for all questions of a kind that are open in a function:
/// storages may come from another one, and sizes from a heap that is not followed.
pub(super) fn demands(module: &Module, phase: Phase) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    let mut told: BTreeMap<(Name, &'static str), (usize, usize)> = BTreeMap::new();
    for demand in memory_demands(&raised(module), &mut Provers) {
        let is_open = matches!(demand.outcome, Outcome::Unproved(_));
        if phase >= Phase::P22 && is_open {
            let key = (demand.function.clone(), demand.question.text());
            if let Some((_, more)) = told.get_mut(&key) {
                *more += 1;
                continue;
            }
            told.insert(key, (found.len(), 0));
        }
        found.push(diagnostic(module, &demand));
    }
    for ((function, _), (at, more)) in told.into_iter().filter(|(_, (_, more))| *more > 0) {
        let note = format!("{more} more such questions are open in `{function}`");
        found[at].notes.push(note);
    }
    found
}

fn diagnostic(module: &Module, demand: &MemoryDemand) -> Diagnostic {
    let MemoryDemand { function, place, binding, other, question, outcome } = demand;
    let function = module.function(function).expect("invariant: demands are about functions");
    let span_of = |var: &relax_syntax::ir::VarId| function.var(*var).span;
    let other = other.as_ref().map(span_of);
    let span = binding.as_ref().map(span_of).or(other).unwrap_or(function.span);
    let place = format!("`{place}`");
    let found = match outcome {
        Outcome::Refuted(why) if *question == Question::Released && binding.is_none() => {
            refuted(*question, &place, why, span).with_label("a result after its release")
        }
        Outcome::Refuted(why) => refuted(*question, &place, why, span),
        outcome => {
            let why = match outcome {
                Outcome::Unproved(why) => why.as_str(),
                _ => "no proof",
            };
            let message = match question {
                Question::Followed => format!("what becomes of {place} is not followed: {why}"),
                question => format!("it is not decided whether {place} {}: {why}", question.text()),
            };
            let found = Diagnostic::error(codes::OPEN, span, message);
            found.as_warning().with_label("the interpreter checks it when the program runs")
        }
    };
    match other.filter(|other| *other != span) {
        Some(other) if *question == Question::Apart => found.with_place(other, "in use as well"),
        Some(other) if *question == Question::Released => found.with_place(other, "allocated here"),
        _ => found,
    }
}

fn refuted(
    question: Question,
    place: &str,
    why: &str,
    span: relax_syntax::span::Span,
) -> Diagnostic {
    let (code, message, label) = match question {
        Question::Inside => (
            codes::OUTSIDE,
            format!("tensor {place} lies outside of its storage: {why}"),
            "larger than its storage, or before it",
        ),
        Question::Apart => (
            codes::OVERLAP,
            format!("tensor {place} shares bytes with {why}"),
            "over a tensor that is in use",
        ),
        Question::Released => {
            (codes::AFTER_RELEASE, format!("{place} was released: {why}"), "after the release")
        }
        Question::Freed => (
            codes::LEAK,
            format!("storage {place} is not released on every way: {why}"),
            "taken here",
        ),
        Question::Written | Question::Followed => (codes::OPEN, format!("{place}: {why}"), "here"),
    };
    let found = Diagnostic::error(code, span, message).with_label(label);
    if code == codes::LEAK {
        return found.with_help(format!(
            "write `memory.kill_storage({})` after its last use",
            place.trim_matches('`')
        ));
    }
    found
}
