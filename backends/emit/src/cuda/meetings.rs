//! Barriers at which only the threads of a warp need to meet, as those between the steps by which a warp reduces a row.
//!
//! Where the threads along x are 32, each number along y is a warp. What all of them touch at that number alone is the warp's. Between
//! a barrier and the one before it threads may have touched nothing but such memory, and memory that nobody writes to: then what other
//! warps read or write afterwards was ordered by a barrier before, at which all threads met, and the barrier is one of each warp.

use super::threads::Nest;
use relax_semantics::tir::walk::{accesses, loaded, stored};
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Scope, Stmt, StmtKind, TExpr};
use relax_tir::barriers::has_barrier;
use relax_tir::warps::LANES;
use std::collections::BTreeSet;

/// The statements of a thread, parted by the barriers at which warps meet on their own. Before the nest all threads have met, and it is
/// the only one of its launch.
pub(super) fn parted<'s>(program: &TensorProgram, nest: &Nest<'s>) -> Vec<&'s [Stmt]> {
    let body = nest.body;
    let Some(warp) = warp(nest) else { return vec![body] };
    let own = own_memory(program, body, &warp);
    let written = stored(body);
    let is_apart = |stmts: &[Stmt]| {
        let touched: Vec<BufferId> = loaded(stmts).union(&stored(stmts)).copied().collect();
        !has_barrier(stmts)
            && touched.iter().all(|buffer| {
                own.contains(buffer)
                    || !written.contains(buffer)
                    || program.buffer(*buffer).scope == Scope::Local
            })
    };
    let (mut parts, mut first, mut since) = (Vec::new(), 0, 0);
    for (at, stmt) in body.iter().enumerate() {
        if stmt.kind == StmtKind::Barrier {
            if is_apart(&body[since..at]) {
                parts.push(&body[first..at]);
                first = at + 1;
            }
            since = at + 1;
        }
    }
    parts.push(&body[first..]);
    parts
}

/// The number of a thread's warp, where threads along x are one.
fn warp(nest: &Nest<'_>) -> Option<TExpr> {
    let is_warp = |axis: usize, stop: &TExpr| axis == 0 && *stop == TExpr::Int(LANES);
    let mut loops = nest.loops.iter().filter(|(axis, item)| !is_warp(*axis, &item.stop));
    let (axis, other) = loops.next()?;
    let begin = nest.loops.iter().all(|(_, item)| item.start == TExpr::Int(0));
    (nest.waits && begin && nest.loops.len() == 2 && loops.next().is_none() && *axis == 1)
        .then_some(TExpr::Scalar(other.var))
}

/// Shared memory that each warp touches at its own number only.
fn own_memory(program: &TensorProgram, body: &[Stmt], warp: &TExpr) -> BTreeSet<BufferId> {
    let (mut all, mut others) = (BTreeSet::new(), BTreeSet::new());
    accesses(body, &mut |buffer, indices, _| {
        all.insert(buffer);
        if indices.first() != Some(warp) || program.buffer(buffer).scope != Scope::Shared {
            others.insert(buffer);
        }
    });
    all.difference(&others).copied().collect()
}
