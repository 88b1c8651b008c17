//! Values that are live across a barrier: scalars that are bound again in each later phase that uses them, and memory that
//! becomes an array with an element for each thread.

use relax_semantics::tir::walk::{
    Place, Rewrite, expr, statements, visit, visit_own, visit_statements,
};
use relax_syntax::ir::tensor::{BufferId, ScalarId, Stmt, StmtKind, TExpr};
use std::collections::BTreeMap;

/// Scalars that earlier phases bound, in the order in which they did.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveScalars {
    bound: Vec<(ScalarId, Stmt)>,
    /// Those of the phase at hand, where they are bound already.
    fresh: Vec<(ScalarId, Stmt)>,
}

impl LiveScalars {
    /// From the next phase on, this statement binds the scalar.
    pub(crate) fn bind(&mut self, var: ScalarId, stmt: Stmt) {
        self.fresh.push((var, stmt));
    }

    /// A phase ends.
    pub(crate) fn settle(&mut self) {
        self.bound.append(&mut self.fresh);
    }

    /// Whether a thread bound it.
    pub(crate) fn binds(&self, var: ScalarId) -> bool {
        self.bound.iter().chain(&self.fresh).any(|(bound, _)| *bound == var)
    }

    /// A phase after the bindings that it uses.
    pub(crate) fn before(&self, phase: Vec<Stmt>) -> Vec<Stmt> {
        let mut all = phase;
        for (var, stmt) in self.bound.iter().rev() {
            if all.iter().any(|later| uses(later, *var)) {
                all.insert(0, stmt.clone());
            }
        }
        all
    }
}

/// Whether a statement uses a scalar, at any depth.
pub(crate) fn uses(stmt: &Stmt, var: ScalarId) -> bool {
    let mut found = false;
    visit_statements(std::slice::from_ref(stmt), &mut |stmt| {
        visit_own(stmt, &mut |own| {
            visit(own, &mut |part| found |= *part == TExpr::Scalar(var));
        });
    });
    found
}

/// Statements in which an access of one of these buffers has these indices before its own.
pub(crate) fn own_elements(body: &[Stmt], spread: &BTreeMap<BufferId, Vec<TExpr>>) -> Vec<Stmt> {
    if spread.is_empty() {
        return body.to_vec();
    }
    let mut all = statements(body, &mut Loads { spread });
    stores(&mut all, spread);
    all
}

struct Loads<'s> {
    spread: &'s BTreeMap<BufferId, Vec<TExpr>>,
}

impl Rewrite for Loads<'_> {
    fn replace(&mut self, whole: &TExpr, _: Place) -> Option<TExpr> {
        let TExpr::Load { buffer, indices } = whole else { return None };
        let own = self.spread.get(buffer)?;
        let mut all = own.clone();
        all.extend(indices.iter().map(|index| expr(index, self, Place::Index)));
        Some(TExpr::Load { buffer: *buffer, indices: all })
    }
}

fn stores(body: &mut [Stmt], spread: &BTreeMap<BufferId, Vec<TExpr>>) {
    for stmt in body {
        match &mut stmt.kind {
            StmtKind::Store { buffer, indices, .. } => {
                if let Some(own) = spread.get(buffer) {
                    indices.splice(0..0, own.iter().cloned());
                }
            }
            StmtKind::For { body, .. } => stores(body, spread),
            StmtKind::Block { init, body, .. } => {
                stores(init, spread);
                stores(body, spread);
            }
            StmtKind::If { then, otherwise, .. } => {
                stores(then, spread);
                stores(otherwise, spread);
            }
            StmtKind::Let { .. } | StmtKind::Alloc(_) | StmtKind::Barrier | StmtKind::Check(_) => {}
        }
    }
}
