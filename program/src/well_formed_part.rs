//! Error recovery: the well-formed definitions of a program. Corpus files about errors also have functions that
//! run.

use crate::frontend::Program;
use relax_semantics::check::{Phase, check};
use relax_symbolic::Prover;
use relax_syntax::diagnostic::{Diagnostic, Severity};
use relax_syntax::ir::{Definition, Module};

/// The module without the definitions in which something is wrong, and without those that are wrong
/// for lack of them.
#[must_use]
pub fn well_formed_part(program: &Program) -> Module {
    let mut module = program.module.clone();
    let mut diagnostics = program.diagnostics.clone();
    let phase = Phase::of_module(&module).unwrap_or(Phase::Surface);
    loop {
        let Some(wrong) = wrong_definitions(&module, &diagnostics) else {
            return Module::default();
        };
        if wrong.is_empty() {
            return module;
        }
        let mut index = 0;
        module.definitions.retain(|_| {
            index += 1;
            !wrong.contains(&(index - 1))
        });
        let checked = check(&module, &mut Prover::new(), phase);
        (module, diagnostics) = (checked.module, checked.diagnostics);
    }
}

/// The definitions in which errors stand; `None` when one stands outside of them.
fn wrong_definitions(module: &Module, diagnostics: &[Diagnostic]) -> Option<Vec<usize>> {
    let mut wrong = Vec::new();
    for error in diagnostics.iter().filter(|d| d.severity == Severity::Error) {
        // A definition reaches from its header to the next one.
        let at = error.primary.span.start;
        let before = |definition: &Definition| definition.span().start <= at;
        match module.definitions.iter().rposition(before) {
            Some(index) if !wrong.contains(&index) => wrong.push(index),
            Some(_) => {}
            None => return None,
        }
    }
    Some(wrong)
}
