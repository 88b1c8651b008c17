//! Dims as index expressions and back.

pub use relax_semantics::tir::ranges::as_expr;
use relax_semantics::tir::ranges::dim_op;
use relax_syntax::dim::Dim;
use relax_syntax::ir::tensor::{ScalarId, TExpr};

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
