//! The tensor programs of a file of the corpus: those of its text, and those that the pipeline makes of its functions.

use libtest_mimic::Failed;
use relax_lower::pipeline::PIPELINE;
use relax_program::frontend::Program;
use relax_program::well_formed_part::well_formed_part;
use relax_rewrite::canonical::canonical_program;
use relax_rewrite::pass::{Device, Settings};
use relax_rewrite::pipeline::{Unwatched, run};
use relax_semantics::check::Phase;
use relax_symbolic::Prover;
use relax_syntax::ir::{Definition, Module, TensorProgram};
use relax_syntax::span::Source;
use std::path::Path;

/// Programs with a text, none of them twice but for names.
pub(crate) fn programs_of(path: &Path) -> Result<Vec<TensorProgram>, Failed> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(Vec::new()) };
    let part = well_formed_part(&Program::load(Source::new("corpus", text.as_str())));
    let mut found = Vec::new();
    collect(&part, &mut found);
    let recorded = Phase::of_module(&part)?;
    if recorded < Phase::P21 {
        let route = PIPELINE.to(Phase::P21);
        let settings = Settings { device: Device::Cuda, ..Settings::default() };
        // What a pass refuses has no programs.
        if let Ok(module) = run(&part, &route, &settings, &mut Prover::new(), &mut Unwatched) {
            collect(&module, &mut found);
        }
    }
    Ok(found.into_iter().map(|(_, program)| program).collect())
}

fn collect(module: &Module, found: &mut Vec<(TensorProgram, TensorProgram)>) {
    for definition in &module.definitions {
        let Definition::Tensor(program) = definition else { continue };
        let canonical = canonical_program(program);
        if program.body.is_some() && found.iter().all(|(known, _)| *known != canonical) {
            found.push((canonical, program.clone()));
        }
    }
}
