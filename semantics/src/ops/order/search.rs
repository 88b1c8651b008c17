//! `nonzero` and `bucketize`.

use super::ranking::{Order, compare};
use crate::ops::{Effect, Eval, Evaluate, Family, Infer, Kind, Literal, Operator, Reject, Traps};
use crate::ops::{Programs, programs};
use crate::ops::{constraint, optional, required};
use crate::stop::Stop;
use crate::tensor::{Elements, Tensor, array, strides};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dtype::DType;
use std::cmp::Ordering;

pub(super) const NONZERO: Operator = Operator {
    name: "nonzero",
    aliases: &[],
    family: Family::Order,
    doc: "The indices of the elements that are not zero (NaN is not), as i64 of shape (rank, \
          count), in row-major order of the elements. A scalar counts as a tensor of rank 1. The \
          count depends on the elements: only the rank of the result is known before.",
    params: &[required("x", Kind::Tensor)],
    constraints: &[],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer: infer_nonzero,
    program: Programs::Counted(programs::indexing::nonzero, programs::indexing::nonzero_count),
    eval: Evaluate::Values(nonzero),
};

pub(super) const BUCKETIZE: Operator = Operator {
    name: "bucketize",
    aliases: &[],
    family: Family::Order,
    doc: "For each element the number of boundaries that are less than it (`right`: not greater \
          than it), as i64 or i32: the index of its bucket, when the boundaries increase. NaN \
          counts as greater than every number, as in NumPy and PyTorch.",
    params: &[
        required("input_tensor", Kind::Tensor),
        required("boundaries", Kind::Tensor),
        optional("out_int32", Kind::Bool, Literal::Bool(false)),
        optional("right", Kind::Bool, Literal::Bool(false)),
    ],
    constraints: &[
        constraint("C1", "input_tensor and boundaries have the same dtype, and it is not bool"),
        constraint("C2", "boundaries has rank 1"),
    ],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer: infer_bucketize,
    program: Programs::Of(programs::indexing::bucketize),
    eval: Evaluate::Values(bucketize),
};

fn infer_nonzero(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer.tensor("x")?;
    let dtype = Some(DType::I64);
    Ok(Annotation::Tensor(TensorType { extents: Extents::Rank(2), dtype }))
}

fn nonzero(eval: &Eval) -> Result<Value, Stop> {
    let x = eval.tensor("x")?;
    let shape = if x.rank() == 0 { vec![1] } else { x.shape().to_vec() };
    let truths = x.to_bools();
    let found: Vec<usize> =
        truths.iter().enumerate().filter_map(|(at, &truth)| truth.then_some(at)).collect();
    let out = [shape.len(), found.len()].map(|d| i64::try_from(d).unwrap_or(i64::MAX));
    let out = eval.checked_shape(&out, DType::I64)?;
    let index_along = |(&step, &extent): (&usize, &usize)| {
        found.iter().map(move |at| (at / step % extent) as i128).collect::<Vec<_>>()
    };
    let rows = strides(&shape).iter().zip(&shape).flat_map(index_along).collect();
    Ok(Value::Tensor(Tensor::from_ints(DType::I64, array(&out, rows))))
}

fn infer_bucketize(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer.same_dtype("C1", &["input_tensor", "boundaries"])?;
    infer.require_dtype("C1", "input_tensor", |dtype| dtype != DType::Bool)?;
    infer.require_dtype("C1", "boundaries", |dtype| dtype != DType::Bool)?;
    if let Some(rank) = infer.tensor("boundaries")?.extents.rank().filter(|&rank| rank != 1) {
        let message = format!("`boundaries` must have rank 1, found rank {rank}");
        return Err(infer.reject("C2", message));
    }
    infer.bool("right")?;
    let dtype = if infer.bool("out_int32")? { DType::I32 } else { DType::I64 };
    let input = infer.tensor("input_tensor")?;
    Ok(Annotation::Tensor(TensorType { dtype: Some(dtype), ..input }))
}

fn bucketize(eval: &Eval) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    let right = eval.bool("right");
    let counts =
        match (eval.tensor("input_tensor")?.elements(), eval.tensor("boundaries")?.elements()) {
            (Elements::Int(values), Elements::Int(bounds)) => {
                counts_below(values.iter(), bounds.iter().copied().collect(), right)
            }
            (Elements::Float(values), Elements::Float(bounds)) => {
                counts_below(values.iter(), bounds.iter().copied().collect(), right)
            }
            _ => unreachable!("invariant: infer demands one dtype"),
        };
    Ok(Value::Tensor(Tensor::from_ints(dtype, array(&shape, counts))))
}

/// How many bounds are less than each value, or not greater when `right`.
fn counts_below<'a, T: PartialOrd + 'a>(
    values: impl Iterator<Item = &'a T>,
    mut bounds: Vec<T>,
    right: bool,
) -> Vec<i128> {
    // A count does not depend on the order, so unordered boundaries have a meaning as well.
    bounds.sort_by(|a, b| compare(a, b, Order::Ascending));
    let below = |value: &T| {
        bounds.partition_point(|bound| match compare(bound, value, Order::Ascending) {
            Ordering::Less => true,
            Ordering::Equal => right,
            Ordering::Greater => false,
        }) as i128
    };
    values.map(below).collect()
}
