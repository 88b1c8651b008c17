//! Dependence analysis of single loops: which loops of a nest carry no dependence.
//!
//! A loop carries none where every buffer that the nest writes has an axis whose index determines the iteration, alike in each
//! access: it is injective in the loop's variable and depends on no other loop. Memory that is allocated in the nest is the
//! iteration's own.

use relax_semantics::tir::walk::{visit, visit_own, visit_statements};
use relax_semantics::tir::{Sources, Vars, reductions};
use relax_syntax::ir::tensor::{BinOp, BufferId, Loop, ScalarId, Stmt, StmtKind, TExpr};
use std::collections::{BTreeMap, BTreeSet};

/// Which of `loops` may be bound to threads: with any of them bound, the iterations of all bound ones are independent.
#[must_use]
pub fn independent_loops(loops: &[Loop], body: &[Stmt]) -> Vec<bool> {
    let nest = Accesses::of(body);
    let first = first_values(loops, body);
    loops.iter().map(|item| !first.contains(&item.var) && nest.determine(item.var)).collect()
}

struct Accesses<'s> {
    /// Scalars bound in the nest to a value.
    values: BTreeMap<ScalarId, &'s TExpr>,
    /// The indices at which each buffer is touched that the nest writes and did not allocate.
    places: BTreeMap<BufferId, Vec<&'s [TExpr]>>,
}

impl<'s> Accesses<'s> {
    fn of(body: &'s [Stmt]) -> Self {
        let mut all = Self { values: BTreeMap::new(), places: BTreeMap::new() };
        let (mut written, mut own) = (BTreeSet::new(), BTreeSet::new());
        visit_statements(body, &mut |stmt| {
            match &stmt.kind {
                StmtKind::Store { buffer, indices, .. } => {
                    written.insert(*buffer);
                    all.places.entry(*buffer).or_default().push(indices);
                }
                StmtKind::Alloc(buffer) => _ = own.insert(*buffer),
                StmtKind::Let { var, value } => _ = all.values.insert(*var, value),
                StmtKind::Block { axes, .. } => {
                    all.values.extend(axes.iter().map(|axis| (axis.var, &axis.value)));
                }
                _ => {}
            }
            visit_own(stmt, &mut |expr| {
                visit(expr, &mut |part| {
                    if let TExpr::Load { buffer, indices } = part {
                        all.places.entry(*buffer).or_default().push(indices);
                    }
                });
            });
        });
        all.places.retain(|buffer, _| written.contains(buffer) && !own.contains(buffer));
        all
    }

    /// Whether some index of every buffer determines the value of a loop variable.
    fn determine(&self, var: ScalarId) -> bool {
        self.places.values().all(|accesses| {
            let rank = accesses.first().map_or(0, |indices| indices.len());
            (0..rank).any(|at| {
                let mut forms = accesses.iter().map(|indices| self.form(&indices[at], var));
                let first = forms.next().flatten();
                first.is_some() && forms.all(|form| form == first)
            })
        })
    }

    /// An index with the values of its names, where it is injective in a variable and otherwise the same all over the nest.
    fn form(&self, index: &TExpr, var: ScalarId) -> Option<TExpr> {
        match index {
            TExpr::Scalar(id) if *id == var => Some(index.clone()),
            TExpr::Scalar(id) => self.form(self.values.get(id)?, var),
            TExpr::Binary(op @ (BinOp::Add | BinOp::Sub), both) => {
                let (a, b) = match (self.form(&both.0, var), self.form(&both.1, var)) {
                    (Some(a), None) => (a, invariant(&both.1)?),
                    (None, Some(b)) => (invariant(&both.0)?, b),
                    _ => return None,
                };
                Some(TExpr::Binary(*op, Box::new((a, b))))
            }
            TExpr::Binary(BinOp::Mul, both) => {
                let (factor, other) = match (&both.0, &both.1) {
                    (TExpr::Int(factor), other) | (other, TExpr::Int(factor)) => (*factor, other),
                    _ => return None,
                };
                let other = self.form(other, var).filter(|_| factor != 0)?;
                Some(TExpr::Binary(BinOp::Mul, Box::new((TExpr::Int(factor), other))))
            }
            _ => None,
        }
    }
}

/// What has one value all over the nest: literals, dims, and arithmetic on them.
fn invariant(expr: &TExpr) -> Option<TExpr> {
    let mut plain = true;
    visit(expr, &mut |part| {
        plain &= matches!(part, TExpr::Int(_) | TExpr::Dim(_) | TExpr::Binary(..));
    });
    plain.then(|| expr.clone())
}

/// Loop variables that blocks without axes of their own go by where they run their `init`.
fn first_values(loops: &[Loop], body: &[Stmt]) -> Vars {
    let mut first = Firsts { found: Vars::new() };
    let mut sources = Sources::default();
    loops.iter().for_each(|item| sources.bind_loop(item));
    first.body(&mut sources, body);
    first.found
}

struct Firsts {
    found: Vars,
}

impl Firsts {
    /// Names are bound once in a program, so that scopes need not end.
    fn body(&mut self, sources: &mut Sources, body: &[Stmt]) {
        for stmt in body {
            match &stmt.kind {
                StmtKind::For { loops, body, .. } => {
                    loops.iter().for_each(|item| sources.bind_loop(item));
                    self.body(sources, body);
                }
                StmtKind::Block { axes, init, body, .. } => {
                    if axes.is_empty() && !init.is_empty() {
                        self.found.extend(reductions(sources, init, body));
                    }
                    sources.bind_axes(axes);
                    self.body(sources, init);
                    self.body(sources, body);
                }
                StmtKind::Let { var, value } => sources.bind(*var, value),
                StmtKind::If { then, otherwise, .. } => {
                    self.body(sources, then);
                    self.body(sources, otherwise);
                }
                _ => {}
            }
        }
    }
}
