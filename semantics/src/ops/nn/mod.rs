//! Neural-network functions: activations, normalizations, losses. A file holds the rows of one kind
//! with what computes them; the table, and what several kinds ask of deduction, are here.

mod activation;
mod arrange;
mod channel_norm;
mod dropout;
mod loss;
mod norm;
mod prelu;
mod softmax;
mod statistics;

pub(super) use softmax::softmax;

use super::{Infer, Operator, Param, Reject, required};
use super::{Kind, constraint};
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};

pub(super) static OPERATORS: &[Operator] = &[
    activation::RELU,
    activation::LEAKY_RELU,
    prelu::PRELU,
    activation::GELU,
    activation::GELU_TANH,
    activation::SILU,
    activation::SELU,
    activation::SOFTPLUS,
    softmax::SOFTMAX,
    softmax::LOG_SOFTMAX,
    norm::LAYER_NORM,
    norm::RMS_NORM,
    channel_norm::GROUP_NORM,
    channel_norm::INSTANCE_NORM,
    channel_norm::BATCH_NORM,
    dropout::DROPOUT,
    arrange::PAD,
    arrange::PIXEL_SHUFFLE,
    arrange::BATCH_FLATTEN,
    loss::CROSS_ENTROPY,
    loss::NLL_LOSS,
];

const DATA: Param = required("data", Kind::Tensor);
const FLOAT_DATA: super::Constraint = constraint("C1", "data has a float dtype");

/// Deduction of a function that keeps the type of its float operand `data`.
fn like_float_data(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer.require_dtype("C1", "data", DType::is_float)?;
    Ok(Annotation::Tensor(infer.tensor("data")?))
}

/// Demands that `x` is 1 or equal to `y`, to which it then stretches.
///
/// # Errors
/// A rejection under `constraint` when it never is.
pub(in crate::ops) fn require_one_or_equal(
    infer: &mut Infer,
    constraint: &'static str,
    x: &Dim,
    y: &Dim,
    what: &str,
) -> Result<(), Reject> {
    if infer.proves_equal(x, y) || infer.proves_equal(x, &Dim::Int(1)) {
        return Ok(());
    }
    let message = || format!("{what} must be 1 or {y}, found {x}");
    if infer.proves(&Claim::new(x.clone(), Relation::NotEqual, 1)) {
        return infer.require_equal(constraint, x, y, message);
    }
    let less = |other: Dim| Dim::op(DimOp::Sub, x.clone(), other);
    let product = Dim::op(DimOp::Mul, less(Dim::Int(1)), less(y.clone()));
    infer.require(constraint, Claim::new(product, Relation::Equal, 0), message)
}

/// A dim of the result in simple form; demands that it is a dim: a number of i64, at least 0.
fn result_dim(infer: &mut Infer, constraint: &'static str, dim: &Dim) -> Result<Dim, Reject> {
    let dim = infer.facts.simplify(dim);
    require_value(infer, constraint, &dim)?;
    let claim = Claim::new(0, Relation::AtMost, dim.clone());
    infer.require(constraint, claim, || format!("the result would have the dim {dim}"))?;
    Ok(dim)
}

/// Demands that a dim without variables is a number of i64.
///
/// # Errors
/// A rejection under `constraint` when it leaves i64.
pub(in crate::ops) fn require_value(
    infer: &Infer,
    constraint: &'static str,
    dim: &Dim,
) -> Result<(), Reject> {
    if dim.as_int().is_none() && dim.vars_all(&|_| false) {
        return Err(infer.reject(constraint, format!("`{dim}` leaves the range of i64")));
    }
    Ok(())
}

/// The dims at `axes`, where known.
fn dims_at(extents: &Extents, axes: &[usize]) -> Option<Vec<Dim>> {
    extents.dims().map(|dims| axes.iter().map(|&axis| dims[axis].clone()).collect())
}

#[cfg(test)]
mod tests;
