//! What the host computes before a launch: extents of grids from dims and scalars.

use relax_syntax::Name;
use relax_syntax::dim::{floor_div, floor_mod};
use relax_syntax::ir::tensor::{BinOp, ScalarId, TExpr, UnOp};
use std::collections::BTreeMap;

/// What the host knows of one call.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// Symbolic variables.
    pub dims: BTreeMap<Name, i64>,
    /// Scalars: parameters, and what was evaluated since.
    pub scalars: BTreeMap<ScalarId, i64>,
}

/// The value of index arithmetic. `None` where the interpreter would stop (an overflow, a division by 0), or where it is
/// none that schedules are written with.
#[must_use]
pub fn evaluate(expr: &TExpr, values: &Values) -> Option<i64> {
    match expr {
        TExpr::Int(value) => Some(*value),
        TExpr::Dim(name) => values.dims.get(name).copied(),
        TExpr::Scalar(id) => values.scalars.get(id).copied(),
        TExpr::Unary(UnOp::Negate, operand) => evaluate(operand, values)?.checked_neg(),
        TExpr::Binary(op, both) => {
            let (a, b) = (evaluate(&both.0, values)?, evaluate(&both.1, values)?);
            match op {
                BinOp::Add => a.checked_add(b),
                BinOp::Sub => a.checked_sub(b),
                BinOp::Mul => a.checked_mul(b),
                BinOp::FloorDiv => floor_div(a, b),
                BinOp::Mod => floor_mod(a, b),
                BinOp::Min => Some(a.min(b)),
                BinOp::Max => Some(a.max(b)),
                _ => None,
            }
        }
        _ => None,
    }
}
