//! Tensor programs with every float as an f64.

use super::widened_type;
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{Axis, Loop, Stmt, StmtKind, TExpr};

/// Buffers, scalars and casts are of f64. Literals take the dtype of the other side, as before.
pub(super) fn widened_program(program: &TensorProgram) -> TensorProgram {
    let mut made = program.clone();
    for buffer in &mut made.buffers {
        buffer.dtype = widened_type(buffer.dtype);
    }
    for scalar in &mut made.scalars {
        scalar.dtype = scalar.dtype.map(widened_type);
    }
    made.body.iter_mut().flatten().for_each(statement);
    made
}

fn statement(found: &mut Stmt) {
    match &mut found.kind {
        StmtKind::For { loops, body, .. } => {
            for Loop { start, stop, .. } in loops {
                expression(start);
                expression(stop);
            }
            body.iter_mut().for_each(statement);
        }
        StmtKind::Block { axes, init, body, .. } => {
            for Axis { extent, value, .. } in axes {
                expression(extent);
                expression(value);
            }
            init.iter_mut().chain(body).for_each(statement);
        }
        StmtKind::Store { indices, value, .. } => {
            indices.iter_mut().chain([value]).for_each(expression);
        }
        StmtKind::Let { value, .. } => {
            // Alone it is an f32.
            if let TExpr::Float(_) = value {
                *value = TExpr::Cast(DType::F64, Box::new(value.clone()));
            }
            expression(value);
        }
        StmtKind::If { condition, then, otherwise } => {
            expression(condition);
            then.iter_mut().chain(otherwise).for_each(statement);
        }
        StmtKind::Check(check) => {
            [&mut check.condition].into_iter().chain(&mut check.values).for_each(expression);
        }
        StmtKind::Alloc(_) | StmtKind::Barrier => {}
    }
}

fn expression(found: &mut TExpr) {
    match found {
        TExpr::Load { indices, .. } => indices.iter_mut().for_each(expression),
        TExpr::Unary(_, operand) => expression(operand),
        TExpr::Binary(_, operands) => {
            expression(&mut operands.0);
            expression(&mut operands.1);
        }
        TExpr::Select(operands) => {
            expression(&mut operands.0);
            expression(&mut operands.1);
            expression(&mut operands.2);
        }
        TExpr::Cast(dtype, operand) => {
            *dtype = widened_type(*dtype);
            expression(operand);
        }
        TExpr::Call(_, operands) => operands.iter_mut().for_each(expression),
        TExpr::Int(_) | TExpr::Float(_) | TExpr::Bool(_) | TExpr::Scalar(_) | TExpr::Dim(_) => {}
    }
}
