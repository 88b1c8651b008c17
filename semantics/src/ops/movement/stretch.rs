//! Elements repeated, and the sum that undoes it.

use super::order::position;
use crate::ops::broadcast::{broadcast_to, positions};
use crate::ops::dims::{pick, tensor, volume};
use crate::ops::sum::Sum;
use crate::ops::{Constraint, Eval, Infer, Reject, constraint};
use crate::stop::Stop;
use crate::tensor::{Elements, Tensor, array};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};

pub(super) const COLLAPSE_CONSTRAINTS: &[Constraint] = &[
    constraint("C1", "no dim of the shape is negative, and each fits i64"),
    constraint("C2", "the shape has at most the rank of data"),
    constraint("C3", "every dim of the shape is 1 or equals that of data, aligned at the last"),
    constraint("C4", "data is not bool"),
];

pub(super) fn infer_broadcast(infer: &mut Infer) -> Result<Annotation, Reject> {
    let x = infer.tensor("x")?;
    let shape = infer.result_shape("C1", "shape")?;
    require_aligned(infer, &x.extents, &shape, "x")?;
    Ok(tensor(shape, x.dtype))
}

/// Demands that `narrow` broadcasts to `wide`, under C2 (ranks) and C3 (dims).
fn require_aligned(
    infer: &mut Infer,
    narrow: &Extents,
    wide: &Extents,
    what: &str,
) -> Result<(), Reject> {
    let (Some(from), Some(to)) = (narrow.rank(), wide.rank()) else { return Ok(()) };
    if from > to {
        let message = format!("{what} of rank {from} does not fit rank {to}");
        return Err(infer.reject("C2", message));
    }
    let (Some(narrow), Some(wide)) = (narrow.dims(), wide.dims()) else { return Ok(()) };
    for (axis, (a, b)) in narrow.iter().zip(&wide[to - from..]).enumerate() {
        infer.require_stretches("C3", a, b, || {
            format!("dim {axis} of {what} must be 1 or {b} to stretch to it, found {a}")
        })?;
    }
    Ok(())
}

pub(super) fn eval_broadcast(eval: &Eval) -> Result<Value, Stop> {
    let (_, shape) = eval.out_tensor()?;
    Ok(Value::Tensor(broadcast_to(eval.tensor_as_it_is("x"), &shape)))
}

/// A repeat count, which is at least 0.
fn require_counts(
    infer: &mut Infer,
    constraint: &'static str,
    counts: &[Dim],
) -> Result<(), Reject> {
    counts.iter().try_for_each(|count| {
        let claim = Claim::new(0, Relation::AtMost, count.clone());
        infer.require(constraint, claim, || format!("repeats may not be negative, found {count}"))
    })
}

fn times(a: &Dim, b: &Dim) -> Dim {
    volume(&[a.clone(), b.clone()])
}

pub(super) fn infer_repeat(infer: &mut Infer) -> Result<Annotation, Reject> {
    let data = infer.tensor("data")?;
    let repeats = infer.dim("repeats")?;
    require_counts(infer, "C2", std::slice::from_ref(&repeats))?;
    let extents = if infer.is_none("axis") {
        match &data.extents {
            Extents::Known(dims) => infer.settled("C3", &[times(&volume(dims), &repeats)])?,
            _ => Extents::Rank(1),
        }
    } else {
        let axis = infer.int("axis")?;
        let axis = data.extents.rank().map(|rank| infer.axis("C1", axis, rank)).transpose()?;
        match (axis, &data.extents) {
            (Some(axis), Extents::Known(dims)) => {
                let mut dims = dims.clone();
                dims[axis] = times(&dims[axis], &repeats);
                infer.settled("C3", &dims)?
            }
            (_, other) => other.clone(),
        }
    };
    Ok(tensor(extents, data.dtype))
}

