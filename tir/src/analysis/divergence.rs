//! Divergence analysis: whether a value is the same for all threads of a block.

use crate::live_across_barriers::LiveScalars;
use relax_syntax::ir::tensor::{BinOp, ScalarId, TExpr};

/// Whether an expression has the same value for all threads, and always has one.
pub(crate) fn is_uniform(expr: &TExpr, vars: &[ScalarId], known: &LiveScalars) -> bool {
    use BinOp::{
        And, Equal, FloorDiv, Greater, GreaterEqual, Less, LessEqual, Max, Min, Mod, NotEqual, Or,
    };
    let both = |operands: &(TExpr, TExpr)| {
        is_uniform(&operands.0, vars, known) && is_uniform(&operands.1, vars, known)
    };
    match expr {
        TExpr::Int(_) | TExpr::Bool(_) | TExpr::Dim(_) => true,
        TExpr::Scalar(var) => !vars.contains(var) && !known.binds(*var),
        TExpr::Binary(FloorDiv | Mod, operands) => {
            matches!(operands.1, TExpr::Int(1..)) && is_uniform(&operands.0, vars, known)
        }
        TExpr::Binary(
            And | Or | Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual | Min | Max,
            operands,
        ) => both(operands),
        _ => false,
    }
}
