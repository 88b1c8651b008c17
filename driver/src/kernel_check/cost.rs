//! Upper bound on the interpreter's steps for a program at given extents, without running it.

use super::arguments::Extents;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{Stmt, StmtKind, TExpr};
use relax_tir::dims::as_dim;

/// `None` where a bound of a loop depends on more than extents.
pub(super) fn steps(program: &TensorProgram, extents: &Extents) -> Option<u64> {
    of_statements(program.body.as_deref().unwrap_or(&[]), extents)
}

fn of_statements(statements: &[Stmt], extents: &Extents) -> Option<u64> {
    statements
        .iter()
        .try_fold(0_u64, |all, stmt| Some(all.saturating_add(of_statement(stmt, extents)?)))
}

fn of_statement(stmt: &Stmt, extents: &Extents) -> Option<u64> {
    match &stmt.kind {
        StmtKind::For { loops, body, .. } => {
            let (mut iterations, mut all) = (1_u64, 0_u64);
            for item in loops {
                let extent =
                    value(&item.stop, extents)?.saturating_sub(value(&item.start, extents)?);
                iterations = iterations.saturating_mul(u64::try_from(extent).unwrap_or(0));
                all = all.saturating_add(iterations);
            }
            Some(all.saturating_add(iterations.saturating_mul(of_statements(body, extents)?)))
        }
        StmtKind::Block { init, body, .. } => {
            Some(of_statements(init, extents)?.saturating_add(of_statements(body, extents)?))
        }
        StmtKind::If { then, otherwise, .. } => {
            let longer = of_statements(then, extents)?.max(of_statements(otherwise, extents)?);
            Some(longer.saturating_add(1))
        }
        StmtKind::Store { .. } | StmtKind::Let { .. } | StmtKind::Alloc(_) => Some(1),
        StmtKind::Barrier | StmtKind::Check(_) => Some(1),
    }
}

pub(super) fn value(expr: &TExpr, extents: &Extents) -> Option<i64> {
    as_dim(expr)?.eval(&|name| extents.of(name)).ok()
}
