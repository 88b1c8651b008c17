//! Evaluation of reductions to one element a lane.

use super::deduce::axes_of;
use super::lanes::Lanes;
use crate::ops::Eval;
use crate::stop::Stop;
use crate::tensor::{Elements, Tensor, array};
use crate::value::Value;

/// Reduces each lane in the domain of the dtype and rounds or wraps once.
pub(super) fn reduce(
    eval: &Eval,
    floats: fn(&[f64]) -> f64,
    ints: fn(&[i128]) -> i128,
) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    let x = eval.tensor("x")?;
    let lanes = Lanes::along(x.shape(), &axes_of(eval, x.rank()));
    let reduced = match x.elements() {
        Elements::Float(v) => Elements::Float(array(&shape, lanes.map(slice(&v), floats))),
        Elements::Int(v) => Elements::Int(array(&shape, lanes.map(slice(&v), ints))),
    };
    Ok(Value::Tensor(Tensor::from_elements(dtype, reduced)))
}

/// The elements in row-major order.
pub(super) fn slice<T>(elements: &ndarray::ArrayD<T>) -> &[T] {
    elements.as_slice().expect("invariant: tensors are in row-major order")
}

/// A sum with the error of each addition carried along (Neumaier 1974).
pub(super) fn sum(values: &[f64]) -> f64 {
    let mut running = RunningSum::default();
    for &value in values {
        running.add(value);
    }
    running.total()
}

/// The state of a compensated sum.
#[derive(Clone, Copy, Default)]
pub(super) struct RunningSum {
    rounded: f64,
    lost: f64,
}

impl RunningSum {
    pub(super) fn add(&mut self, value: f64) {
        let next = self.rounded + value;
        self.lost += if self.rounded.abs() >= value.abs() {
            (self.rounded - next) + value
        } else {
            (value - next) + self.rounded
        };
        self.rounded = next;
    }

    pub(super) fn total(self) -> f64 {
        // Of an infinite sum the lost part is NaN and means nothing.
        if self.rounded.is_finite() { self.rounded + self.lost } else { self.rounded }
    }
}

pub(super) fn mean(values: &[f64]) -> f64 {
    sum(values) / values.len() as f64
}

pub(super) fn truncated_mean(values: &[i128]) -> i128 {
    values.iter().sum::<i128>() / values.len() as i128
}

pub(super) fn variance(values: &[f64]) -> f64 {
    let center = mean(values);
    let squares: Vec<f64> = values.iter().map(|value| (value - center).powi(2)).collect();
    mean(&squares)
}

pub(super) fn no_integers(_: &[i128]) -> i128 {
    unreachable!("invariant: infer accepts only floats here")
}

/// The greater of two; NaN if one is, and 0.0 over -0.0 (`maximum` of IEEE 754-2019).
pub(in crate::ops) fn greater(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b || (a == b && a.is_sign_positive()) { a } else { b }
}

/// The lesser of two; NaN if one is, and -0.0 under 0.0 (`minimum` of IEEE 754-2019).
pub(in crate::ops) fn lesser(a: f64, b: f64) -> f64 {
    if a.is_nan() || a < b || (a == b && a.is_sign_negative()) { a } else { b }
}
