//! Whether iterations of the same loops in several nests touch what is their own: then they may run at once, and one
//! nest after the other within an iteration.

use relax_rewrite::walk::{accesses, visit_statements};
use relax_syntax::ir::tensor::{BufferId, ScalarId, Stmt, StmtKind, TExpr};
use std::collections::{BTreeMap, BTreeSet};

/// One nest, and its loops that are looked at, outermost first.
#[derive(Clone, Debug)]
pub(crate) struct Nest<'s> {
    pub(crate) vars: Vec<ScalarId>,
    pub(crate) stmt: &'s Stmt,
}

/// Whether every buffer that one of the nests writes is, wherever one of them touches it, touched at the loops'
/// own place: each loop stands alone at one index, the same everywhere.
pub(crate) fn are_apart(nests: &[Nest<'_>]) -> bool {
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
    let mut apart = true;
    for nest in nests {
        accesses(std::slice::from_ref(nest.stmt), &mut |buffer, indices, _| {
            if !written.contains(&buffer) || own.contains(&buffer) {
                return;
            }
            match place(&nest.vars, indices) {
                Some(found) => {
                    apart &= *places.entry(buffer).or_insert_with(|| found.clone()) == found
                }
                None => apart = false,
            }
        });
    }
    apart
}

/// At which index each variable stands alone.
fn place(vars: &[ScalarId], indices: &[TExpr]) -> Option<Vec<usize>> {
    let at = |var: &ScalarId| indices.iter().position(|index| *index == TExpr::Scalar(*var));
    vars.iter().map(at).collect()
}

/// Every load within a statement.
pub(crate) fn loads(stmt: &Stmt, each: &mut dyn FnMut(BufferId, &[TExpr])) {
    accesses(std::slice::from_ref(stmt), &mut |buffer, indices, is_stored| {
        if !is_stored {
            each(buffer, indices);
        }
    });
}
