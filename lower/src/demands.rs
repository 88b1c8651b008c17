//! Demands of phases that need a prover or the passes: from P2.1 on memory is right, and nothing that the pipeline compiles
//! is called by name. Deduction alone (`relax_semantics::check`) cannot tell.

mod by_name;
mod memory;
mod restored;

use relax_semantics::check::Phase;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::Module;

/// What a well-formed module of a phase does against its demands: errors where that is certain, warnings where nothing
/// decides it. In the order of the text.
#[must_use]
pub fn demands(module: &Module, phase: Phase) -> Vec<Diagnostic> {
    if phase < Phase::P21 {
        return Vec::new();
    }
    let mut found = memory::demands(module, phase);
    found.extend(by_name::demands(module, phase));
    found.sort_by(|a, b| (a.primary.span, a.code).cmp(&(b.primary.span, b.code)));
    found
}
