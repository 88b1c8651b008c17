//! As `schedule_gpu_freely`, where products of f16 and of bf16 may be summed in f32 as well: in blocks that tensor cores multiply
//! (`gpu/warps.rs`).

use super::schedule_gpu::schedule_all;
use relax_rewrite::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Module;

/// The record.
pub static PASS: Pass = Pass {
    name: "schedule_tensor_cores",
    doc: "Binds the loops of tensor programs to blocks and threads of a device, reduces rows by trees in shared memory, and \
          sums products of f16 and of bf16 in f32, in blocks of 16 rows and 8 columns that tensor cores multiply.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P22,
    exactness: Exactness::Rounded(DType::F32),
    run,
};

fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    schedule_all(module, context, PASS.exactness)
}
