//! Mean and variance over groups of elements, and what the normalizations do with them.

use crate::ops::{Eval, sum::Sum};
use crate::stop::Stop;
use crate::tensor::{strided_positions, strides};

/// A tensor cut into groups, each of which is normalized by itself.
pub(super) struct Groups {
    /// The group of each element, row-major.
    of: Vec<usize>,
    /// How many groups there are.
    count: usize,
    /// How many elements each has.
    size: usize,
}

impl Groups {
    /// Elements of `shape` are in one group when they differ only along the axes `reduced`.
    pub(super) fn along(shape: &[usize], reduced: impl Fn(usize) -> bool) -> Self {
        let kept: Vec<usize> =
            (0..shape.len()).map(|axis| if reduced(axis) { 1 } else { shape[axis] }).collect();
        let steps = strides(&kept).into_iter().enumerate();
        let steps: Vec<usize> =
            steps.map(|(axis, step)| if reduced(axis) { 0 } else { step }).collect();
        let size = (0..shape.len()).filter(|&axis| reduced(axis)).map(|axis| shape[axis]).product();
        Self { of: strided_positions(shape, &steps), count: kept.iter().product(), size }
    }

    /// The mean of `f(element, its group)` over each group; NaN for groups of nothing.
    pub(super) fn means(&self, values: &[f64], f: impl Fn(f64, usize) -> f64) -> Vec<f64> {
        let mut sums = vec![Sum::default(); self.count];
        for (&value, &group) in values.iter().zip(&self.of) {
            sums[group].add(f(value, group));
        }
        sums.into_iter().map(|sum| sum.value() / self.size as f64).collect()
    }

    /// The mean and the variance (of the whole population) of each group.
    pub(super) fn moments(&self, values: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let means = self.means(values, |x, _| x);
        let variances = self.means(values, |x, group| (x - means[group]) * (x - means[group]));
        (means, variances)
    }

    /// Each element through `f(element, its group)`.
    pub(super) fn map(&self, values: &mut [f64], f: impl Fn(f64, usize) -> f64) {
        values.iter_mut().zip(&self.of).for_each(|(x, &group)| *x = f(*x, group));
    }

    /// Each element less its group's mean, over the group's deviation.
    pub(super) fn normalize(
        &self,
        values: &mut [f64],
        (means, variances): &(Vec<f64>, Vec<f64>),
        epsilon: f64,
    ) {
        let deviations: Vec<f64> = variances.iter().map(|v| (v + epsilon).sqrt()).collect();
        self.map(values, |x, group| (x - means[group]) / deviations[group]);
    }
}

/// Multiplies by `gamma` if the attribute `scale` says so, and adds `beta` if `center` does; both
/// lie along `axes` of the data.
pub(super) fn scale_and_shift(
    eval: &Eval,
    values: &mut [f64],
    shape: &[usize],
    axes: &[usize],
) -> Result<(), Stop> {
    let positions = positions_along(shape, axes);
    if eval.bool("scale") {
        let gamma = eval.tensor("gamma")?.to_floats().into_raw_vec_and_offset().0;
        values.iter_mut().zip(&positions).for_each(|(x, &at)| *x *= gamma[at]);
    }
    if eval.bool("center") {
        let beta = eval.tensor("beta")?.to_floats().into_raw_vec_and_offset().0;
        values.iter_mut().zip(&positions).for_each(|(x, &at)| *x += beta[at]);
    }
    Ok(())
}

/// For each element of `shape`, where its parameter lies in a tensor whose dims are those at `axes`.
pub(super) fn positions_along(shape: &[usize], axes: &[usize]) -> Vec<usize> {
    let dims: Vec<usize> = axes.iter().map(|&axis| shape[axis]).collect();
    let mut steps = vec![0; shape.len()];
    for (&axis, step) in axes.iter().zip(strides(&dims)) {
        steps[axis] = step;
    }
    strided_positions(shape, &steps)
}
