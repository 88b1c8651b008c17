//! Which buffers a tensor program stores to.

use relax_semantics::tir::walk::stored;
use relax_syntax::ir::TensorProgram;

/// For each buffer among the parameters, in their order, whether the program may write to it.
pub(crate) fn written(program: &TensorProgram) -> Vec<bool> {
    let stored = stored(program.body.as_deref().unwrap_or(&[]));
    program.buffer_params().map(|id| stored.contains(&id)).collect()
}
