//! Of which loops of a nest the iterations touch what is their own.
//!
//! That is so where some index of every buffer that the nest writes tells, at each access alike, the iteration: it is one to one in
//! the loop's variable, and depends on no other loop. Memory that is allocated in the nest is the iteration's anyway.

use relax_semantics::tir::walk::{visit, visit_own, visit_statements};
use relax_semantics::tir::{Sources, Vars, reductions};
use relax_syntax::ir::tensor::{BinOp, BufferId, Loop, ScalarId, Stmt, StmtKind, TExpr};
use std::collections::{BTreeMap, BTreeSet};

/// Those of `loops` which may be bound to threads: with any of them bound, the iterations of all bound ones are apart.
pub(super) fn apart(loops: &[Loop], body: &[Stmt]) -> Vec<bool> {
    let nest = Accesses::of(body);
    let first = first_values(loops, body);
    loops.iter().map(|item| !first.contains(&item.var) && nest.tell(item.var)).collect()
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

    /// Whether some index of every buffer tells the value of a loop variable.
    fn tell(&self, var: ScalarId) -> bool {
        self.places.values().all(|accesses| {
            let rank = accesses.first().map_or(0, |indices| indices.len());
            (0..rank).any(|at| {
                let forms: Option<BTreeSet<String>> =
                    accesses.iter().map(|indices| self.form(&indices[at], var)).collect();
                forms.is_some_and(|forms| forms.len() == 1)
            })
        })
    }

    /// The text of an index that is one to one in a variable and otherwise the same all over the nest.
    fn form(&self, index: &TExpr, var: ScalarId) -> Option<String> {
        match index {
            TExpr::Scalar(id) if *id == var => Some("it".to_owned()),
            TExpr::Scalar(id) => self.form(self.values.get(id)?, var),
            TExpr::Binary(op @ (BinOp::Add | BinOp::Sub), both) => {
                let part = |expr| self.form(expr, var).or_else(|| same_everywhere(expr));
                let (a, b) = (self.form(&both.0, var), self.form(&both.1, var));
                (a.is_some() != b.is_some()).then_some(())?;
                Some(format!("({} {op:?} {})", part(&both.0)?, part(&both.1)?))
            }
            TExpr::Binary(BinOp::Mul, both) => {
                let (factor, other) = match (&both.0, &both.1) {
                    (TExpr::Int(factor), other) | (other, TExpr::Int(factor)) => (factor, other),
                    _ => return None,
                };
                let other = self.form(other, var)?;
                (*factor != 0).then(|| format!("({factor} * {other})"))
            }
            _ => None,
        }
    }
}

/// The text of what has one value: literals, dims, and sums of them.
fn same_everywhere(expr: &TExpr) -> Option<String> {
    let mut plain = true;
    visit(expr, &mut |part| {
        plain &= matches!(part, TExpr::Int(_) | TExpr::Dim(_) | TExpr::Binary(..));
    });
    plain.then(|| format!("{expr:?}"))
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
