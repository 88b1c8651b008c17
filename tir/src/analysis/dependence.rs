//! Dependence analysis: whether the iterations of the same loops of several nests touch elements of their own. Then no
//! loop carries a dependence: iterations may run at once, and one nest after the other within an iteration.
//!
//! The test is syntactic: in each access to a written buffer every loop variable stands alone at one index, the same in
//! all accesses.

pub mod distances;
pub mod loops;

use relax_semantics::tir::walk::{accesses, visit_statements};
use relax_syntax::ir::tensor::{BufferId, ScalarId, Stmt, StmtKind, TExpr};
use std::collections::{BTreeMap, BTreeSet};

/// A nest of loops.
#[derive(Clone, Debug)]
pub struct Nest<'s> {
    /// Variables of the loops that are looked at, outermost first.
    pub vars: Vec<ScalarId>,
    /// The whole nest.
    pub stmt: &'s Stmt,
}

/// Whether every buffer that one of the nests writes is, wherever one of them touches it, touched at the loops'
/// own place: each loop stands alone at one index, the same everywhere.
#[must_use]
pub fn are_independent(nests: &[Nest<'_>]) -> bool {
    let mut written = BTreeSet::new();
    let mut own = BTreeSet::new();
    for nest in nests {
        visit_statements(std::slice::from_ref(nest.stmt), &mut |stmt| match &stmt.kind {
            StmtKind::Store { buffer, .. } => _ = written.insert(*buffer),
            StmtKind::Alloc(buffer) => _ = own.insert(*buffer),
            _ => {}
        });
    }
    let mut places: BTreeMap<BufferId, Vec<usize>> = BTreeMap::new();
    let mut independent = true;
    for nest in nests {
        accesses(std::slice::from_ref(nest.stmt), &mut |buffer, indices, _| {
            if !written.contains(&buffer) || own.contains(&buffer) {
                return;
            }
            match place(&nest.vars, indices) {
                Some(found) => {
                    independent &= *places.entry(buffer).or_insert_with(|| found.clone()) == found
                }
                None => independent = false,
            }
        });
    }
    independent
}

/// At which index each variable stands alone.
fn place(vars: &[ScalarId], indices: &[TExpr]) -> Option<Vec<usize>> {
    let at = |var: &ScalarId| indices.iter().position(|index| *index == TExpr::Scalar(*var));
    vars.iter().map(at).collect()
}

/// Every load within a statement.
pub fn loads(stmt: &Stmt, each: &mut dyn FnMut(BufferId, &[TExpr])) {
    accesses(std::slice::from_ref(stmt), &mut |buffer, indices, is_stored| {
        if !is_stored {
            each(buffer, indices);
        }
    });
}
