//! Nests of loops over the threads of a block.

use relax_semantics::tir::walk::visit_statements;
use relax_syntax::ir::tensor::{Loop, Stmt, StmtKind};
use relax_tir::barriers::{are_met, has_barrier};
use relax_tir::launches::{has_threads, thread_axis};

/// A nest of `threadIdx` loops.
#[derive(Debug)]
pub(crate) struct Nest<'s> {
    /// With their axes.
    pub(crate) loops: Vec<(usize, &'s Loop)>,
    /// What each thread runs.
    pub(crate) body: &'s [Stmt],
    /// Whether threads wait for each other.
    pub(crate) waits: bool,
    /// Whether something stands between the loops.
    pub(crate) is_plain: bool,
}

/// The nest that a statement is.
pub(crate) fn thread_loops(stmt: &Stmt) -> Option<Nest<'_>> {
    let mut loops = Vec::new();
    let mut body = std::slice::from_ref(stmt);
    while let [Stmt { kind: StmtKind::For { loops: own, kind, body: inner }, .. }] = body
        && let Some(axis) = thread_axis(kind)
        && let [item] = own.as_slice()
    {
        loops.push((axis, item));
        body = inner;
    }
    if loops.is_empty() {
        return None;
    }
    let is_plain = !has_threads(body);
    Some(Nest { loops, body, waits: has_barrier(body), is_plain })
}

/// The nests in a statement, outermost ones only.
pub(crate) fn nests<'s>(stmt: &'s Stmt, found: &mut Vec<Nest<'s>>) {
    if let Some(nest) = thread_loops(stmt) {
        found.push(nest);
        return;
    }
    let inner: [&[Stmt]; 2] = match &stmt.kind {
        StmtKind::For { body, .. } => [body, &[]],
        StmtKind::Block { init, body, .. } => [init, body],
        StmtKind::If { then, otherwise, .. } => [then, otherwise],
        _ => return,
    };
    inner.into_iter().flatten().for_each(|stmt| nests(stmt, found));
}

/// Whether threads start from the body of others only as one nest, and meet at each barrier. Where they do not, one thread
/// runs the program.
pub(crate) fn threads_meet(nests: &[Nest<'_>]) -> Result<(), String> {
    for nest in nests {
        if !nest.is_plain {
            return Err("something stands between loops over threads".to_owned());
        }
        are_met(nest.body, nest.loops.iter().map(|(_, item)| item.var))?;
    }
    Ok(())
}

/// Whether statements have memory of their own.
pub(crate) fn allocates(body: &[&Stmt]) -> bool {
    let mut found = false;
    for stmt in body {
        visit_statements(std::slice::from_ref(stmt), &mut |stmt| {
            found |= matches!(stmt.kind, StmtKind::Alloc(_));
        });
    }
    found
}
