//! Expressions and statements of a tensor program: visited, and rebuilt with parts of them replaced.

use relax_syntax::ir::tensor::{
    Axis, BinOp, BufferId, Check, Loop, ScalarId, Stmt, StmtKind, TExpr,
};
use std::collections::BTreeSet;

/// Where an expression stands: a literal without a dtype of its own takes that of what is around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An index, a bound or an operand of a comparison of such: an i64 where nothing else is said.
    Index,
    /// Anywhere else.
    Value,
}

/// What becomes of the parts of a program.
pub trait Rewrite {
    /// The buffer in the place of one that is read, written or allocated.
    fn buffer(&mut self, id: BufferId) -> BufferId {
        id
    }

    /// The scalar in the place of one that is bound or used.
    fn scalar(&mut self, id: ScalarId) -> ScalarId {
        id
    }

    /// The statement in the place of a whole one; none to go on with its parts.
    fn replace_statement(&mut self, _stmt: &Stmt) -> Option<StmtKind> {
        None
    }

    /// The expression in the place of a whole one; none to go on with its parts.
    fn replace(&mut self, _expr: &TExpr, _place: Place) -> Option<TExpr> {
        None
    }
}

/// The statements, rewritten in the order of their text.
pub fn statements(statements: &[Stmt], rewrite: &mut dyn Rewrite) -> Vec<Stmt> {
    let each = statements.iter().map(|stmt| {
        let replaced = rewrite.replace_statement(stmt);
        let kind = replaced.unwrap_or_else(|| statement(&stmt.kind, rewrite));
        Stmt { kind, span: stmt.span }
    });
    each.collect()
}

fn statement(kind: &StmtKind, rewrite: &mut dyn Rewrite) -> StmtKind {
    match kind {
        StmtKind::For { loops, kind, body } => {
            let loops = loops.iter().map(|item| bounds(item, rewrite)).collect();
            StmtKind::For { loops, kind: kind.clone(), body: statements(body, rewrite) }
        }
        StmtKind::Block { name, axes, init, body } => {
            let axes = axes.iter().map(|each| axis(each, rewrite)).collect();
            let init = statements(init, rewrite);
            StmtKind::Block { name: name.clone(), axes, init, body: statements(body, rewrite) }
        }
        StmtKind::Store { buffer, indices, update, value } => {
            let indices = all(indices, rewrite, Place::Index);
            let value = expr(value, rewrite, Place::Value);
            let buffer = rewrite.buffer(*buffer);
            StmtKind::Store { buffer, indices, update: *update, value }
        }
        StmtKind::Let { var, value } => {
            let value = expr(value, rewrite, Place::Value);
            StmtKind::Let { var: rewrite.scalar(*var), value }
        }
        StmtKind::If { condition, then, otherwise } => StmtKind::If {
            condition: expr(condition, rewrite, Place::Index),
            then: statements(then, rewrite),
            otherwise: statements(otherwise, rewrite),
        },
        StmtKind::Alloc(id) => StmtKind::Alloc(rewrite.buffer(*id)),
        StmtKind::Barrier => StmtKind::Barrier,
        StmtKind::Check(check) => {
            let condition = expr(&check.condition, rewrite, Place::Index);
            let values = all(&check.values, rewrite, Place::Index);
            let (trap, message) = (check.trap.clone(), check.message.clone());
            StmtKind::Check(Box::new(Check { condition, trap, message, values }))
        }
    }
}

fn bounds(item: &Loop, rewrite: &mut dyn Rewrite) -> Loop {
    let start = expr(&item.start, rewrite, Place::Index);
    let stop = expr(&item.stop, rewrite, Place::Index);
    Loop { var: rewrite.scalar(item.var), start, stop }
}

fn axis(axis: &Axis, rewrite: &mut dyn Rewrite) -> Axis {
    let extent = expr(&axis.extent, rewrite, Place::Index);
    let value = expr(&axis.value, rewrite, Place::Index);
    Axis { var: rewrite.scalar(axis.var), kind: axis.kind, extent, value }
}

/// One expression.
pub fn expr(expr_: &TExpr, rewrite: &mut dyn Rewrite, place: Place) -> TExpr {
    if let Some(replaced) = rewrite.replace(expr_, place) {
        return replaced;
    }
    match expr_ {
        TExpr::Int(_) | TExpr::Float(_) | TExpr::Bool(_) | TExpr::Dim(_) => expr_.clone(),
        TExpr::Scalar(id) => TExpr::Scalar(rewrite.scalar(*id)),
        TExpr::Load { buffer, indices } => {
            let indices = all(indices, rewrite, Place::Index);
            TExpr::Load { buffer: rewrite.buffer(*buffer), indices }
        }
        TExpr::Unary(op, operand) => {
            TExpr::Unary(*op, Box::new(expr(operand, rewrite, Place::Value)))
        }
        TExpr::Binary(op, operands) => {
            let within = if keeps_index(*op) { place } else { Place::Value };
            let a = expr(&operands.0, rewrite, within);
            TExpr::Binary(*op, Box::new((a, expr(&operands.1, rewrite, within))))
        }
        TExpr::Select(parts) => {
            let condition = expr(&parts.0, rewrite, Place::Value);
            let a = expr(&parts.1, rewrite, Place::Value);
            TExpr::Select(Box::new((condition, a, expr(&parts.2, rewrite, Place::Value))))
        }
        TExpr::Cast(dtype, operand) => {
            TExpr::Cast(*dtype, Box::new(expr(operand, rewrite, Place::Value)))
        }
        TExpr::Call(function, operands) => {
            TExpr::Call(*function, all(operands, rewrite, Place::Value))
        }
    }
}

