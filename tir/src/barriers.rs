//! Barrier convergence: barriers of a device are met by all threads of a block or by none: what is around them depends neither on the thread nor on
//! memory. Elsewhere a program may stop (`tir/divergent_barrier`), which a device does not tell.

use super::launches::{reads, thread_axis};
use relax_semantics::tir::walk::{visit, visit_statements};
use relax_syntax::ir::tensor::{ScalarId, Stmt, StmtKind, TExpr};
use std::collections::BTreeSet;

/// Whether a barrier stands among statements, at any depth.
#[must_use]
pub fn has_barrier(body: &[Stmt]) -> bool {
    let mut found = false;
    visit_statements(body, &mut |stmt| found |= matches!(stmt.kind, StmtKind::Barrier));
    found
}

/// Whether every barrier among statements is met by all threads, where scalars that are `varying` may differ between them.
///
/// # Errors
/// Says what is in the way.
pub fn are_met<'s>(
    body: impl IntoIterator<Item = &'s Stmt>,
    varying: impl IntoIterator<Item = ScalarId>,
) -> Result<(), String> {
    let mut varying = varying.into_iter().collect();
    body.into_iter().try_for_each(|stmt| is_met(stmt, &mut varying))
}

fn is_met(stmt: &Stmt, varying: &mut BTreeSet<ScalarId>) -> Result<(), String> {
    let error = || Err("a barrier stands where not all threads of a block may come".to_owned());
    let all = |body: &[Stmt], varying: &mut BTreeSet<ScalarId>| {
        body.iter().try_for_each(|stmt| is_met(stmt, varying))
    };
    match &stmt.kind {
        StmtKind::For { loops, kind, body } => {
            for item in loops {
                let varies = differs(&item.start, varying) || differs(&item.stop, varying);
                if varies && has_barrier(body) {
                    return error();
                }
                if thread_axis(kind).is_some() || varies {
                    varying.insert(item.var);
                }
            }
            all(body, varying)
        }
        StmtKind::If { condition, then, otherwise } => {
            let waits = has_barrier(then) || has_barrier(otherwise);
            if waits && differs(condition, varying) {
                return error();
            }
            all(then, varying)?;
            all(otherwise, varying)
        }
        StmtKind::Block { axes, init, body, .. } => {
            if has_barrier(init) || has_barrier(body) {
                return Err("a barrier stands in a block of statements".to_owned());
            }
            varying.extend(axes.iter().map(|axis| axis.var));
            Ok(())
        }
        StmtKind::Let { var, value } => {
            if differs(value, varying) {
                varying.insert(*var);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn differs(expr: &TExpr, varying: &BTreeSet<ScalarId>) -> bool {
    let mut found = reads(expr);
    visit(expr, &mut |part| {
        found |= matches!(part, TExpr::Scalar(id) if varying.contains(id));
    });
    found
}
