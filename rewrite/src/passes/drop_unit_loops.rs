//! Loops of one iteration go, and their variables are 0: what keeps a dim of 1 then reads and writes at the places that a
//! program without the dim has, and nests of rows begin with the same loops whether they keep it or not.
//!
//! A nest keeps its first loop. Nests with a sum of products, which has schedules for all its dims, stay as they are, as do
//! those with blocks whose axes the loops decide.

use crate::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_semantics::tir::walk::{Place, Rewrite, statements, visit_statements};
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{Loop, ScalarId, Stmt, StmtKind, TExpr};
use relax_syntax::ir::{Definition, Module};
use relax_tir::products::sums_products;
use relax_tir::renumber::renumber_program;
use std::collections::BTreeSet;

/// The record.
pub static PASS: Pass = Pass {
    name: "drop_unit_loops",
    doc: "Leaves out the loops of one iteration of tensor programs, but for the first of a nest.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P22,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut result = module.clone();
    let mut done = 0;
    for definition in &mut result.definitions {
        let Definition::Tensor(program) = definition else { continue };
        let Some(body) = &mut program.body else { continue };
        let mut dropped = Dropped::default();
        for stmt in body {
            *stmt = dropped.nest(stmt);
        }
        if !dropped.vars.is_empty() {
            done += dropped.vars.len();
            renumber_program(program);
        }
    }
    context.count("dropped", done, "loops");
    Ok(result)
}

/// Variables of loops that went.
#[derive(Default)]
struct Dropped {
    vars: BTreeSet<ScalarId>,
}

impl Dropped {
    fn nest(&mut self, stmt: &Stmt) -> Stmt {
        let StmtKind::For { loops, kind, body } = &stmt.kind else { return stmt.clone() };
        if !kind.is_sequential() || has_axes(body) || sums_products(body) {
            return stmt.clone();
        }
        let (first, rest) = loops.split_first().expect("invariant: a nest has a loop");
        let kept = std::iter::once(first.clone()).chain(self.kept(rest)).collect();
        let body = self.body(body);
        // Variables of loops that went stand in loops that stay as well.
        let whole = StmtKind::For { loops: kept, kind: kind.clone(), body };
        let whole = statements(&[Stmt { kind: whole, span: stmt.span }], self);
        whole.into_iter().next().expect("invariant: one statement gives one")
    }

    fn body(&mut self, body: &[Stmt]) -> Vec<Stmt> {
        let mut result = Vec::with_capacity(body.len());
        for stmt in body {
            let kind = match &stmt.kind {
                StmtKind::For { loops, kind, body } => {
                    let loops = if kind.is_sequential() { self.kept(loops) } else { loops.clone() };
                    let body = self.body(body);
                    if loops.is_empty() {
                        result.extend(body);
                        continue;
                    }
                    StmtKind::For { loops, kind: kind.clone(), body }
                }
                StmtKind::If { condition, then, otherwise } => StmtKind::If {
                    condition: condition.clone(),
                    then: self.body(then),
                    otherwise: self.body(otherwise),
                },
                StmtKind::Block { name, axes, init, body } => StmtKind::Block {
                    name: name.clone(),
                    axes: axes.clone(),
                    init: init.clone(),
                    body: self.body(body),
                },
                _ => stmt.kind.clone(),
            };
            result.push(Stmt { kind, span: stmt.span });
        }
        result
    }

    fn kept(&mut self, loops: &[Loop]) -> Vec<Loop> {
        let (unit, kept): (Vec<&Loop>, Vec<&Loop>) = loops
            .iter()
            .partition(|item| item.start == TExpr::Int(0) && item.stop == TExpr::Int(1));
        self.vars.extend(unit.iter().map(|item| item.var));
        kept.into_iter().cloned().collect()
    }
}

impl Rewrite for Dropped {
    fn replace(&mut self, expr: &TExpr, place: Place) -> Option<TExpr> {
        let TExpr::Scalar(id) = expr else { return None };
        // A loop variable is an i64; a literal would take the dtype of what is around it.
        self.vars.contains(id).then(|| match place {
            Place::Value => TExpr::Cast(DType::I64, Box::new(TExpr::Int(0))),
            _ => TExpr::Int(0),
        })
    }
}

fn has_axes(body: &[Stmt]) -> bool {
    let mut has = false;
    visit_statements(body, &mut |stmt| {
        has |= matches!(&stmt.kind, StmtKind::Block { axes, init, .. }
            if !axes.is_empty() || !init.is_empty());
    });
    has
}