fn all(exprs: &[TExpr], rewrite: &mut dyn Rewrite, place: Place) -> Vec<TExpr> {
    exprs.iter().map(|each| expr(each, rewrite, place)).collect()
}

/// Whether the operands of an operation stand where indices do if it does.
fn keeps_index(op: BinOp) -> bool {
    use BinOp::{BitAnd, BitOr, BitXor, Div, ShiftLeft, ShiftRight};
    !matches!(op, BitAnd | BitOr | BitXor | Div | ShiftLeft | ShiftRight)
}

/// Whether an expression has one of these scalars.
#[must_use]
pub fn mentions(expr: &TExpr, scalars: &BTreeSet<ScalarId>) -> bool {
    let mut found = false;
    visit(expr, &mut |part| found |= matches!(part, TExpr::Scalar(id) if scalars.contains(id)));
    found
}

/// Calls `seen` on every statement, also within others, in the order of the text.
pub fn visit_statements<'s>(statements: &'s [Stmt], seen: &mut dyn FnMut(&'s Stmt)) {
    for stmt in statements {
        seen(stmt);
        match &stmt.kind {
            StmtKind::For { body, .. } => visit_statements(body, seen),
            StmtKind::Block { init, body, .. } => {
                visit_statements(init, seen);
                visit_statements(body, seen);
            }
            StmtKind::If { then, otherwise, .. } => {
                visit_statements(then, seen);
                visit_statements(otherwise, seen);
            }
            StmtKind::Store { .. } | StmtKind::Let { .. } | StmtKind::Alloc(_) => {}
            StmtKind::Barrier | StmtKind::Check(_) => {}
        }
    }
}

/// Calls `seen` on each expression that a statement itself has, not on those within it.
pub fn visit_own<'s>(stmt: &'s Stmt, seen: &mut dyn FnMut(&'s TExpr)) {
    match &stmt.kind {
        StmtKind::For { loops, .. } => loops.iter().for_each(|item| {
            seen(&item.start);
            seen(&item.stop);
        }),
        StmtKind::Block { axes, .. } => axes.iter().for_each(|axis| {
            seen(&axis.extent);
            seen(&axis.value);
        }),
        StmtKind::Store { indices, value, .. } => {
            indices.iter().for_each(&mut *seen);
            seen(value);
        }
        StmtKind::Let { value, .. } => seen(value),
        StmtKind::If { condition, .. } => seen(condition),
        StmtKind::Check(check) => {
            seen(&check.condition);
            check.values.iter().for_each(&mut *seen);
        }
        StmtKind::Alloc(_) | StmtKind::Barrier => {}
    }
}

/// Calls `seen` on an expression and each part of it. The parser limits how deep it goes.
pub fn visit<'e>(expr: &'e TExpr, seen: &mut dyn FnMut(&'e TExpr)) {
    seen(expr);
    match expr {
        TExpr::Load { indices: operands, .. } | TExpr::Call(_, operands) => {
            operands.iter().for_each(|operand| visit(operand, seen));
        }
        TExpr::Unary(_, operand) | TExpr::Cast(_, operand) => visit(operand, seen),
        TExpr::Binary(_, operands) => {
            visit(&operands.0, seen);
            visit(&operands.1, seen);
        }
        TExpr::Select(parts) => {
            visit(&parts.0, seen);
            visit(&parts.1, seen);
            visit(&parts.2, seen);
        }
        TExpr::Int(_) | TExpr::Float(_) | TExpr::Bool(_) | TExpr::Dim(_) | TExpr::Scalar(_) => {}
    }
}

/// Every access of statements, at any depth: the buffer, the indices, and whether it is a store.
pub fn accesses<'s>(body: &'s [Stmt], seen: &mut dyn FnMut(BufferId, &'s [TExpr], bool)) {
    visit_statements(body, &mut |stmt| {
        if let StmtKind::Store { buffer, indices, .. } = &stmt.kind {
            seen(*buffer, indices, true);
        }
        visit_own(stmt, &mut |expr| {
            visit(expr, &mut |part| {
                if let TExpr::Load { buffer, indices } = part {
                    seen(*buffer, indices, false);
                }
            });
        });
    });
}

/// The buffers that expressions of statements load from, at any depth.
#[must_use]
pub fn loaded(body: &[Stmt]) -> BTreeSet<BufferId> {
    let mut found = BTreeSet::new();
    let mut load = |part: &TExpr| {
        if let TExpr::Load { buffer, .. } = part {
            found.insert(*buffer);
        }
    };
    visit_statements(body, &mut |stmt| visit_own(stmt, &mut |expr| visit(expr, &mut load)));
    found
}

/// The buffers that statements store to, at any depth.
#[must_use]
pub fn stored(body: &[Stmt]) -> BTreeSet<BufferId> {
    let mut found = BTreeSet::new();
    visit_statements(body, &mut |stmt| {
        if let StmtKind::Store { buffer, .. } = &stmt.kind {
            found.insert(*buffer);
        }
    });
    found
}
