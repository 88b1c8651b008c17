//! As `schedule_gpu`, where rows may be summed in another order: by the threads of a block, in a tree (`gpu/rows.rs`).

use super::schedule_gpu::schedule_all;
use relax_rewrite::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::Module;

/// The record.
pub static PASS: Pass = Pass {
    name: "schedule_gpu_freely",
    doc: "Binds the loops of tensor programs to blocks and threads of a device, and reduces rows by trees in \
          shared memory: nests over the same rows are one kernel, as in softmax and normalizations.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P22,
    exactness: Exactness::Approximate,
    run,
};

fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    schedule_all(module, context, PASS.exactness)
}
