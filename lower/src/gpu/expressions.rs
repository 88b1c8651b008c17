//! Index arithmetic as it is written in scheduled programs, folded where it is plain.

use relax_syntax::ir::tensor::{BinOp, Loop, LoopKind, ScalarId, Stmt, StmtKind, TExpr, UnOp};
use relax_syntax::span::Span;

pub(super) fn add(a: TExpr, b: TExpr) -> TExpr {
    match (&a, &b) {
        (TExpr::Int(0), _) => b,
        (_, TExpr::Int(0)) => a,
        _ => TExpr::binary(BinOp::Add, a, b),
    }
}

pub(super) fn multiply(a: TExpr, b: TExpr) -> TExpr {
    match (&a, &b) {
        (TExpr::Int(1), _) | (_, TExpr::Int(0)) => b,
        (_, TExpr::Int(1)) | (TExpr::Int(0), _) => a,
        (TExpr::Int(x), TExpr::Int(y)) => {
            x.checked_mul(*y).map_or_else(|| TExpr::binary(BinOp::Mul, a, b), TExpr::Int)
        }
        _ => TExpr::binary(BinOp::Mul, a, b),
    }
}

/// `a` over a literal, rounded up, as the text spells it.
pub(super) fn ceil_divide(a: TExpr, divisor: i64) -> TExpr {
    match a {
        _ if divisor == 1 => a,
        TExpr::Int(value @ 0..) => TExpr::Int(value / divisor + i64::from(value % divisor != 0)),
        _ => {
            let negated = TExpr::Unary(UnOp::Negate, Box::new(a));
            let quotient = TExpr::binary(BinOp::FloorDiv, negated, TExpr::Int(divisor));
            TExpr::Unary(UnOp::Negate, Box::new(quotient))
        }
    }
}

pub(super) fn least(a: TExpr, b: i64) -> TExpr {
    match a {
        TExpr::Int(value) => TExpr::Int(value.min(b)),
        _ => TExpr::binary(BinOp::Min, a, TExpr::Int(b)),
    }
}

/// 1 where a number that is not negative reaches a bound, else 0: the host chooses by it.
pub(super) fn reaches(number: TExpr, bound: i64) -> TExpr {
    match number {
        TExpr::Int(value) => TExpr::Int(i64::from(value >= bound)),
        _ => {
            let whole = TExpr::binary(BinOp::FloorDiv, number, TExpr::Int(bound));
            TExpr::binary(BinOp::Min, whole, TExpr::Int(1))
        }
    }
}

/// 1 where a number that is 0 or 1 is 0, else 0.
pub(super) fn opposite(times: &TExpr) -> TExpr {
    match times {
        TExpr::Int(times) => TExpr::Int(1 - times),
        _ => TExpr::binary(BinOp::Sub, TExpr::Int(1), times.clone()),
    }
}

/// How often a loop runs.
pub(super) fn extent(item: &Loop) -> TExpr {
    match (&item.start, &item.stop) {
        (TExpr::Int(0), TExpr::Int(0..) | TExpr::Dim(_)) => item.stop.clone(),
        (TExpr::Int(a), TExpr::Int(b)) => TExpr::Int(b.saturating_sub(*a).max(0)),
        (start, stop) => {
            let length = match start {
                TExpr::Int(0) => stop.clone(),
                _ => TExpr::binary(BinOp::Sub, stop.clone(), start.clone()),
            };
            TExpr::binary(BinOp::Max, length, TExpr::Int(0))
        }
    }
}

/// `for var in thread_binding(extent, axis): body`
pub(super) fn thread_loop(
    (var, extent): (ScalarId, TExpr),
    axis: &str,
    body: Vec<Stmt>,
    span: Span,
) -> Stmt {
    let loops = vec![Loop { var, start: TExpr::Int(0), stop: extent }];
    let kind = StmtKind::For { loops, kind: LoopKind::Thread(axis.into()), body };
    Stmt { kind, span }
}
