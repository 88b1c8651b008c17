//! What a nest does for each iteration of its outer loops, as steps that the threads of a block can share: single elements,
//! reductions over inner loops, and elements of inner loops.

use relax_semantics::tir::walk::{mentions, visit, visit_own};
use relax_syntax::ir::tensor::{BinOp, BufferId, Loop, LoopKind, ScalarId, Stmt, StmtKind, TExpr};
use std::collections::BTreeSet;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A store for the iteration as a whole.
    Cell,
    /// Values of inner loops combined into an element.
    Reduce,
    /// A store for each iteration of inner loops.
    Elements,
}

/// One step: names, and a store last, over inner loops.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) role: Role,
    pub(super) loops: Vec<Loop>,
    pub(super) body: Vec<Stmt>,
}

/// What is combined, and where.
#[derive(Clone, Debug)]
pub(super) struct Reduction {
    pub(super) op: BinOp,
    pub(super) buffer: BufferId,
    pub(super) indices: Vec<TExpr>,
    pub(super) value: TExpr,
}

/// Loops of a perfect nest, outermost first, and what they run. Blocks that only group do not count.
pub(super) fn unwrapped(stmt: &Stmt) -> (Vec<Loop>, Vec<Stmt>) {
    let (mut loops, mut body) = (Vec::new(), vec![stmt.clone()]);
    loop {
        let next = match body.as_slice() {
            [Stmt { kind: StmtKind::Block { axes, init, body, .. }, .. }]
                if axes.is_empty() && init.is_empty() =>
            {
                body.clone()
            }
            [Stmt { kind: StmtKind::For { loops: more, kind, body }, .. }]
                if !matches!(kind, LoopKind::Thread(_) | LoopKind::Shard { .. }) =>
            {
                loops.extend(more.iter().cloned());
                body.clone()
            }
            _ => return (loops, body),
        };
        body = next;
    }
}

/// The steps of what a nest runs within its first loops; `inner` are those of its perfect nest that come after.
pub(super) fn steps(inner: &[Loop], body: &[Stmt]) -> Option<Vec<Step>> {
    if !inner.is_empty() {
        return Some(vec![over(inner.to_vec(), body)?]);
    }
    let each = body.iter().map(|stmt| match &stmt.kind {
        StmtKind::Store { .. } => {
            Some(Step { role: Role::Cell, loops: Vec::new(), body: vec![stmt.clone()] })
        }
        StmtKind::For { .. } => {
            let (loops, body) = unwrapped(stmt);
            over(loops, &body)
        }
        _ => None,
    });
    each.collect()
}

/// One store over inner loops.
fn over(loops: Vec<Loop>, body: &[Stmt]) -> Option<Step> {
    let (last, lets) = body.split_last()?;
    let all_lets = lets.iter().all(|stmt| matches!(stmt.kind, StmtKind::Let { .. }));
    let StmtKind::Store { indices, .. } = &last.kind else { return None };
    all_lets.then_some(())?;
    let vars: BTreeSet<ScalarId> = loops.iter().map(|item| item.var).collect();
    // An index that is a name may stand for a loop variable.
    let is_inner = |index: &TExpr| mentions(index, &vars) || (!lets.is_empty() && has_name(index));
    let role = match indices.iter().any(is_inner) {
        true => Role::Elements,
        false => reduction(last).map(|_| Role::Reduce)?,
    };
    Some(Step { role, loops, body: body.to_vec() })
}

/// A store that combines a value with the element that is there.
pub(super) fn reduction(stmt: &Stmt) -> Option<Reduction> {
    let StmtKind::Store { buffer, indices, update, value } = &stmt.kind else { return None };
    let (buffer, indices) = (*buffer, indices.clone());
    let cell = TExpr::Load { buffer, indices: indices.clone() };
    let (op, value) = match (update, value) {
        (Some(op @ (BinOp::Add | BinOp::Mul)), value) => (*op, value.clone()),
        (None, TExpr::Binary(op, both)) if combines(*op) && both.0 == cell => (*op, both.1.clone()),
        _ => return None,
    };
    let mut again = false;
    visit(&value, &mut |part| {
        again |= matches!(part, TExpr::Load { buffer: other, .. } if *other == buffer);
    });
    (!again).then_some(Reduction { op, buffer, indices, value })
}

fn has_name(expr: &TExpr) -> bool {
    let mut found = false;
    visit(expr, &mut |part| found |= matches!(part, TExpr::Scalar(_)));
    found
}

fn combines(op: BinOp) -> bool {
    matches!(op, BinOp::Add | BinOp::Mul | BinOp::Max | BinOp::Min)
}

/// Whether neighbouring iterations of a reduction read neighbouring elements of all inputs that they read: not so along
/// columns, and in products of matrices.
pub(super) fn runs_along(step: &Step) -> bool {
    let Some((last, lets)) = step.body.split_last() else { return false };
    let vars: BTreeSet<ScalarId> = step.loops.iter().map(|item| item.var).collect();
    let mut along = true;
    visit_own(last, &mut |expr| {
        visit(expr, &mut |part| {
            if let TExpr::Load { indices, .. } = part {
                let moves = indices.iter().any(|index| mentions(index, &vars));
                along &= !moves || indices.last().is_some_and(|index| mentions(index, &vars));
            }
        });
    });
    along && lets.is_empty()
}

/// Whether all that a reduction goes through lies along the innermost of some loops around it, as a column of a matrix does.
pub(super) fn runs_across(step: &Step, rows: &[Loop]) -> bool {
    let ([last], Some(row)) = (step.body.as_slice(), rows.last()) else { return false };
    let vars: BTreeSet<ScalarId> = step.loops.iter().map(|item| item.var).collect();
    let (mut across, mut moves) = (true, false);
    visit_own(last, &mut |expr| {
        visit(expr, &mut |part| {
            if let TExpr::Load { indices, .. } = part
                && indices.iter().any(|index| mentions(index, &vars))
            {
                moves = true;
                across &= indices.last() == Some(&TExpr::Scalar(row.var));
            }
        });
    });
    across && moves
}
