//! Every tensor program of the corpus and of the pipeline's results on it.

use relax_corpus::files;
use relax_lower::pipeline::PIPELINE;
use relax_program::frontend::Program;
use relax_program::well_formed_part::well_formed_part;
use relax_rewrite::canonical::canonical_program;
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::{Unwatched, run};
use relax_semantics::check::Phase;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::ir::{Definition, Module, TensorProgram};
use relax_syntax::span::Source;
use std::collections::BTreeSet;

/// Every tensor program of the corpus and of what the passes make of it, once up to names.
pub(super) fn programs() -> Vec<TensorProgram> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for path in files::programs() {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let program = Program::load(Source::new("corpus", text.as_str()));
        let part = well_formed_part(&program);
        let lowered = run(
            &part,
            &PIPELINE.to(Phase::P23),
            &Settings::default(),
            &mut Prover::new(),
            &mut Unwatched,
        );
        for module in std::iter::once(part).chain(lowered.ok()) {
            take(&module, &mut seen, &mut found);
        }
    }
    found
}

/// Those of a module that are not seen yet but for places in the text.
pub(super) fn take(module: &Module, seen: &mut BTreeSet<String>, found: &mut Vec<TensorProgram>) {
    for definition in &module.definitions {
        if let Definition::Tensor(program) = definition
            && seen.insert(format!("{:?}", placeless(program)))
        {
            let name = Name::new(format!("{}_{}", program.name, found.len()));
            found.push(TensorProgram { name, ..program.clone() });
        }
    }
}

/// Without names and places.
fn placeless(program: &TensorProgram) -> String {
    let text = format!("{:?}", canonical_program(program));
    let mut plain = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("Span {") {
        plain.push_str(&rest[..at]);
        rest = rest[at..].find('}').map_or("", |end| &rest[at + end + 1..]);
    }
    plain + rest
}
