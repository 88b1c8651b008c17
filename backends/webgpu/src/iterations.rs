//! How many iterations of loops a thread goes through, for the dims of one call. Some drivers end every loop of a thread after
//! a number of them (docs/FOUND-ELSEWHERE.md): where there may be that many, the entry is asked at its end whether that happened.

use crate::intervals::Intervals;
use crate::launch::{GROUPS, evaluate};
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Loop, LoopKind, Stmt, StmtKind};
use relax_tir::launches::{block_axis, thread_axis};
use std::collections::BTreeSet;

/// How a program is run, as far as loops are concerned.
#[derive(Clone, Debug)]
pub(crate) struct Threads {
    /// The threads of a workgroup, at least, where workgroups and threads share loops that are bound to them; else one thread goes
    /// through all iterations.
    pub(crate) shared_by: Option<[u64; 3]>,
    /// Buffers of which the text notes which elements were written: at an allocation a thread clears the notes.
    pub(crate) watched: BTreeSet<BufferId>,
    /// Most iterations in the functions of the prelude, if each call in the text is come to once; none where nobody knows.
    pub(crate) inner: Option<u64>,
}

/// Most iterations of one thread through all loops; saturates.
pub(crate) fn most(program: &TensorProgram, threads: &Threads, known: &Intervals) -> u64 {
    let mut walk = Iterations { program, threads, known: known.clone() };
    let own = walk.body(program.body.as_deref().unwrap_or(&[]));
    let inner = threads.inner.unwrap_or(u64::MAX);
    own.saturating_add(own.saturating_add(1).saturating_mul(inner))
}

struct Iterations<'p> {
    program: &'p TensorProgram,
    threads: &'p Threads,
    known: Intervals,
}

impl Iterations<'_> {
    fn body(&mut self, body: &[Stmt]) -> u64 {
        body.iter().fold(0, |sum, stmt| sum.saturating_add(self.stmt(stmt)))
    }

    fn stmt(&mut self, stmt: &Stmt) -> u64 {
        match &stmt.kind {
            StmtKind::For { loops, kind, body } => {
                let share = self.share(kind);
                let counts: Vec<u64> =
                    loops.iter().map(|item| self.count(item).div_ceil(share)).collect();
                if self.known.enter(loops) == Ok(false) {
                    return 0;
                }
                let body = self.body(body);
                counts
                    .iter()
                    .rev()
                    .fold(body, |inner, count| count.saturating_mul(inner.saturating_add(1)))
            }
            StmtKind::Block { axes, init, body, .. } => {
                for axis in axes {
                    let value = self.known.index(&axis.value).ok().flatten();
                    self.known.scalars.insert(axis.var, value);
                }
                self.body(init).saturating_add(self.body(body))
            }
            StmtKind::If { then, otherwise, .. } => {
                self.body(then).saturating_add(self.body(otherwise))
            }
            StmtKind::Let { var, value } => {
                let value = self.known.bind(value).ok().flatten();
                self.known.scalars.insert(*var, value);
                0
            }
            StmtKind::Alloc(buffer) if self.threads.watched.contains(buffer) => {
                let shape = &self.program.buffer(*buffer).shape;
                let extents = shape.iter().map(|dim| evaluate(dim, &self.known));
                extents.fold(1, |count: u64, extent| {
                    count.saturating_mul(
                        extent.and_then(|it| u64::try_from(it).ok()).unwrap_or(u64::MAX),
                    )
                })
            }
            StmtKind::Alloc(_)
            | StmtKind::Store { .. }
            | StmtKind::Barrier
            | StmtKind::Check(_) => 0,
        }
    }

    /// Among how many workgroups or threads the iterations of loops of a kind are shared out.
    fn share(&self, kind: &LoopKind) -> u64 {
        match (self.threads.shared_by, block_axis(kind), thread_axis(kind)) {
            (Some(_), Some(_), _) => GROUPS.unsigned_abs(),
            (Some(sizes), None, Some(axis)) => sizes[axis].max(1),
            _ => 1,
        }
    }

    /// Iterations of a loop; `u64::MAX` where memory says.
    fn count(&self, item: &Loop) -> u64 {
        let bound = |expr| self.known.index(expr).ok().flatten();
        let (Some(start), Some(stop)) = (bound(&item.start), bound(&item.stop)) else {
            return u64::MAX;
        };
        u64::try_from(stop.1.saturating_sub(start.0)).unwrap_or(0)
    }
}
