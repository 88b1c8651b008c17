//! stub
use crate::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::Module;
/// The record.
pub static PASS: Pass = Pass {
    name: "lift_lambdas",
    doc: "",
    from: Phase::Surface,
    to: Phase::P0,
    exactness: Exactness::Exact,
    run,
};
fn run(module: &Module, _context: &mut PassContext) -> Result<Module, Diagnostic> {
    Ok(module.clone())
}
