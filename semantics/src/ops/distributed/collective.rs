//! Collective operations: all workers take part.

use crate::ops::dims::{pick, tensor, volume};
use crate::ops::{Eval, Infer, Reject, normalize_axis};
use crate::stop::Stop;
use crate::tensor::{Elements, Tensor};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};

const REDUCTIONS: [&str; 5] = ["sum", "prod", "min", "max", "avg"];

pub(super) fn infer_same(infer: &mut Infer) -> Result<Annotation, Reject> {
    let tensor = infer.tensor("x")?;
    Ok(match &infer.operand("x").annotation {
        distributed @ Annotation::DTensor(_) => distributed.clone(),
        _ => Annotation::Tensor(tensor),
    })
}

pub(super) fn eval_same(eval: &Eval) -> Result<Value, Stop> {
    Ok(eval.value("x").clone())
}

pub(super) fn infer_allreduce(infer: &mut Infer) -> Result<Annotation, Reject> {
    check_reduction(infer, "C1")?;
    infer.bool("in_group")?;
    infer_same(infer)
}

fn check_reduction(infer: &Infer, constraint: &'static str) -> Result<(), Reject> {
    let op_type = infer.str("op_type")?;
    if REDUCTIONS.contains(&op_type.as_str()) {
        return Ok(());
    }
    let message = format!("`op_type` must be one of {}, found {op_type:?}", REDUCTIONS.join(" "));
    Err(infer.reject(constraint, message))
}

/// The number of workers, under C1.
fn workers(infer: &Infer) -> Result<i64, Reject> {
    let workers = infer.int("num_workers")?;
    if workers >= 1 {
        return Ok(workers);
    }
    Err(infer.reject("C1", format!("there is at least 1 worker, found {workers}")))
}

pub(super) fn infer_allgather(infer: &mut Infer) -> Result<Annotation, Reject> {
    let x = infer.tensor("x")?;
    let workers = workers(infer)?;
    infer.bool("in_group")?;
    if x.extents.rank() == Some(0) {
        return Err(infer.reject("C2", "scalars can't be joined along dim 0"));
    }
    let Extents::Known(mut dims) = x.extents else { return Ok(Annotation::Tensor(x)) };
    dims[0] = volume(&[dims[0].clone(), Dim::Int(workers)]);
    Ok(tensor(infer.settled("C3", &dims)?, x.dtype))
}

pub(super) fn eval_allgather(eval: &Eval) -> Result<Value, Stop> {
    let (_, shape) = eval.out_tensor()?;
    Ok(Value::Tensor(repeated(eval.tensor_as_it_is("x"), 0, shape[0])))
}

/// The tensor over and over along `axis`, until it is `extent` long there.
fn repeated(x: &Tensor, axis: usize, extent: usize) -> Tensor {
    let own = x.shape()[axis];
    let along: Vec<usize> = (0..extent).map(|index| index % own).collect();
    pick(x, axis, &along)
}

/// `dims[axis]` over the workers, under C3.
fn divide(infer: &mut Infer, dims: &mut [Dim], axis: usize, workers: i64) -> Result<(), Reject> {
    let dim = dims[axis].clone();
    infer.require("C3", Claim::new(workers, Relation::Divides, dim.clone()), || {
        format!("{workers} workers can't have equal parts of {dim} at axis {axis}")
    })?;
    dims[axis] = Dim::op(DimOp::FloorDiv, dim, Dim::Int(workers));
    Ok(())
}

pub(super) fn infer_scatter(infer: &mut Infer) -> Result<Annotation, Reject> {
    let x = infer.tensor("x")?;
    let (workers, axis) = (workers(infer)?, infer.int("axis")?);
    let axis = x.extents.rank().map(|rank| infer.axis("C2", axis, rank)).transpose()?;
    let (Some(axis), Extents::Known(dims)) = (axis, &x.extents) else {
        return Ok(Annotation::Tensor(x));
    };
    let mut dims = dims.clone();
    divide(infer, &mut dims, axis, workers)?;
    Ok(tensor(infer.settled("C3", &dims)?, x.dtype))
}

fn axis(eval: &Eval, param: &str, x: &Tensor) -> usize {
    normalize_axis(eval.int(param), x.rank()).expect("invariant: infer checks the axis")
}

/// The first part along `axis`.
fn first_part(x: &Tensor, axis: usize, extent: usize) -> Tensor {
    pick(x, axis, &(0..extent).collect::<Vec<_>>())
}

pub(super) fn eval_scatter(eval: &Eval) -> Result<Value, Stop> {
    let (_, shape) = eval.out_tensor()?;
    let x = eval.tensor_as_it_is("x");
    let axis = axis(eval, "axis", x);
    Ok(Value::Tensor(first_part(x, axis, shape[axis])))
}

pub(super) fn infer_reduce_scatter(infer: &mut Infer) -> Result<Annotation, Reject> {
    check_reduction(infer, "C4")?;
    infer.bool("in_group")?;
    infer_scatter(infer)
}

pub(super) fn eval_reduce_scatter(eval: &Eval) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    let x = eval.tensor("x")?;
    let axis = axis(eval, "axis", x);
    let part = first_part(x, axis, shape[axis]);
    let workers = eval.int("num_workers");
    // The least, greatest and mean of equal numbers are that number.
    let is_sum = match eval.str("op_type").as_str() {
        "sum" => true,
        "prod" => false,
        _ => return Ok(Value::Tensor(part)),
    };
    let reduced = match part.elements() {
        Elements::Float(values) if is_sum => Elements::Float(values * workers as f64),
        Elements::Float(values) => Elements::Float(values.mapv(|v| v.powf(workers as f64))),
        Elements::Int(values) if is_sum => Elements::Int(values * i128::from(workers)),
        Elements::Int(values) => Elements::Int(values.mapv(|v| wrapping_power(v, workers))),
    };
    Ok(Value::Tensor(Tensor::from_elements(dtype, reduced)))
}

/// By squaring; wraps as repeated multiplication does.
fn wrapping_power(base: i128, mut exponent: i64) -> i128 {
    let (mut result, mut square) = (1i128, base);
    while exponent > 0 {
        if exponent % 2 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        exponent /= 2;
    }
    result
}

pub(super) fn infer_all_to_all(infer: &mut Infer) -> Result<Annotation, Reject> {
    let x = infer.tensor("x")?;
    let workers = workers(infer)?;
    let (split, concat) = (infer.int("split_axis")?, infer.int("concat_axis")?);
    infer.bool("in_group")?;
    let Some(rank) = x.extents.rank() else { return Ok(Annotation::Tensor(x)) };
    let (split, concat) = (infer.axis("C2", split, rank)?, infer.axis("C2", concat, rank)?);
    let Extents::Known(mut dims) = x.extents else { return Ok(Annotation::Tensor(x)) };
    divide(infer, &mut dims, split, workers)?;
    dims[concat] = volume(&[dims[concat].clone(), Dim::Int(workers)]);
    Ok(tensor(infer.settled("C4", &dims)?, x.dtype))
}

pub(super) fn eval_all_to_all(eval: &Eval) -> Result<Value, Stop> {
    let (_, shape) = eval.out_tensor()?;
    let x = eval.tensor_as_it_is("x");
    let (split, concat) = (axis(eval, "split_axis", x), axis(eval, "concat_axis", x));
    let extent = x.shape()[split] / usize::try_from(eval.int("num_workers")).unwrap_or(1);
    Ok(Value::Tensor(repeated(&first_part(x, split, extent), concat, shape[concat])))
}
