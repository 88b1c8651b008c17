//! Which tensor programs never stop on inputs of the right shapes whose elements are all written.

use super::nest::Nest;
use super::reads::reads_of;
use super::values::visit;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::Class;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BinOp, Intrinsic, Param, TExpr};

/// What is known of a program that never stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Every element of its output is written, whatever the dims are.
    pub(crate) writes_all: bool,
}

impl Totals {
    /// `None`: it may stop. Known is it of a nest whose reads are at loop variables that go through
    /// the very extent that they index, with no operation that some operands have no value for.
    pub(crate) fn of(program: &TensorProgram) -> Option<Self> {
        let nest = Nest::of(program)?;
        reads_of(program, &nest)?;
        let plain_dims = nest.extents.values().chain(program.buffers.iter().flat_map(|b| &b.shape));
        let only_buffers = program.params.iter().all(|param| matches!(param, Param::Buffer(_)));
        let total = only_buffers
            && !nest.has_axes
            && program.dims.iter().all(|dim| !dim.has_facts())
            && plain_dims.into_iter().all(|dim| matches!(dim, Dim::Var(_) | Dim::Int(0..)))
            && nest.read.iter().all(|expr| is_total(program, &nest, expr));
        total.then_some(Totals { writes_all: nest.runs_for_each_output() })
    }
}

fn is_total(program: &TensorProgram, nest: &Nest, expr: &TExpr) -> bool {
    let floats = program.buffers.iter().all(|buffer| buffer.dtype.class() == Class::Float);
    let mut total = true;
    visit(expr, &mut |part| {
        total &= match part {
            TExpr::Load { buffer, indices } => {
                indices.iter().zip(&program.buffer(*buffer).shape).all(|(index, extent)| {
                    let var = nest.scalars.lone(index);
                    (nest.scalars.is_zero(index) && matches!(extent, Dim::Int(1..)))
                        || var.is_some_and(|var| nest.extents.get(&var) == Some(extent))
                })
            }
            TExpr::Binary(op, _) => match op {
                BinOp::FloorDiv | BinOp::Mod | BinOp::ShiftLeft | BinOp::ShiftRight => false,
                BinOp::Div => floats,
                _ => true,
            },
            TExpr::Call(intrinsic, _) => *intrinsic != Intrinsic::Pow,
            // Arithmetic on dims may leave i64.
            TExpr::Dim(_) => false,
            _ => true,
        };
    });
    total
}
