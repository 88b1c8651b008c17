//! Loops and how they are scheduled.

use super::{ScalarId, TExpr};
use crate::Name;

/// One loop variable and its range.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// An i64.
    pub var: ScalarId,
    /// First value.
    pub start: TExpr,
    /// One past the last.
    pub stop: TExpr,
}

/// How a loop is scheduled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LoopKind {
    /// Nested loops, as `grid(n, 4)`.
    Grid,
    /// `range(n)`; `serial(n)` is the same.
    Serial,
    /// Iterations may run on threads, as `parallel(n)`.
    Parallel,
    /// Iterations are lanes of a vector, as `vectorized(n)`.
    Vectorized,
    /// The body is repeated, as `unroll(n)`.
    Unroll,
    /// `thread_binding(n, "blockIdx.x")`
    Thread(Name),
    /// `shard(2, "mesh[0]", mesh_dim=0)`
    Shard {
        /// The mesh.
        mesh: Name,
        /// Its axis.
        mesh_dim: usize,
    },
}

impl LoopKind {
    /// Whether analyses and rewrites may take the loop for a plain sequential one. The meaning of `parallel` is that of
    /// `serial`: it allows threads and asks for no order, so whether they are used is for a dependence analysis to decide.
    /// The other kinds fix how the loop is run, and passes leave them as they are.
    #[must_use]
    pub fn is_sequential(&self) -> bool {
        matches!(self, LoopKind::Grid | LoopKind::Serial | LoopKind::Parallel)
    }
}
