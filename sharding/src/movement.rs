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
    /// One rank keeps what every rank has.
    Only(usize),
    /// What one rank has becomes what another one has.
    Send {
        /// The rank that has it before.
        from: usize,
        /// The rank that has it after.
        to: usize,
    },
    /// What one rank has becomes what every rank has.
    Broadcast(usize),
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
            Collective::Only(_) => "spmd.only",
            Collective::Send { .. } => "spmd.send",
            Collective::Broadcast(_) => "spmd.broadcast",
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
                (Placement::Replicated, Placement::Only(stage)) => {
                    (Collective::Only(stage), Placement::Only(stage))
                }
                (Placement::Only(from), Placement::Only(to)) => {
                    (Collective::Send { from, to }, Placement::Only(to))
                }
                (Placement::Only(stage), _) => {
                    (Collective::Broadcast(stage), Placement::Replicated)
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

/// The axes of the mesh along which all workers have the same elements.
pub(crate) fn copies(layout: &[Placement]) -> impl Iterator<Item = usize> {
    let is_copy = |own: &Placement| matches!(own, Placement::Replicated | Placement::Partial(_));
    layout.iter().enumerate().filter(move |(_, own)| is_copy(own)).map(|(at, _)| at)
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
    let copies = copies(now).filter(|at| *at != mesh_dim);
    let others = Dim::op(DimOp::Sub, axes.workers[mesh_dim].clone(), Dim::Int(1));
    let size = i64::try_from(dtype.size()).unwrap_or(i64::MAX);
    // Literal factors are one, in front.
    let others = match collective {
        Collective::Send { .. } => Dim::Int(1),
        _ => others,
    };
    let factors: Vec<Dim> =
        copies.map(|at| axes.workers[at].clone()).chain([others, Dim::Int(size)]).collect();
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
        Collective::AllGather(_)
        | Collective::ReduceScatter(..)
        | Collective::Send { .. }
        | Collective::Broadcast(_) => times(1),
        Collective::AllReduce(_) => times(2),
        Collective::AllToAll { .. } => {
            Dim::op(DimOp::FloorDiv, times(1), axes.workers[mesh_dim].clone())
        }
        Collective::OwnShard(_) | Collective::Only(_) => Dim::Int(0),
    }
}
