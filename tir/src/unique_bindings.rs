//! Unique bindings: a scalar is bound once in a program. Where statements stand several times, each of their bindings gets a scalar of its
//! own.

use relax_semantics::tir::walk::{Place, Rewrite, expr, statements, visit_statements};
use relax_syntax::ir::tensor::{Axis, Check, Loop, ScalarId, ScalarInfo, Stmt, StmtKind, TExpr};
use std::collections::{BTreeMap, BTreeSet};

/// Gives every binding after the first one of a scalar another scalar.
pub fn bind_uniquely(body: &[Stmt], scalars: &mut Vec<ScalarInfo>) -> Vec<Stmt> {
    let mut bindings = UniqueBindings { scalars, bound: BTreeSet::new(), current: BTreeMap::new() };
    bindings.body(body)
}

/// Whether statements are the same but for what they call the scalars that they bind.
#[must_use]
pub fn are_same_but_names(a: &[Stmt], b: &[Stmt]) -> bool {
    let (own, other) = (bound(a), bound(b));
    let mut renamed = Renamed(other.iter().copied().zip(own.iter().copied()).collect());
    own.len() == other.len() && statements(b, &mut renamed) == a
}

/// The scalars that statements bind, in order.
fn bound(body: &[Stmt]) -> Vec<ScalarId> {
    let mut all = Vec::new();
    visit_statements(body, &mut |stmt| match &stmt.kind {
        StmtKind::For { loops, .. } => all.extend(loops.iter().map(|item| item.var)),
        StmtKind::Block { axes, .. } => all.extend(axes.iter().map(|axis| axis.var)),
        StmtKind::Let { var, .. } => all.push(*var),
        _ => {}
    });
    all
}

struct Renamed(BTreeMap<ScalarId, ScalarId>);

impl Rewrite for Renamed {
    fn scalar(&mut self, id: ScalarId) -> ScalarId {
        self.0.get(&id).copied().unwrap_or(id)
    }
}

struct UniqueBindings<'s> {
    scalars: &'s mut Vec<ScalarInfo>,
    bound: BTreeSet<ScalarId>,
    /// What stands for a scalar here, where that is another one.
    current: BTreeMap<ScalarId, ScalarId>,
}

impl Rewrite for UniqueBindings<'_> {
    fn scalar(&mut self, id: ScalarId) -> ScalarId {
        self.current.get(&id).copied().unwrap_or(id)
    }
}

impl UniqueBindings<'_> {
    fn bind(&mut self, id: ScalarId) -> ScalarId {
        let mut own = id;
        if !self.bound.insert(id) {
            own = ScalarId(u32::try_from(self.scalars.len()).unwrap_or(u32::MAX));
            self.scalars.push(self.scalars[id.0 as usize].clone());
            self.bound.insert(own);
        }
        self.current.insert(id, own);
        own
    }

    /// What a body binds is seen to its end.
    fn body(&mut self, statements: &[Stmt]) -> Vec<Stmt> {
        let outside = self.current.clone();
        let all =
            statements.iter().map(|stmt| Stmt { kind: self.kind(&stmt.kind), span: stmt.span });
        let all = all.collect();
        self.current = outside;
        all
    }

    fn index(&mut self, index: &TExpr) -> TExpr {
        expr(index, self, Place::Index)
    }

    fn kind(&mut self, kind: &StmtKind) -> StmtKind {
        match kind {
            StmtKind::For { loops, kind, body } => {
                let outside = self.current.clone();
                // Bounds are computed before the first loop is entered.
                let bounds: Vec<(TExpr, TExpr)> = loops
                    .iter()
                    .map(|item| (self.index(&item.start), self.index(&item.stop)))
                    .collect();
                let each = loops.iter().zip(bounds);
                let loops = each
                    .map(|(item, (start, stop))| Loop { var: self.bind(item.var), start, stop })
                    .collect();
                let body = self.body(body);
                self.current = outside;
                StmtKind::For { loops, kind: kind.clone(), body }
            }
            StmtKind::Block { name, axes, init, body } => {
                let outside = self.current.clone();
                let axes = axes.iter().map(|axis| self.axis(axis)).collect();
                let (init, body) = (self.body(init), self.body(body));
                self.current = outside;
                StmtKind::Block { name: name.clone(), axes, init, body }
            }
            StmtKind::If { condition, then, otherwise } => {
                let condition = self.index(condition);
                let (then, otherwise) = (self.body(then), self.body(otherwise));
                StmtKind::If { condition, then, otherwise }
            }
            StmtKind::Let { var, value } => {
                let value = expr(value, self, Place::Value);
                StmtKind::Let { var: self.bind(*var), value }
            }
            StmtKind::Store { buffer, indices, update, value } => {
                let indices = indices.iter().map(|index| self.index(index)).collect();
                let value = expr(value, self, Place::Value);
                StmtKind::Store { buffer: *buffer, indices, update: *update, value }
            }
            StmtKind::Check(check) => {
                let condition = self.index(&check.condition);
                let values = check.values.iter().map(|value| self.index(value)).collect();
                let (trap, message) = (check.trap.clone(), check.message.clone());
                StmtKind::Check(Box::new(Check { condition, trap, message, values }))
            }
            StmtKind::Alloc(_) | StmtKind::Barrier => kind.clone(),
        }
    }

    fn axis(&mut self, axis: &Axis) -> Axis {
        let (extent, value) = (self.index(&axis.extent), self.index(&axis.value));
        Axis { var: self.bind(axis.var), kind: axis.kind, extent, value }
    }
}
