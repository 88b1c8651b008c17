//! The axes of a block that does not name them: which loop variables it uses, and which of them
//! are reduction axes.

use relax_syntax::ir::tensor::{Axis, Loop, ScalarId, Stmt, StmtKind, TExpr};
use std::collections::{BTreeMap, BTreeSet};

/// A set of loop variables.
pub type Vars = BTreeSet<ScalarId>;

/// For each scalar bound so far, the loop variables that its value comes from.
#[derive(Clone, Debug, Default)]
pub struct Sources(BTreeMap<ScalarId, Vars>);

impl Sources {
    /// A loop variable comes from itself.
    pub fn bind_loop(&mut self, item: &Loop) {
        self.0.insert(item.var, Vars::from([item.var]));
    }

    /// A scalar comes from what its value comes from.
    pub fn bind(&mut self, var: ScalarId, value: &TExpr) {
        let mut vars = Vars::new();
        self.collect(value, &mut vars);
        self.0.insert(var, vars);
    }

    /// An axis as a scalar.
    pub fn bind_axes(&mut self, axes: &[Axis]) {
        axes.iter().for_each(|axis| self.bind(axis.var, &axis.value));
    }

    /// Adds the loop variables that an expression comes from.
    pub fn collect(&self, expr: &TExpr, vars: &mut Vars) {
        visit_scalars(expr, &mut |id| {
            if let Some(sources) = self.0.get(&id) {
                vars.extend(sources);
            }
        });
    }
}

/// The reduction axes of a block with implicit axes: loop variables bound outside of it that it
/// uses, but in no index of a store.
#[must_use]
pub fn reductions(sources: &Sources, init: &[Stmt], body: &[Stmt]) -> Vars {
    let outside: Vars = sources.0.values().flatten().copied().collect();
    let mut uses = Uses { sources: sources.clone(), used: Vars::new(), written: Vars::new() };
    uses.body(init);
    uses.body(body);
    let unwritten = uses.used.difference(&uses.written).copied().collect::<Vars>();
    unwritten.intersection(&outside).copied().collect()
}

struct Uses {
    sources: Sources,
    used: Vars,
    written: Vars,
}

impl Uses {
    fn body(&mut self, statements: &[Stmt]) {
        statements.iter().for_each(|stmt| self.stmt(stmt));
    }

    fn read(&mut self, expr: &TExpr) {
        self.sources.collect(expr, &mut self.used);
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::For { loops, body, .. } => {
                for item in loops {
                    self.read(&item.start);
                    self.read(&item.stop);
                    self.sources.bind_loop(item);
                }
                self.body(body);
            }
            StmtKind::Block { axes, init, body, .. } => {
                for axis in axes {
                    self.read(&axis.extent);
                    self.read(&axis.value);
                }
                self.sources.bind_axes(axes);
                self.body(init);
                self.body(body);
            }
            StmtKind::Store { indices, value, .. } => {
                for index in indices {
                    self.read(index);
                    self.sources.collect(index, &mut self.written);
                }
                self.read(value);
            }
            StmtKind::Let { var, value } => {
                self.read(value);
                self.sources.bind(*var, value);
            }
            StmtKind::If { condition, then, otherwise } => {
                self.read(condition);
                self.body(then);
                self.body(otherwise);
            }
            StmtKind::Alloc(_) | StmtKind::Barrier => {}
            StmtKind::Check(check) => {
                self.read(&check.condition);
                check.values.iter().for_each(|value| self.read(value));
            }
        }
    }
}

fn visit_scalars(expr: &TExpr, visit: &mut dyn FnMut(ScalarId)) {
    match expr {
        TExpr::Scalar(id) => visit(*id),
        TExpr::Load { indices: operands, .. } | TExpr::Call(_, operands) => {
            operands.iter().for_each(|operand| visit_scalars(operand, visit));
        }
        TExpr::Unary(_, operand) | TExpr::Cast(_, operand) => visit_scalars(operand, visit),
        TExpr::Binary(_, operands) => {
            visit_scalars(&operands.0, visit);
            visit_scalars(&operands.1, visit);
        }
        TExpr::Select(parts) => {
            visit_scalars(&parts.0, visit);
            visit_scalars(&parts.1, visit);
            visit_scalars(&parts.2, visit);
        }
        TExpr::Int(_) | TExpr::Float(_) | TExpr::Bool(_) | TExpr::Dim(_) => {}
    }
}
