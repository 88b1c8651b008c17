//! Every tensor program of the corpus and of the pipeline's results on it.

use relax_corpus::files;
use relax_corpus::par_map::par_map_chunks;
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
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Every tensor program of the corpus and of what the passes make of it, once up to names: found once for all tests.
pub(super) fn programs() -> &'static [TensorProgram] {
    static PROGRAMS: OnceLock<Vec<TensorProgram>> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let files: Vec<(usize, PathBuf)> = files::programs().into_iter().enumerate().collect();
        let shares = par_map_chunks(files, |share| {
            share.iter().map(|(at, path)| (*at, modules(path))).collect::<Vec<_>>()
        });
        let mut modules: Vec<(usize, Vec<Module>)> = shares.into_iter().flatten().collect();
        modules.sort_by_key(|(at, _)| *at);
        let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
        for module in modules.iter().flat_map(|(_, modules)| modules) {
            take(module, &mut seen, &mut found);
        }
        found
    })
}

/// What is well-formed of a file, and what the passes make of it.
fn modules(path: &Path) -> Vec<Module> {
    let Ok(text) = std::fs::read_to_string(path) else { return Vec::new() };
    let part = well_formed_part(&Program::load(Source::new("corpus", text.as_str())));
    let lowered = run(
        &part,
        &PIPELINE.to(Phase::P23),
        &Settings::default(),
        &mut Prover::new(),
        &mut Unwatched,
    );
    std::iter::once(part).chain(lowered.ok()).collect()
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
