//! Nests of loops over the threads of a block.

use crate::statements::has_barrier;
use relax_syntax::ir::tensor::{Loop, LoopKind, Stmt, StmtKind};

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

fn axis(kind: &LoopKind, level: &str) -> Option<usize> {
    let LoopKind::Thread(name) = kind else { return None };
    match name.split_once('.')? {
        (found, letter) if found == level => {
            ["x", "y", "z"].iter().position(|axis| *axis == letter)
        }
        _ => None,
    }
}

/// The axis of a `threadIdx` loop.
pub(crate) fn is_thread(kind: &LoopKind) -> Option<usize> {
    axis(kind, "threadIdx")
}

/// The axis of a `blockIdx` loop.
pub(crate) fn is_block(kind: &LoopKind) -> Option<usize> {
    axis(kind, "blockIdx")
}

/// The nest that a statement is.
pub(crate) fn thread_loops(stmt: &Stmt) -> Option<Nest<'_>> {
    let mut loops = Vec::new();
    let mut body = std::slice::from_ref(stmt);
    while let [Stmt { kind: StmtKind::For { loops: own, kind, body: inner }, .. }] = body
        && let Some(axis) = is_thread(kind)
        && let [item] = own.as_slice()
    {
        loops.push((axis, item));
        body = inner;
    }
    if loops.is_empty() {
        return None;
    }
    let is_plain = !body.iter().any(super::groups::has_threads);
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
