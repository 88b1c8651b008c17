//! Barriers of a device are met by all threads or by none: in the body of a thread, in loops with the same bounds for
//! all, in branches that all take alike. Elsewhere a program may stop (`tir/divergent_barrier`), which a device does
//! not tell, so that such programs are run by one thread.

use super::threads::Nest;
use crate::statements::has_barrier;
use relax_rewrite::patterns::visit;
use relax_rewrite::walk::visit_statements;
use relax_syntax::ir::tensor::{Loop, ScalarId, Stmt, StmtKind, TExpr};
use std::collections::BTreeSet;

/// Whether threads start from the body of others only as one nest, and meet at each barrier.
pub(crate) fn threads_meet(nests: &[Nest<'_>]) -> Result<(), String> {
    for nest in nests {
        if !nest.is_plain {
            return Err("something stands between loops over threads".to_owned());
        }
        if nest.waits {
            let mut own: BTreeSet<ScalarId> = nest.loops.iter().map(|(_, item)| item.var).collect();
            meet(nest.body, &mut own)?;
        }
    }
    Ok(())
}

/// `own` are scalars that may differ between threads.
fn meet(body: &[Stmt], own: &mut BTreeSet<ScalarId>) -> Result<(), String> {
    for stmt in body {
        match &stmt.kind {
            StmtKind::Let { var, value } => {
                if !is_alike(value, own) {
                    own.insert(*var);
                }
            }
            _ if !has_barrier(std::slice::from_ref(stmt)) => {}
            StmtKind::Barrier => {}
            StmtKind::For { loops, body, .. } => {
                let same = |item: &Loop| is_alike(&item.start, own) && is_alike(&item.stop, own);
                if !loops.iter().all(same) {
                    return Err("threads wait in a loop whose bounds may differ".to_owned());
                }
                meet(body, own)?;
            }
            StmtKind::If { condition, then, otherwise } => {
                if !is_alike(condition, own) {
                    return Err("threads wait in a branch that only some may take".to_owned());
                }
                meet(then, own)?;
                meet(otherwise, own)?;
            }
            _ => return Err("threads wait in a block".to_owned()),
        }
    }
    Ok(())
}

fn is_alike(expr: &TExpr, own: &BTreeSet<ScalarId>) -> bool {
    let mut alike = true;
    visit(expr, &mut |part| match part {
        TExpr::Load { .. } => alike = false,
        TExpr::Scalar(var) => alike &= !own.contains(var),
        _ => {}
    });
    alike
}

/// Whether an expression reads memory.
pub(crate) fn reads(expr: &TExpr) -> bool {
    let mut found = false;
    visit(expr, &mut |part| found |= matches!(part, TExpr::Load { .. }));
    found
}

/// Whether statements have memory of their own.
pub(crate) fn allocates(body: &[&Stmt]) -> bool {
    let mut found = false;
    for stmt in body {
        visit_statements(std::slice::from_ref(stmt), &mut |stmt| {
            found |= matches!(stmt.kind, StmtKind::Alloc(_));
        });
    }
    found
}
