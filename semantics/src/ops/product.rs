//! The matrix product of reference evaluation, where convolution and attention need one.

use super::sum::Sum;
use ndarray::{Array2, ArrayView2};
use relax_syntax::dtype::DType;

/// The sum of `values`; 0 of nothing.
pub(super) fn sum(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sum = Sum::default();
    values.into_iter().for_each(|value| sum.add(value));
    sum.value()
}

/// The product of operands of `dtype`. Products of the narrower dtypes are exact in f64, so there
/// plain sums are good enough; those of f64 itself are compensated.
pub(super) fn product(dtype: DType, a: ArrayView2<f64>, b: ArrayView2<f64>) -> Array2<f64> {
    if dtype != DType::F64 {
        return a.dot(&b);
    }
    Array2::from_shape_fn((a.nrows(), b.ncols()), |(i, j)| {
        sum(a.row(i).iter().zip(b.column(j)).map(|(x, y)| x * y))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn products_of_f64_keep_what_rounding_drops() {
        let (a, b) = (array![[1.0, 1e100, 1.0, -1e100]], array![[1.0], [1.0], [1.0], [1.0]]);
        assert_eq!(product(DType::F64, a.view(), b.view()), array![[2.0]]);
        let (a, b) = (array![[f64::INFINITY, 1.0]], array![[1.0], [2.0]]);
        assert_eq!(product(DType::F64, a.view(), b.view()), array![[f64::INFINITY]]);
        assert_eq!(
            product(DType::F64, Array2::zeros((1, 0)).view(), Array2::zeros((0, 1)).view()),
            array![[0.0]]
        );
    }
}