pub(super) fn eval_repeat(eval: &Eval) -> Result<Value, Stop> {
    let (_, shape) = eval.out_tensor()?;
    let data = eval.tensor_as_it_is("data");
    let (data, axis) = if eval.is_none("axis") {
        (data.reshaped(&[data.len()]), 0)
    } else {
        (data.clone(), position(eval, "axis", shape.len()))
    };
    if shape.contains(&0) {
        return Ok(Value::Tensor(data.select(&shape, &[])));
    }
    // Not 0, for then the result would be empty.
    let repeats = shape[axis] / data.shape()[axis];
    let along: Vec<usize> = (0..shape[axis]).map(|index| index / repeats).collect();
    Ok(Value::Tensor(pick(&data, axis, &along)))
}

pub(super) fn infer_tile(infer: &mut Infer) -> Result<Annotation, Reject> {
    let data = infer.tensor("data")?;
    let repeats = infer.dims("repeats")?;
    require_counts(infer, "C1", &repeats)?;
    let extents = match &data.extents {
        Extents::Known(dims) => {
            let rank = dims.len().max(repeats.len());
            let led = |list: &[Dim], at: usize| {
                (at + list.len()).checked_sub(rank).map_or(Dim::Int(1), |own| list[own].clone())
            };
            let dims: Vec<Dim> =
                (0..rank).map(|at| times(&led(dims, at), &led(&repeats, at))).collect();
            infer.settled("C2", &dims)?
        }
        Extents::Rank(rank) => Extents::Rank((*rank).max(repeats.len())),
        Extents::Unknown => Extents::Unknown,
    };
    Ok(tensor(extents, data.dtype))
}

pub(super) fn eval_tile(eval: &Eval) -> Result<Value, Stop> {
    let (_, shape) = eval.out_tensor()?;
    let data = eval.tensor_as_it_is("data");
    if shape.contains(&0) {
        return Ok(Value::Tensor(data.select(&shape, &[])));
    }
    let led = [&vec![1; shape.len() - data.rank()], data.shape()].concat();
    let mut tiled = data.reshaped(&led);
    for (axis, (&extent, &from)) in shape.iter().zip(&led).enumerate() {
        if extent != from {
            let along: Vec<usize> = (0..extent).map(|index| index % from).collect();
            tiled = pick(&tiled, axis, &along);
        }
    }
    Ok(Value::Tensor(tiled))
}

pub(super) fn infer_collapse_to(infer: &mut Infer) -> Result<Annotation, Reject> {
    let shape = infer.result_shape("C1", "shape")?;
    infer_collapse(infer, shape)
}

pub(super) fn infer_collapse_like(infer: &mut Infer) -> Result<Annotation, Reject> {
    let shape = infer.tensor("collapse_target")?.extents;
    infer_collapse(infer, shape)
}

fn infer_collapse(infer: &mut Infer, shape: Extents) -> Result<Annotation, Reject> {
    let data = infer.tensor("data")?;
    infer.require_dtype("C4", "data", |dtype| dtype != DType::Bool)?;
    require_aligned(infer, &shape, &data.extents, "the shape")?;
    Ok(Annotation::Tensor(TensorType { extents: shape, dtype: data.dtype }))
}

pub(super) fn eval_collapse(eval: &Eval) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    let data = eval.tensor("data")?;
    if data.shape() == shape {
        return Ok(Value::Tensor(data.clone()));
    }
    let targets = positions(&shape, data.shape());
    let size = shape.iter().product();
    Ok(Value::Tensor(match data.elements() {
        Elements::Int(values) => {
            let mut sums = vec![0i128; size];
            for (value, &target) in values.iter().zip(&targets) {
                sums[target] = sums[target].wrapping_add(*value);
            }
            Tensor::from_ints(dtype, array(&shape, sums))
        }
        Elements::Float(values) => {
            let mut sums = vec![Sum::default(); size];
            for (value, &target) in values.iter().zip(&targets) {
                sums[target].add(*value);
            }
            let sums = sums.iter().map(Sum::value).collect();
            Tensor::from_floats(dtype, array(&shape, sums))
        }
    }))
}
