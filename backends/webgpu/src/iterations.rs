//! How many iterations of loops a thread goes through, for the dims of one call. Some drivers end every loop of a thread after
//! a number of them (docs/FOUND-ELSEWHERE.md): where there may be that many, the entry is asked at its end whether that happened.

use crate::intervals::Intervals;
use crate::launch::{GROUPS, evaluate};
use relax_semantics::tir::walk::{visit, visit_own};
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BinOp, BufferId, Loop, LoopKind, Stmt, StmtKind, TExpr};
use relax_tir::launches::{block_axis, thread_axis};
use std::collections::BTreeSet;

/// How the threads of a launch go through loops.
#[derive(Clone, Debug)]
pub(crate) struct Threads {
    /// Loops over blocks around all of it.
    pub(crate) blocks: Vec<Loop>,
    pub(crate) body: Vec<Stmt>,
    /// The threads of a workgroup, where workgroups and threads share loops that are bound to them; else one thread goes through all
    /// iterations.
    pub(crate) shared_by: Option<[u64; 3]>,
    /// Most iterations in the functions of the prelude, if each call in the text is come to once; none where nobody knows.
    pub(crate) inner: Option<u64>,
}

/// Most iterations of one thread through all loops, for what is known before a launch; saturates. `watched`: the buffers of which the
/// text notes which elements were written, where a thread clears the notes at an allocation.
pub(crate) fn most(
    program: &TensorProgram,
    threads: &Threads,
    watched: &BTreeSet<BufferId>,
    known: &Intervals,
) -> u64 {
    let mut walk =
        Iterations { program, shared_by: threads.shared_by, watched, known: known.clone() };
    let blocks = threads.blocks.iter().fold(1, |all: u64, item| {
        all.saturating_mul(walk.count(item).div_ceil(GROUPS.unsigned_abs()))
    });
    if walk.known.enter(&threads.blocks) == Ok(false) {
        return 0;
    }
    let each = Count { iterations: threads.blocks.len() as u64, calls: 0 };
    let counted = walk.body(&threads.body).plus(each).times(blocks);
    let inner = threads.inner.unwrap_or(u64::MAX);
    counted.iterations.saturating_add(counted.calls.saturating_mul(inner))
}

/// What a thread goes through.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    /// Iterations of the program's own loops.
    iterations: u64,
    /// Executions of statements that call functions with loops of their own.
    calls: u64,
}

impl Count {
    fn plus(self, other: Self) -> Self {
        Self {
            iterations: self.iterations.saturating_add(other.iterations),
            calls: self.calls.saturating_add(other.calls),
        }
    }

    fn times(self, count: u64) -> Self {
        Self {
            iterations: self.iterations.saturating_mul(count),
            calls: self.calls.saturating_mul(count),
        }
    }
}

struct Iterations<'p> {
    program: &'p TensorProgram,
    shared_by: Option<[u64; 3]>,
    watched: &'p BTreeSet<BufferId>,
    known: Intervals,
}

impl Iterations<'_> {
    fn body(&mut self, body: &[Stmt]) -> Count {
        body.iter().fold(Count::default(), |sum, stmt| {
            let own = Count { iterations: 0, calls: u64::from(calls_loops(stmt)) };
            let within = self.stmt(stmt, own);
            sum.plus(own).plus(within)
        })
    }

    /// What is within a statement. `head`: what a loop takes to find out whether there is one more iteration.
    fn stmt(&mut self, stmt: &Stmt, head: Count) -> Count {
        match &stmt.kind {
            StmtKind::For { loops, kind, body } => {
                let share = self.share(kind);
                let counts: Vec<u64> =
                    loops.iter().map(|item| self.count(item).div_ceil(share)).collect();
                if self.known.enter(loops) == Ok(false) {
                    return Count::default();
                }
                let each = Count { iterations: 1, calls: head.calls };
                let body = self.body(body);
                counts.iter().rev().fold(body, |inner, count| inner.plus(each).times(*count))
            }
            StmtKind::Block { axes, init, body, .. } => {
                for axis in axes {
                    let value = self.known.index(&axis.value).ok().flatten();
                    self.known.scalars.insert(axis.var, value);
                }
                self.body(init).plus(self.body(body))
            }
            StmtKind::If { then, otherwise, .. } => self.body(then).plus(self.body(otherwise)),
            StmtKind::Let { var, value } => {
                let value = self.known.bind(value).ok().flatten();
                self.known.scalars.insert(*var, value);
                Count::default()
            }
            StmtKind::Alloc(buffer) if self.watched.contains(buffer) => {
                let shape = &self.program.buffer(*buffer).shape;
                let extents = shape.iter().map(|dim| evaluate(dim, &self.known));
                let iterations = extents.fold(1, |count: u64, extent| {
                    count.saturating_mul(
                        extent.and_then(|it| u64::try_from(it).ok()).unwrap_or(u64::MAX),
                    )
                });
                Count { iterations, calls: 0 }
            }
            StmtKind::Alloc(_)
            | StmtKind::Store { .. }
            | StmtKind::Barrier
            | StmtKind::Check(_) => Count::default(),
        }
    }

    /// Among how many workgroups or threads the iterations of loops of a kind are shared out.
    fn share(&self, kind: &LoopKind) -> u64 {
        match (self.shared_by, block_axis(kind), thread_axis(kind)) {
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

/// Whether a statement itself may call functions of the prelude with loops: whole quotients, remainders, functions of scalars. True
/// quotients have none.
fn calls_loops(stmt: &Stmt) -> bool {
    let mut found = false;
    visit_own(stmt, &mut |expr| {
        visit(expr, &mut |part| {
            found |= match part {
                TExpr::Call(..) => true,
                TExpr::Binary(op, _) => matches!(op, BinOp::FloorDiv | BinOp::Mod),
                _ => false,
            };
        });
    });
    found
}
