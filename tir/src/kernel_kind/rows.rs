//! Row-wise programs: which tensor programs go row by row: the same outermost loops are around everything that they do, and what they write
//! stands at these loops' places.

use super::nest::output_of;
use super::{Analysis, KernelKind};
use crate::dims::as_expr;
use crate::products::sums_products;
use relax_semantics::tir::walk::{accesses, stored, visit_statements};
use relax_syntax::dim::Dim;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Loop, ScalarId, Stmt, StmtKind, TExpr};
use std::collections::BTreeMap;

/// The rows of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// How many loops it has around everything; one at least.
    pub loops: usize,
    /// For each buffer at how many of its first indices nothing stands but the variables of these loops, in their order.
    pub own: BTreeMap<BufferId, usize>,
    /// Whether it sums products: those have a schedule of their own.
    pub sums_products: bool,
    /// Whether it fills workspaces beside the rows, such as the places that a mask compares.
    pub fills_tables: bool,
}

impl Rows {
    /// `None` if it is another program.
    pub fn of(program: &TensorProgram) -> Option<Self> {
        // Who records less than is found wants it alone.
        let recorded = KernelKind::recorded(program);
        if recorded.is_some_and(|recorded| recorded > Analysis::of(program).kind) {
            return None;
        }
        let output = output_of(program)?;
        let extents = &program.buffer(output).shape;
        let (mut count, mut own, mut written) = (extents.len(), BTreeMap::new(), vec![output]);
        let (mut with_products, mut fills_tables) = (false, false);
        for stmt in program.body.as_ref()? {
            let (loops, body) = match &stmt.kind {
                StmtKind::Alloc(buffer) => {
                    written.push(*buffer);
                    continue;
                }
                StmtKind::For { loops, kind, body } if kind.is_sequential() => (loops, body),
                _ => return None,
            };
            if !is_plain(body) {
                return None;
            }
            with_products |= sums_products(body);
            let rows = loops.iter().zip(extents).take_while(|(item, dim)| goes_through(item, dim));
            let rows = rows.count();
            let mut vars: Vec<ScalarId> = loops.iter().map(|item| item.var).collect();
            let stores = stored(std::slice::from_ref(stmt));
            if rows == 0 && !stores.contains(&output) {
                // No index of it is one of a row.
                vars.clear();
                fills_tables = true;
                written.retain(|buffer| !stores.contains(buffer));
            } else {
                count = count.min(rows);
            }
            accesses(body, &mut |buffer, indices, _| {
                let stays = indices.iter().zip(&vars);
                let stays = stays.take_while(|(index, var)| **index == TExpr::Scalar(**var));
                let (stays, known) = (stays.count(), own.entry(buffer).or_insert(usize::MAX));
                *known = stays.min(*known);
            });
        }
        let least = written.iter().filter_map(|buffer| own.get(buffer)).min();
        let loops = count.min(*least?);
        let sums_products = with_products;
        (loops > 0).then_some(Self { loops, own, sums_products, fills_tables })
    }
}

/// From 0 to the dim.
fn goes_through(item: &Loop, dim: &Dim) -> bool {
    matches!(dim, Dim::Var(_) | Dim::Int(_))
        && item.start == TExpr::Int(0)
        && item.stop == as_expr(dim)
}

/// Loops, branches and stores: nothing that names values, and nothing that waits.
fn is_plain(body: &[Stmt]) -> bool {
    let mut plain = true;
    visit_statements(body, &mut |stmt| {
        plain &= match &stmt.kind {
            StmtKind::For { .. } | StmtKind::If { .. } | StmtKind::Store { .. } => true,
            StmtKind::Block { axes, .. } => axes.is_empty(),
            StmtKind::Alloc(_) | StmtKind::Let { .. } | StmtKind::Barrier | StmtKind::Check(_) => {
                false
            }
        };
    });
    plain
}
