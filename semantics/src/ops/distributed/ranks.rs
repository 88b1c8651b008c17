//! Collectives of one rank of a program that every worker of a mesh runs on its own shards (SPMD).
//!
//! A group is the workers of a mesh that differ in one coordinate only; `rank` is that coordinate. Shards are those of
//! `S[d]`: `min(max(n - rank * c, 0), c)` rows of n, with `c = ceildiv(n, num_workers)`. No result is padded. Reductions
//! are formed in the order of the ranks, so that results are deterministic.

use crate::ops::dims::{pick, tensor};
use crate::ops::{Eval, Infer, Machine, Reject, apply, lookup, normalize_axis};
use crate::ranks::Exchange;
use crate::stop::Stop;
use crate::tensor::Tensor;
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents, Reduction, TensorType, shard_extent};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};

/// The number of workers and the rank, under C1; the attributes that name the group.
fn group(infer: &mut Infer) -> Result<(i64, Dim), Reject> {
    let mesh = infer.str("device_mesh")?;
    let (axis, workers) = (infer.int("mesh_dim")?, infer.int("num_workers")?);
    if mesh.is_empty() || axis < 0 || workers < 1 {
        let message = "a group has a mesh, an axis of it and at least 1 worker";
        return Err(infer.reject("C1", message));
    }
    Ok((workers, rank(infer, workers)?))
}

fn rank(infer: &mut Infer, workers: i64) -> Result<Dim, Reject> {
    let rank = infer.dim("rank")?;
    let message = || format!("a rank of {workers} workers is in 0..{workers}, found {rank}");
    infer.require("C1", Claim::new(0, Relation::AtMost, rank.clone()), message)?;
    infer.require("C1", Claim::new(rank.clone(), Relation::Less, workers), message)?;
    Ok(rank)
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
    (workers, rank): (i64, &Dim),
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
    let workers = infer.int("num_workers")?;
    if workers < 1 {
        return Err(infer.reject("C1", format!("there is at least 1 worker, found {workers}")));
    }
    let rank = rank(infer, workers)?;
    let (x, axis) = along(infer, "axis")?;
    cut(infer, x, axis, (workers, &rank))
}

/// The type of the shard of a tensor.
fn cut(
    infer: &mut Infer,
    x: TensorType,
    axis: Option<usize>,
    (workers, rank): (i64, &Dim),
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
    cut(infer, x, axis, (workers, &rank))
}

pub(super) fn infer_all_gather(infer: &mut Infer) -> Result<Annotation, Reject> {
    let (workers, rank) = group(infer)?;
    let (x, axis) = along(infer, "axis")?;
    let (Some(axis), Extents::Known(dims)) = (axis, &x.extents) else {
        return Ok(Annotation::Tensor(x));
    };
    let mut dims = dims.clone();
    whole(infer, &mut dims, axis, (workers, &rank))?;
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
    whole(infer, &mut dims, concat, (workers, &rank))?;
    dims[split] = shard_extent(&dims[split], workers, &rank);
    Ok(tensor(infer.settled("C3", &dims)?, x.dtype))
}

fn axis(eval: &Eval, param: &str, x: &Tensor) -> usize {
    normalize_axis(eval.int(param), x.rank()).expect("invariant: infer checks the axis")
}

/// The rows of a tensor that belong to a rank.
fn shard(x: &Tensor, axis: usize, workers: i64, rank: i64) -> Tensor {
    let extent = i64::try_from(x.shape()[axis]).unwrap_or(i64::MAX);
    let shard = shard_extent(&Dim::Int(extent), workers, &Dim::Int(rank)).as_int().unwrap_or(0);
    let block = Dim::op(DimOp::CeilDiv, Dim::Int(extent), Dim::Int(workers)).as_int().unwrap_or(0);
    // An empty shard lies behind the last row.
    let begin = rank.saturating_mul(block).min(extent);
    let rows = (begin..begin + shard).filter_map(|row| usize::try_from(row).ok());
    pick(x, axis, &rows.collect::<Vec<_>>())
}

pub(super) fn eval_own_shard(eval: &Eval) -> Result<Value, Stop> {
    let x = eval.tensor_as_it_is("x");
    let axis = axis(eval, "axis", x);
    Ok(Value::Tensor(shard(x, axis, eval.int("num_workers"), eval.int("rank"))))
}

