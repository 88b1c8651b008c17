//! The matrix product.

use super::broadcast::positions;
use super::product::product;
use super::{Effect, Literal, Traps, constraint, optional, required};
use super::{Eval, Evaluate, Family, Infer, Kind, Operator, Reject};
use crate::ops::{Programs, programs};
use crate::stop::Stop;
use crate::tensor::{Elements, Tensor};
use crate::value::Value;
use ndarray::{Array2, ArrayD, ArrayView2, Axis, IxDyn, LinalgScalar, s};
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use std::num::Wrapping;

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "matmul",
    aliases: &[],
    family: Family::LinearAlgebra,
    doc: "Matrix product over the last two dims; the dims before them broadcast. A vector on the \
          left is a row, on the right a column, and that dim is dropped from the result, as in NumPy.",
    params: &[
        required("x1", Kind::Tensor),
        required("x2", Kind::Tensor),
        optional("out_dtype", Kind::OptionalDType, Literal::None),
    ],
    constraints: &[
        constraint("C1", "x1 and x2 have the same dtype, and it is not bool"),
        constraint(
            "C2",
            "the last dim of x1 equals the second-to-last dim of x2 (its only one, of a vector)",
        ),
        constraint("C3", "x1 and x2 have rank at least 1"),
        constraint("C4", "the dims before the last two broadcast"),
    ],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer,
    program: Programs::Of(programs::product::matmul),
    eval: Evaluate::Values(eval),
}];

fn infer(infer: &mut Infer) -> Result<Annotation, Reject> {
    let dtype = infer.same_dtype("C1", &["x1", "x2"])?;
    infer.require_dtype("C1", "x1", |dtype| dtype != DType::Bool)?;
    infer.require_dtype("C1", "x2", |dtype| dtype != DType::Bool)?;
    let dtype = infer.optional_dtype("out_dtype")?.or(dtype);
    let (a, b) = (infer.tensor("x1")?.extents, infer.tensor("x2")?.extents);
    if a.rank() == Some(0) || b.rank() == Some(0) {
        return Err(
            infer.reject("C3", "a product needs tensors of rank at least 1, found a scalar")
        );
    }
    let extents = result_extents(infer, &a, &b)?;
    Ok(Annotation::Tensor(TensorType { extents, dtype }))
}

fn result_extents(infer: &mut Infer, a: &Extents, b: &Extents) -> Result<Extents, Reject> {
    let (Some(a_rank), Some(b_rank)) = (a.rank(), b.rank()) else { return Ok(Extents::Unknown) };
    let (Some(x), Some(y)) = (a.dims(), b.dims()) else {
        let kept = usize::from(a_rank > 1) + usize::from(b_rank > 1);
        let batch = a_rank.saturating_sub(2).max(b_rank.saturating_sub(2));
        return Ok(Extents::Rank(batch + kept));
    };
    let inner = (&x[a_rank - 1], &y[b_rank.saturating_sub(2)]);
    infer.require_equal("C2", inner.0, inner.1, || {
        format!(
            "the last dim of `x1` and the second-to-last of `x2` must be equal, found {} and {}",
            inner.0, inner.1
        )
    })?;
    let batch = |dims: &[Dim]| Extents::Known(dims[..dims.len().saturating_sub(2)].to_vec());
    let rows = (a_rank > 1).then(|| x[a_rank - 2].clone());
    let columns = (b_rank > 1).then(|| y[b_rank - 1].clone());
    Ok(match infer.broadcast("C4", &batch(x), &batch(y))? {
        Extents::Known(mut dims) => {
            dims.extend(rows.into_iter().chain(columns));
            Extents::Known(dims)
        }
        other => Extents::Rank(
            other.rank().unwrap_or(0)
                + usize::from(rows.is_some())
                + usize::from(columns.is_some()),
        ),
    })
}

/// Floats are multiplied and summed in f64 and rounded once, sums of products of f64 itself with
/// compensation; integers are exact and wrap once.
fn eval(eval: &Eval) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    let (a, b) = (eval.tensor("x1")?, eval.tensor("x2")?);
    let product = match (a.elements(), b.elements()) {
        // Products of u64 leave i128; wrapped there, the low bits that remain are the right ones.
        (Elements::Int(x), Elements::Int(y)) => {
            let values = batched(x.mapv(Wrapping), y.mapv(Wrapping), |a, b| a.dot(&b));
            let values = values.mapv(|value| value.0);
            Tensor::from_ints(dtype, values.into_shape_with_order(IxDyn(&shape)).expect(FITS))
        }
        _ => {
            let values = batched(a.to_floats(), b.to_floats(), |x, y| product(a.dtype(), x, y));
            Tensor::from_floats(dtype, values.into_shape_with_order(IxDyn(&shape)).expect(FITS))
        }
    };
    Ok(Value::Tensor(product))
}

const FITS: &str = "invariant: the deduced shape has as many elements as the product";

/// The product with vectors as matrices of one row or column: (batch…, m, n) in row-major order.
/// A sum over nothing is 0, which is what products give for k = 0.
fn batched<T: LinalgScalar>(
    a: ArrayD<T>,
    b: ArrayD<T>,
    product: impl Fn(ArrayView2<T>, ArrayView2<T>) -> Array2<T>,
) -> ArrayD<T> {
    let a = if a.ndim() == 1 { a.insert_axis(Axis(0)) } else { a };
    let b = if b.ndim() == 1 { b.insert_axis(Axis(1)) } else { b };
    let (a_shape, b_shape) = (a.shape().to_vec(), b.shape().to_vec());
    let (a_batch, [m, k]) = split(&a_shape);
    let (b_batch, [_, n]) = split(&b_shape);
    let batch = batch_shape(a_batch, b_batch);
    let shape = [&batch[..], &[m, n]].concat();
    if b_batch.is_empty() {
        // One matrix for all: the rows of the whole batch are those of one matrix, without a copy.
        let rows = batch.iter().product::<usize>() * m;
        let a = a.into_shape_with_order((rows, k)).expect(FITS);
        let b = b.into_shape_with_order((k, n)).expect(FITS);
        let all = product(a.view(), b.view());
        return all.into_shape_with_order(IxDyn(&shape)).expect(FITS);
    }
    let a = a.into_shape_with_order((a_batch.iter().product(), m, k)).expect(FITS);
    let b = b.into_shape_with_order((b_batch.iter().product(), k, n)).expect(FITS);
    let mut result = Vec::with_capacity(batch.iter().product::<usize>() * m * n);
    for (i, j) in positions(a_batch, &batch).into_iter().zip(positions(b_batch, &batch)) {
        result.extend(product(a.slice(s![i, .., ..]), b.slice(s![j, .., ..])));
    }
    crate::tensor::array(&shape, result)
}

/// The dims of the batch, and those of a matrix.
fn split(shape: &[usize]) -> (&[usize], [usize; 2]) {
    let (batch, matrix) = shape.split_at(shape.len() - 2);
    (batch, [matrix[0], matrix[1]])
}

/// What two concrete batch shapes broadcast to; `infer` has checked that they do.
fn batch_shape(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let at = |side: &[usize], axis: usize| {
        (axis + side.len()).checked_sub(rank).map_or(1, |position| side[position])
    };
    (0..rank).map(|axis| if at(a, axis) == 1 { at(b, axis) } else { at(a, axis) }).collect()
}
