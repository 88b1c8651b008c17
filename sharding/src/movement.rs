//! Redistribution: the collectives that lead from one layout to another, and the bytes that they move.

use crate::layout::{Axes, Layout};
use relax_syntax::annotation::{Placement, Reduction};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

/// A step of a redistribution along one axis of the mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Movement {
    /// The axis of the mesh.
    pub mesh_dim: usize,
    /// What is done.
    pub collective: Collective,
    /// Bytes that all ranks send together, in the best algorithm of the field (rings; pairwise exchange).
    pub bytes: Dim,
    /// The layout after it.
    pub after: Layout,
}

/// What the ranks of a group do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Shards along an axis become the whole.
    AllGather(usize),
    /// Terms become their reduction.
    AllReduce(Reduction),
    /// Terms become a shard of their reduction.
    ReduceScatter(usize, Reduction),
    /// Shards along one axis become shards along another one.
    AllToAll {
        /// The axis that is cut before.
        from: usize,
        /// The axis that is cut after.
        to: usize,
    },
    /// A rank keeps its shard of what it has whole.
    OwnShard(usize),
}

impl Collective {
    /// The operator that does it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Collective::AllGather(_) => "spmd.all_gather",
            Collective::AllReduce(_) => "spmd.all_reduce",
            Collective::ReduceScatter(..) => "spmd.reduce_scatter",
            Collective::AllToAll { .. } => "spmd.all_to_all",
            Collective::OwnShard(_) => "spmd.own_shard",
        }
    }
}

/// The steps from one layout of a tensor to another one: `None` where there is no way, as to a partial tensor.
#[must_use]
pub fn movements(
    (dims, dtype): (&[Dim], DType),
    from: &[Placement],
    to: &[Placement],
    axes: &Axes,
) -> Option<Vec<Movement>> {
    let (mut now, mut steps) = (from.to_vec(), Vec::new());
    // A shard may have to wait until its axis is whole along another mesh axis.
    for _ in 0..=2 * to.len() {
        if now == to {
            return Some(steps);
        }
        for mesh_dim in 0..to.len() {
            let free = |axis: usize| {
                now.iter()
                    .enumerate()
                    .all(|(at, own)| at == mesh_dim || *own != Placement::Sharded(axis))
            };
            let (collective, after) = match (now[mesh_dim], to[mesh_dim]) {
                (own, wanted) if own == wanted => continue,
                (_, Placement::Partial(_)) => return None,
                (Placement::Partial(reduction), Placement::Sharded(axis)) if free(axis) => {
                    (Collective::ReduceScatter(axis, reduction), Placement::Sharded(axis))
                }
                (Placement::Partial(reduction), _) => {
                    (Collective::AllReduce(reduction), Placement::Replicated)
                }
                (Placement::Sharded(from), Placement::Sharded(to)) if free(to) => {
                    (Collective::AllToAll { from, to }, Placement::Sharded(to))
                }
                (Placement::Sharded(axis), _) => {
                    (Collective::AllGather(axis), Placement::Replicated)
                }
                (Placement::Replicated, Placement::Sharded(axis)) if free(axis) => {
                    (Collective::OwnShard(axis), Placement::Sharded(axis))
                }
                (Placement::Replicated, _) => continue,
            };
            let bytes = bytes((dims, dtype), &now, mesh_dim, collective, axes);
            now[mesh_dim] = after;
            steps.push(Movement { mesh_dim, collective, bytes, after: now.clone() });
        }
    }
    None
}

/// Bytes that all ranks send together. Ragged shards count exactly, but for an exchange, which is rounded down.
fn bytes(
    (dims, dtype): (&[Dim], DType),
    now: &[Placement],
    mesh_dim: usize,
    collective: Collective,
    axes: &Axes,
) -> Dim {
    // Groups that hold the same elements each move them.
    let copies = now
        .iter()
        .enumerate()
        .filter(|(at, placement)| *at != mesh_dim && !matches!(placement, Placement::Sharded(_)));
    let others = Dim::op(DimOp::Sub, axes.workers[mesh_dim].clone(), Dim::Int(1));
    let size = i64::try_from(dtype.size()).unwrap_or(i64::MAX);
    // Literal factors are one, in front.
    let factors: Vec<Dim> =
        copies.map(|(at, _)| axes.workers[at].clone()).chain([others, Dim::Int(size)]).collect();
    let times = |factor: i64| {
        let literals = factors.iter().filter_map(Dim::as_int);
        let literal = literals.fold(factor, i64::saturating_mul);
        let variables = factors.iter().filter(|own| own.as_int().is_none());
        match literal {
            0 => Dim::Int(0),
            _ => Dim::op(DimOp::Mul, Dim::Int(literal), Dim::product(variables.chain(dims))),
        }
    };
    match collective {
        Collective::AllGather(_) | Collective::ReduceScatter(..) => times(1),
        Collective::AllReduce(_) => times(2),
        Collective::AllToAll { .. } => {
            Dim::op(DimOp::FloorDiv, times(1), axes.workers[mesh_dim].clone())
        }
        Collective::OwnShard(_) => Dim::Int(0),
    }
}
