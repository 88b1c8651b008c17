//! Store-to-load forwarding: an element that was computed just before is not loaded again, and a buffer that is only
//! accessed so needs no memory.

use crate::analysis::dependence::loads;
use crate::products::Product;
use crate::workspaces::{has_plain_extents, is_forgotten};
use relax_semantics::tir::walk::{accesses, visit_statements};
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Stmt, StmtKind};
use std::collections::{BTreeMap, BTreeSet};

/// Whether workspaces among the parameters may lose their stores as allocated buffers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workspaces {
    /// They are stored to, as the interpreter does.
    Kept,
    /// They are forwarded too.
    Forwarded,
}

/// The buffers that nothing sees after the program, with one plain store, and with loads of the very element only,
/// in the statements that follow it in the same body.
#[must_use]
pub fn forwarded(
    program: &TensorProgram,
    body: &[Stmt],
    workspaces: Workspaces,
) -> BTreeSet<BufferId> {
    let mut found = BTreeMap::new();
    in_body(body, &mut found);
    let mut all: BTreeMap<BufferId, usize> = BTreeMap::new();
    for stmt in body {
        accesses(std::slice::from_ref(stmt), &mut |buffer, _, _| {
            *all.entry(buffer).or_default() += 1
        });
    }
    let allowed = |buffer: BufferId| {
        let hidden = !program.is_param(buffer) || workspaces == Workspaces::Forwarded;
        hidden && is_forgotten(program, buffer) && has_plain_extents(program, buffer)
    };
    let found = found
        .into_iter()
        .filter(|(buffer, count)| all.get(buffer) == Some(count) && *count > 1 && allowed(*buffer));
    let mut found: BTreeSet<BufferId> = found.map(|(buffer, _)| buffer).collect();
    if workspaces == Workspaces::Forwarded && !found.is_empty() {
        // Sums may have any order then, so that a product is one call, which writes to memory.
        visit_statements(body, &mut |stmt| {
            if let Some(product) = Product::of(program, stmt) {
                found.remove(&product.out.buffer);
            }
        });
    }
    found
}

/// The buffers with a plain store in a body, with how many accesses that is, loads after it counted.
fn in_body(body: &[Stmt], found: &mut BTreeMap<BufferId, usize>) {
    for (at, stmt) in body.iter().enumerate() {
        match &stmt.kind {
            StmtKind::Store { buffer, indices, update: None, .. } => {
                let mut count = 1;
                for later in &body[at + 1..] {
                    loads(later, &mut |other, place| {
                        count += usize::from(other == *buffer && place == indices.as_slice());
                    });
                }
                found.insert(*buffer, count);
            }
            StmtKind::For { body, .. } => in_body(body, found),
            StmtKind::If { then, otherwise, .. } => {
                in_body(then, found);
                in_body(otherwise, found);
            }
            // What a block does at its first iteration only is not known in the others.
            _ => {}
        }
    }
}
