//! Binds every nest of every tensor program to blocks and threads (`gpu.rs`), so that people can look at scheduled programs,
//! and every expectation of the corpus holds them.

use crate::gpu::{Choices, schedule_module};
use relax_rewrite::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{Definition, Module};

/// The record.
pub static PASS: Pass = Pass {
    name: "schedule_gpu",
    doc: "Binds the loops of tensor programs to blocks and threads of a device: each nest becomes a kernel, \
          and what nothing is told of runs in one thread.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P22,
    exactness: Exactness::Exact,
    run,
};

fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    schedule_all(module, context, PASS.exactness)
}

/// All tensor programs of a module.
// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
pub(super) fn schedule_all(
    module: &Module,
    context: &mut PassContext,
    exactness: Exactness,
) -> Result<Module, Diagnostic> {
    let is_program = |definition: &&Definition| matches!(definition, Definition::Tensor(_));
    let found = module.definitions.iter().filter(is_program).count();
    let products = context.settings.products.as_deref();
    let choices = Choices { products, ..Choices::of(context.settings.device, exactness) };
    let (result, done) = schedule_module(module, context.facts, &choices);
    context.count_of("scheduled", done, found, "tensor programs");
    Ok(result)
}
