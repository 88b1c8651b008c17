//! Which buffers a tensor program stores to.

use relax_rewrite::walk::stored;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::Param;

/// For each buffer among the parameters, in their order, whether the program may write to it.
pub(crate) fn written(program: &TensorProgram) -> Vec<bool> {
    let stored = stored(program.body.as_deref().unwrap_or(&[]));
    let buffers = program.params.iter().filter_map(|param| match param {
        Param::Buffer(id) => Some(stored.contains(id)),
        Param::Scalar(_) | Param::Dim(_) => None,
    });
    buffers.collect()
}
