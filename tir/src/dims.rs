//! Dims as index expressions and back.

use relax_semantics::tir::ranges::dim_op;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::ir::tensor::{BinOp, ScalarId, TExpr, UnOp};

/// A dim as an expression of a program that binds its variables. Neutral operands are left out, so that an
/// extent has the form in which programs spell it.
#[must_use]
pub fn as_expr(dim: &Dim) -> TExpr {
    let (op, operands) = match dim {
        Dim::Int(value) => return TExpr::Int(*value),
        Dim::Var(name) => return TExpr::Dim(name.clone()),
        Dim::Op(op, operands) => (*op, operands),
    };
    let (a, b) = (as_expr(&operands.0), as_expr(&operands.1));
    match (op, &a, &b) {
        (DimOp::Add, TExpr::Int(0), _) | (DimOp::Mul, TExpr::Int(1), _) => b,
        (DimOp::Add | DimOp::Sub, _, TExpr::Int(0)) => a,
        (DimOp::Mul | DimOp::FloorDiv | DimOp::CeilDiv, _, TExpr::Int(1)) => a,
        (DimOp::Add, ..) => TExpr::binary(BinOp::Add, a, b),
        (DimOp::Sub, ..) => TExpr::binary(BinOp::Sub, a, b),
        (DimOp::Mul, ..) => TExpr::binary(BinOp::Mul, a, b),
        (DimOp::FloorDiv, ..) => TExpr::binary(BinOp::FloorDiv, a, b),
        (DimOp::FloorMod, ..) => TExpr::binary(BinOp::Mod, a, b),
        (DimOp::Min, ..) => TExpr::binary(BinOp::Min, a, b),
        (DimOp::Max, ..) => TExpr::binary(BinOp::Max, a, b),
        (DimOp::CeilDiv, ..) => negated(TExpr::binary(BinOp::FloorDiv, negated(a), b)),
    }
}

/// The sign of a literal belongs to it, as in text.
fn negated(expr: TExpr) -> TExpr {
    match expr {
        TExpr::Int(value) if value != i64::MIN => TExpr::Int(-value),
        operand => TExpr::Unary(UnOp::Negate, Box::new(operand)),
    }
}

/// An expression as a dim, where its operations are those of dims and its leaves literals or dims.
#[must_use]
pub fn as_dim(expr: &TExpr) -> Option<Dim> {
    dim_with(expr, &|_| None)
}

/// The same, with dims for scalars.
#[must_use]
pub fn dim_with(expr: &TExpr, of_scalar: &dyn Fn(ScalarId) -> Option<Dim>) -> Option<Dim> {
    match expr {
        TExpr::Int(value) => Some(Dim::Int(*value)),
        TExpr::Dim(name) => Some(Dim::Var(name.clone())),
        TExpr::Scalar(id) => of_scalar(*id),
        TExpr::Binary(op, operands) => {
            let side = |operand| dim_with(operand, of_scalar);
            Some(Dim::op(dim_op(*op)?, side(&operands.0)?, side(&operands.1)?))
        }
        _ => None,
    }
}
