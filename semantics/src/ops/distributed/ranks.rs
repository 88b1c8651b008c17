//! Collectives of one rank of a program that every worker of a mesh runs on its own shards (SPMD).
//!
//! A group is the workers of a mesh that differ in one coordinate only; `rank` is that coordinate. Shards are those of
//! `S[d]`: `min(max(n - rank * c, 0), c)` rows of n, with `c = ceildiv(n, num_workers)`. No result is padded. Reductions
//! are formed in the order of the ranks, so that results are deterministic.

use super::ASYNC;
use super::passed::collective;
use crate::ops::dims::tensor;
use crate::ops::{Eval, Infer, Machine, Reject};
use crate::ranks::{Alike, Exchange};
use crate::stop::Stop;
use crate::value::Value;
use relax_syntax::annotation::{
    Annotation, Extents, Reduction, TensorType, shard_extent, stage_extent,
};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};

/// The number of workers and the rank, under C1; the attributes that name the group.
fn group(infer: &mut Infer) -> Result<(Dim, Dim), Reject> {
    let (mesh, axis) = (infer.str("device_mesh")?, infer.int("mesh_dim")?);
    // What it says is no matter of types, but it must be True or False.
    infer.bool(ASYNC)?;
    if mesh.is_empty() || axis < 0 {
        return Err(infer.reject("C1", "a group has a mesh and an axis of it"));
    }
    rank(infer)
}

/// The number of workers, at least 1, and the rank among them, under C1.
fn rank(infer: &mut Infer) -> Result<(Dim, Dim), Reject> {
    let (workers, rank) = (infer.dim("num_workers")?, infer.dim("rank")?);
    infer.require("C1", Claim::new(1, Relation::AtMost, workers.clone()), || {
        format!("there is at least 1 worker, found {workers}")
    })?;
    let message = || format!("a rank of {workers} workers is in 0..{workers}, found {rank}");
    infer.require("C1", Claim::new(0, Relation::AtMost, rank.clone()), message)?;
    infer.require("C1", Claim::new(rank.clone(), Relation::Less, workers.clone()), message)?;
    Ok((workers, rank))
}

/// The operand and an axis of it, under C2.
fn along(infer: &Infer, param: &str) -> Result<(TensorType, Option<usize>), Reject> {
    let (x, axis) = (infer.tensor("x")?, infer.int(param)?);
    let axis = x.extents.rank().map(|rank| infer.axis("C2", axis, rank)).transpose()?;
    Ok((x, axis))
}

/// Demands that `dims[axis]` is the shard of `extent`, and puts the whole extent there.
fn whole(
    infer: &mut Infer,
    dims: &mut [Dim],
    axis: usize,
    (workers, rank): (&Dim, &Dim),
) -> Result<(), Reject> {
    let extent = infer.dim("extent")?;
    infer.require("C3", Claim::new(0, Relation::AtMost, extent.clone()), || {
        format!("an extent is not negative, found {extent}")
    })?;
    let shard = shard_extent(&extent, workers, rank);
    infer.require_equal("C3", &dims[axis], &shard, || {
        format!("the shard of rank {rank} of {extent} rows has {shard}, found {}", dims[axis])
    })?;
    dims[axis] = extent;
    Ok(())
}

fn reduction(infer: &Infer, x: &TensorType, id: &'static str) -> Result<(), Reject> {
    let name = infer.str("op_type")?;
    if !Reduction::ALL.iter().any(|reduction| reduction.name() == name) {
        let message = format!("`op_type` must be sum, max or min, found {name:?}");
        return Err(infer.reject(id, message));
    }
    if x.dtype == Some(DType::Bool) {
        return Err(infer.reject(id, "truth values have no reduction over ranks"));
    }
    Ok(())
}

pub(super) fn infer_own_shard(infer: &mut Infer) -> Result<Annotation, Reject> {
    let (workers, rank) = rank(infer)?;
    let (x, axis) = along(infer, "axis")?;
    cut(infer, x, axis, (&workers, &rank))
}

/// The type of the shard of a tensor.
fn cut(
    infer: &mut Infer,
    x: TensorType,
    axis: Option<usize>,
    (workers, rank): (&Dim, &Dim),
) -> Result<Annotation, Reject> {
    let (Some(axis), Extents::Known(dims)) = (axis, &x.extents) else {
        return Ok(Annotation::Tensor(x));
    };
    let mut dims = dims.clone();
    dims[axis] = shard_extent(&dims[axis], workers, rank);
    Ok(tensor(infer.settled("C2", &dims)?, x.dtype))
}

pub(super) fn infer_all_reduce(infer: &mut Infer) -> Result<Annotation, Reject> {
    group(infer)?;
    let x = infer.tensor("x")?;
    reduction(infer, &x, "C2")?;
    Ok(Annotation::Tensor(x))
}

pub(super) fn infer_reduce_scatter(infer: &mut Infer) -> Result<Annotation, Reject> {
    let (workers, rank) = group(infer)?;
    let (x, axis) = along(infer, "axis")?;
    reduction(infer, &x, "C3")?;
    cut(infer, x, axis, (&workers, &rank))
}

