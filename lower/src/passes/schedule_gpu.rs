//! Binds every nest of every tensor program to blocks and threads (`gpu.rs`), so that people can look at scheduled programs,
//! and every expectation of the corpus holds them.

use crate::gpu::{Limits, schedule};
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
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut result = module.clone();
    let (mut done, mut found) = (0, 0);
    for definition in &mut result.definitions {
        let Definition::Tensor(program) = definition else { continue };
        found += 1;
        if let Some(scheduled) = schedule(program, context.facts, Limits::default()) {
            done += 1;
            *program = scheduled;
        }
    }
    context.count_of("scheduled", done, found, "tensor programs");
    Ok(result)
}
