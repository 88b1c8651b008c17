//! Sums as operators form them: of narrower floats in f64, of f64 itself with the error of each
//! addition carried along (Neumaier 1974) unless sums may be reassociated, of integers in their own dtype.

use super::builder::{Buffer, Builder};
use crate::formula::{Scalar, select};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::BinOp;

/// Sums, one for each index of some dims.
pub(super) struct Total {
    sum: Buffer,
    lost: Option<Buffer>,
    /// What it is formed in.
    pub(super) dtype: DType,
}

impl Total {
    /// Sums of elements of `dtype`, in buffers of their own.
    pub(super) fn new(builder: &mut Builder, name: &str, dims: &[Dim], dtype: DType) -> Self {
        let wide = wide(dtype);
        let sum = builder.allocate(name, dims, wide);
        let is_compensated = dtype == DType::F64 && builder.compensates;
        let lost = is_compensated.then(|| builder.allocate(&format!("{name}_lost"), dims, wide));
        Self { sum, lost, dtype: wide }
    }

    /// Sums in a buffer that is there.
    pub(super) fn into(sum: Buffer) -> Self {
        let dtype = sum.dtype;
        Self { sum, lost: None, dtype }
    }

    /// Sets a sum to 0, which it is over nothing.
    pub(super) fn clear(&self, builder: &mut Builder, at: &[Scalar]) {
        for buffer in [&self.sum].into_iter().chain(&self.lost) {
            let zero = if self.dtype.is_float() { 0.0.into() } else { Scalar::from(0) };
            builder.store(buffer, at, zero);
        }
    }

    /// Adds a value of the dtype that it is formed in.
    pub(super) fn add(&self, builder: &mut Builder, at: &[Scalar], value: Scalar) {
        let Some(lost) = &self.lost else {
            return builder.update(&self.sum, at, BinOp::Add, value);
        };
        let value = builder.bind(value);
        let sum = builder.bind(self.sum.at(at));
        let next = builder.bind(sum.clone() + &value);
        let is_greater = sum.clone().abs().at_least(value.clone().abs());
        let (of_value, of_sum) = ((sum.clone() - &next) + &value, (value.clone() - &next) + &sum);
        builder.update(lost, at, BinOp::Add, select(is_greater, of_value, of_sum));
        builder.store(&self.sum, at, next);
    }

    /// A sum: of an infinite one the lost part means nothing.
    pub(super) fn value(&self, at: &[Scalar]) -> Scalar {
        let sum = self.sum.at(at);
        match &self.lost {
            Some(lost) => select((sum.clone() - &sum).equals(0.0), sum.clone() + lost.at(at), sum),
            None => sum,
        }
    }
}

/// What elements of a dtype are summed in.
pub(super) fn wide(dtype: DType) -> DType {
    if dtype.is_float() { DType::F64 } else { dtype }
}

/// How many elements there are: a product of floats, which cannot overflow as one of integers could
/// when another extent is 0.
pub(super) fn count(dims: &[Dim]) -> Scalar {
    let float = |dim: &Dim| match dim {
        Dim::Int(value) if value.unsigned_abs() < 1 << 53 => Scalar::from(*value as f64),
        _ => Scalar::from(dim).into_dtype(DType::F64),
    };
    dims.iter().map(float).reduce(|a, b| a * b).unwrap_or(1.0.into())
}