pub(super) fn infer_all_gather(infer: &mut Infer) -> Result<Annotation, Reject> {
    let (workers, rank) = group(infer)?;
    let (x, axis) = along(infer, "axis")?;
    let (Some(axis), Extents::Known(dims)) = (axis, &x.extents) else {
        return Ok(Annotation::Tensor(x));
    };
    let mut dims = dims.clone();
    whole(infer, &mut dims, axis, (&workers, &rank))?;
    Ok(tensor(infer.settled("C3", &dims)?, x.dtype))
}

pub(super) fn infer_all_to_all(infer: &mut Infer) -> Result<Annotation, Reject> {
    let (workers, rank) = group(infer)?;
    let (x, split) = along(infer, "split_axis")?;
    let (_, concat) = along(infer, "concat_axis")?;
    let (Some(split), Some(concat), Extents::Known(dims)) = (split, concat, &x.extents) else {
        return Ok(Annotation::Tensor(x));
    };
    if split == concat {
        return Err(infer.reject("C2", "split_axis and concat_axis are the same axis"));
    }
    let mut dims = dims.clone();
    whole(infer, &mut dims, concat, (&workers, &rank))?;
    dims[split] = shard_extent(&dims[split], &workers, &rank);
    Ok(tensor(infer.settled("C3", &dims)?, x.dtype))
}

/// A rank of a group that an attribute names, under C2.
fn stage(infer: &mut Infer, param: &str, workers: &Dim) -> Result<usize, Reject> {
    let stage = infer.int(param)?;
    let message = || format!("`{param}` is in 0..{workers}, found {stage}");
    let Ok(found) = usize::try_from(stage) else { return Err(infer.reject("C2", message())) };
    let claim = Claim::new(stage, Relation::Less, workers.clone());
    infer.require("C2", claim, message)?;
    Ok(found)
}

/// The type of a tensor with another first dim; a scalar has none.
fn with_rows(
    infer: &mut Infer,
    (x, id): (TensorType, &'static str),
    rows: &dyn Fn(&Dim) -> Dim,
) -> Result<Annotation, Reject> {
    let Extents::Known(mut dims) = x.extents else { return Ok(Annotation::Tensor(x)) };
    if let Some(first) = dims.first_mut() {
        *first = rows(first);
    }
    Ok(tensor(infer.settled(id, &dims)?, x.dtype))
}

/// Demands of a tensor that rank `source` alone has that it has `extent` rows there, and gives the extent.
fn of_source(
    infer: &mut Infer,
    x: &TensorType,
    source: usize,
    (workers, rank): (&Dim, &Dim),
) -> Result<Dim, Reject> {
    let extent = infer.dim("extent")?;
    infer.require("C3", Claim::new(0, Relation::AtMost, extent.clone()), || {
        format!("an extent is not negative, found {extent}")
    })?;
    if let Some(first) = x.extents.dims().and_then(<[Dim]>::first) {
        let own = stage_extent(&extent, source, workers, rank);
        infer.require_equal("C3", first, &own, || {
            format!("rank {rank} has {own} rows of what rank {source} has, found {first}")
        })?;
    }
    Ok(extent)
}

pub(super) fn infer_only(infer: &mut Infer) -> Result<Annotation, Reject> {
    let (workers, rank) = rank(infer)?;
    let (target, x) = (stage(infer, "target", &workers)?, infer.tensor("x")?);
    with_rows(infer, (x, "C2"), &|extent| stage_extent(extent, target, &workers, &rank))
}

pub(super) fn infer_send(infer: &mut Infer) -> Result<Annotation, Reject> {
    let (workers, rank) = group(infer)?;
    let (source, target) = (stage(infer, "source", &workers)?, stage(infer, "target", &workers)?);
    let x = infer.tensor("x")?;
    let extent = of_source(infer, &x, source, (&workers, &rank))?;
    with_rows(infer, (x, "C3"), &|_| stage_extent(&extent, target, &workers, &rank))
}

pub(super) fn infer_broadcast(infer: &mut Infer) -> Result<Annotation, Reject> {
    let (workers, rank) = group(infer)?;
    let (source, x) = (stage(infer, "source", &workers)?, infer.tensor("x")?);
    let extent = of_source(infer, &x, source, (&workers, &rank))?;
    with_rows(infer, (x, "C3"), &|_| extent.clone())
}

/// What a rank keeps of its own tensor.
pub(super) fn eval_alone(eval: &Eval) -> Result<Value, Stop> {
    let x = eval.tensor_as_it_is("x").clone();
    let alone = &mut |_: Exchange, _: &Alike<'_>| {
        Err(Stop::Unsupported("a shard that others are asked for".to_owned()))
    };
    collective(eval, x, alone).map(Value::Tensor)
}

/// A collective on tensors of the interpreter.
pub(super) fn eval_collective(eval: &Eval, machine: &mut dyn Machine) -> Result<Value, Stop> {
    let x = eval.tensor("x")?.clone();
    collective(eval, x, &mut |own, alike| machine.exchange(own, alike)).map(Value::Tensor)
}
