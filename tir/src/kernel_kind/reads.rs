//! Access patterns: where a nest reads its inputs, seen from where it writes.

use super::Read;
use super::nest::Nest;
use relax_semantics::tir::walk::visit;
use relax_syntax::dim::Dim;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, TExpr};

/// Each load, in the order of the text. `None` when an element that is read decides where something
/// is read, or the output is.
pub(crate) fn reads_of(program: &TensorProgram, nest: &Nest) -> Option<Vec<(BufferId, Read)>> {
    let mut loads = Vec::new();
    for expr in &nest.read {
        visit(expr, &mut |part| {
            if let TExpr::Load { buffer, indices } = part {
                loads.push((*buffer, indices));
            }
        });
    }
    // The value so far of an accumulation is no input.
    loads.retain(|(buffer, indices)| {
        !(nest.is_reduction() && *buffer == nest.output && is_same(nest, indices))
    });
    let reads = loads.into_iter().map(|(buffer, indices)| {
        let shape = &program.buffer(buffer).shape;
        let read = read(nest, indices, shape, &program.buffer(nest.output).shape)?;
        (buffer != nest.output).then_some((buffer, read))
    });
    reads.collect()
}

fn read(nest: &Nest, indices: &[TExpr], shape: &[Dim], output: &[Dim]) -> Option<Read> {
    let mut reduced = false;
    for index in indices {
        let sources = nest.scalars.sources(index);
        if !sources.buffers.is_empty() {
            return None;
        }
        reduced |= !sources.loops.is_disjoint(&nest.reduced);
    }
    Some(if reduced {
        Read::Reduced
    } else if shape == output && is_same(nest, indices) {
        Read::Same
    } else if is_part(nest, indices, shape) {
        Read::Part
    } else {
        Read::Mapped
    })
}

fn is_same(nest: &Nest, indices: &[TExpr]) -> bool {
    indices.iter().zip(&nest.written).all(|(index, written)| match written {
        Some(var) => nest.scalars.lone(index) == Some(*var),
        None => nest.scalars.is_zero(index),
    })
}

/// Some of the indices that are written, in their order, each through the whole extent.
fn is_part(nest: &Nest, indices: &[TExpr], shape: &[Dim]) -> bool {
    let mut written = nest.written.iter().flatten();
    indices.iter().zip(shape).all(|(index, extent)| {
        if nest.scalars.is_zero(index) {
            return *extent == Dim::Int(1);
        }
        let Some(var) = nest.scalars.lone(index) else { return false };
        nest.extents.get(&var) == Some(extent) && written.any(|written| *written == var)
    })
}