/// What every rank of the group passes, in the order of the ranks.
fn exchanged(
    eval: &Eval,
    machine: &mut dyn Machine,
    what: &[(&str, String)],
) -> Result<Vec<Tensor>, Stop> {
    let number = |param: &str| usize::try_from(eval.int(param)).unwrap_or(usize::MAX);
    let words: Vec<String> = what.iter().map(|(name, value)| format!("{name}={value}")).collect();
    machine.exchange(Exchange {
        what: format!("{}({})", eval.row.name, words.join(", ")),
        mesh: eval.str("device_mesh"),
        mesh_dim: number("mesh_dim"),
        workers: number("num_workers"),
        rank: number("rank"),
        tensor: eval.tensor("x")?.clone(),
    })
}

fn reduced(eval: &Eval, parts: Vec<Tensor>) -> Result<Value, Stop> {
    let row = match eval.str("op_type").as_str() {
        "sum" => "add",
        "max" => "maximum",
        _ => "minimum",
    };
    let row = lookup(row).expect("invariant: the table has the row");
    let mut parts = parts.into_iter().map(Value::Tensor);
    let first = parts.next().expect("invariant: a group has a rank");
    parts.try_fold(first, |sum, part| apply(row, vec![sum, part], Vec::new(), eval.limits, None))
}

/// Demands of what ranks passed that all have the dtype of this one, and its dims but along `axis`.
fn alike(eval: &Eval, parts: &[Tensor], axis: Option<usize>, id: &'static str) -> Result<(), Stop> {
    let own = eval.tensor_as_it_is("x");
    for (rank, part) in parts.iter().enumerate() {
        let pairs = part.shape().iter().zip(own.shape()).enumerate();
        let same = part.rank() == own.rank()
            && part.dtype() == own.dtype()
            && pairs.into_iter().all(|(at, (a, b))| a == b || Some(at) == axis);
        if !same {
            let message = format!(
                "rank {} passes {} {:?}, rank {rank} passes {} {:?}",
                eval.int("rank"),
                own.dtype(),
                own.shape(),
                part.dtype(),
                part.shape()
            );
            return Err(eval.trap(id, message));
        }
    }
    Ok(())
}

/// The parts one after the other along an axis.
fn joined(eval: &Eval, parts: Vec<Tensor>, axis: usize) -> Result<Value, Stop> {
    let row = lookup("concat").expect("invariant: the table has the row");
    let parts = Value::Tuple(parts.into_iter().map(Value::Tensor).collect());
    let axis = Value::int(i64::try_from(axis).unwrap_or(i64::MAX));
    apply(row, vec![parts, axis], Vec::new(), eval.limits, None)
}

pub(super) fn eval_all_reduce(eval: &Eval, machine: &mut dyn Machine) -> Result<Value, Stop> {
    let parts = exchanged(eval, machine, &[("op_type", eval.str("op_type").to_string())])?;
    alike(eval, &parts, None, "C3")?;
    reduced(eval, parts)
}

pub(super) fn eval_reduce_scatter(eval: &Eval, machine: &mut dyn Machine) -> Result<Value, Stop> {
    let (x, workers) = (eval.tensor_as_it_is("x"), eval.int("num_workers"));
    let axis = axis(eval, "axis", x);
    let what = [("axis", axis.to_string()), ("op_type", eval.str("op_type").to_string())];
    let parts = exchanged(eval, machine, &what)?;
    alike(eval, &parts, None, "C4")?;
    let own = |part: &Tensor| shard(part, axis, workers, eval.int("rank"));
    reduced(eval, parts.iter().map(own).collect())
}

pub(super) fn eval_all_gather(eval: &Eval, machine: &mut dyn Machine) -> Result<Value, Stop> {
    let axis = axis(eval, "axis", eval.tensor_as_it_is("x"));
    let what = [("axis", axis.to_string()), ("extent", eval.int("extent").to_string())];
    let parts = exchanged(eval, machine, &what)?;
    alike(eval, &parts, Some(axis), "C4")?;
    joined(eval, parts, axis)
}

pub(super) fn eval_all_to_all(eval: &Eval, machine: &mut dyn Machine) -> Result<Value, Stop> {
    let (x, workers) = (eval.tensor_as_it_is("x"), eval.int("num_workers"));
    let (split, concat) = (axis(eval, "split_axis", x), axis(eval, "concat_axis", x));
    let what = [
        ("split_axis", split.to_string()),
        ("concat_axis", concat.to_string()),
        ("extent", eval.int("extent").to_string()),
    ];
    let parts = exchanged(eval, machine, &what)?;
    alike(eval, &parts, Some(concat), "C4")?;
    let own = |part: &Tensor| shard(part, split, workers, eval.int("rank"));
    joined(eval, parts.iter().map(own).collect(), concat)
}
