//! The same elements in another order.

use crate::ops::dims::{pick, tensor};
use crate::ops::{Eval, Infer, Reject, normalize_axis};
use crate::stop::Stop;
use crate::tensor::{strided_positions, strides};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents};

pub(super) fn infer_flip(infer: &mut Infer) -> Result<Annotation, Reject> {
    let data = infer.tensor("data")?;
    let axis = infer.int("axis")?;
    if let Some(rank) = data.extents.rank() {
        infer.axis("C1", axis, rank)?;
    }
    Ok(Annotation::Tensor(data))
}

pub(super) fn eval_flip(eval: &Eval) -> Result<Value, Stop> {
    let data = eval.tensor_as_it_is("data");
    let axis = position(eval, "axis", data.rank());
    let along: Vec<usize> = (0..data.shape()[axis]).rev().collect();
    Ok(Value::Tensor(pick(data, axis, &along)))
}

/// An axis attribute that `infer` has checked.
pub(super) fn position(eval: &Eval, param: &str, rank: usize) -> usize {
    normalize_axis(eval.int(param), rank).expect("invariant: infer checks the axis")
}

/// The dims of `x` in the order of the result; `None` when the rank is not known.
fn order(infer: &Infer, rank: Option<usize>) -> Result<Option<Vec<usize>>, Reject> {
    if infer.is_none("axes") {
        return Ok(rank.map(|rank| (0..rank).rev().collect()));
    }
    let axes = infer.ints("axes")?;
    let rank = rank.unwrap_or(axes.len());
    if axes.len() != rank {
        let message = format!("{} axes can't order the {rank} dims of `x`", axes.len());
        return Err(infer.reject("C1", message));
    }
    infer.axes("C1", &axes, rank)?;
    Ok(Some(axes.iter().filter_map(|&axis| normalize_axis(axis, rank)).collect()))
}

pub(super) fn infer_permute(infer: &mut Infer) -> Result<Annotation, Reject> {
    let x = infer.tensor("x")?;
    let order = order(infer, x.extents.rank())?;
    let extents = match (order, &x.extents) {
        (Some(order), Extents::Known(dims)) => {
            Extents::Known(order.iter().map(|&axis| dims[axis].clone()).collect())
        }
        (Some(order), _) => Extents::Rank(order.len()),
        (None, _) => Extents::Unknown,
    };
    Ok(tensor(extents, x.dtype))
}

pub(super) fn eval_permute(eval: &Eval) -> Result<Value, Stop> {
    let (_, shape) = eval.out_tensor()?;
    let x = eval.tensor_as_it_is("x");
    let steps = strides(x.shape());
    let reversed = || (0..x.rank()).rev().collect();
    let given = || {
        let axes = eval.ints("axes");
        axes.iter().filter_map(|&axis| normalize_axis(axis, x.rank())).collect()
    };
    let order: Vec<usize> = if eval.is_none("axes") { reversed() } else { given() };
    let steps: Vec<usize> = order.iter().map(|&axis| steps[axis]).collect();
    Ok(Value::Tensor(x.select(&shape, &strided_positions(&shape, &steps))))
}

pub(super) fn infer_reverse_sequence(infer: &mut Infer) -> Result<Annotation, Reject> {
    let (data, lengths) = (infer.tensor("data")?, infer.tensor("seq_lengths")?);
    let (seq_axis, batch_axis) = (infer.int("seq_axis")?, infer.int("batch_axis")?);
    infer.require_dtype("C2", "seq_lengths", |dtype| dtype.is_integer())?;
    if let Some(rank) = lengths.extents.rank().filter(|&rank| rank != 1) {
        let message = format!("`seq_lengths` must be a vector, found rank {rank}");
        return Err(infer.reject("C2", message));
    }
    let Some(rank) = data.extents.rank() else { return Ok(Annotation::Tensor(data)) };
    let axes = [seq_axis, batch_axis];
    infer.axes("C1", &axes, rank)?;
    let batch_axis = infer.axis("C1", batch_axis, rank)?;
    if let (Some(dims), Some([count])) = (data.extents.dims(), lengths.extents.dims()) {
        let batch = &dims[batch_axis];
        infer.require_equal("C3", count, batch, || {
            format!(
                "`seq_lengths` must have one length for each of the {batch} at axis {batch_axis}, \
                 found {count}"
            )
        })?;
    }
    Ok(Annotation::Tensor(data))
}

pub(super) fn eval_reverse_sequence(eval: &Eval) -> Result<Value, Stop> {
    let data = eval.tensor_as_it_is("data");
    let lengths = eval.tensor("seq_lengths")?.to_ints();
    let shape = data.shape();
    let (sequence, batch) =
        (position(eval, "seq_axis", shape.len()), position(eval, "batch_axis", shape.len()));
    let steps = strides(shape);
    let extent = shape[sequence];
    let lengths: Vec<usize> =
        lengths.iter().map(|&length| length.clamp(0, extent as i128) as usize).collect();
    let moved = |at: usize| {
        let index = at / steps[sequence] % extent;
        let length = lengths[at / steps[batch] % shape[batch]];
        let to = if index < length { length - 1 - index } else { index };
        at - index * steps[sequence] + to * steps[sequence]
    };
    let positions: Vec<usize> = (0..data.len()).map(moved).collect();
    Ok(Value::Tensor(data.select(shape, &positions)))
}
