//! Row-major positions: where the element of an index lies.

/// Row-major strides of a shape, in elements.
#[must_use]
pub fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis].max(1);
    }
    strides
}

/// For each index of `shape`, row-major, the sum of index times step: where its element lies in a
/// tensor that is walked with `steps` from its first element on.
#[must_use]
pub fn strided_positions(shape: &[usize], steps: &[usize]) -> Vec<usize> {
    if shape.contains(&0) {
        return Vec::new();
    }
    let mut positions = vec![0];
    for (&extent, &step) in shape.iter().zip(steps) {
        positions = positions
            .iter()
            .flat_map(|&base| (0..extent).map(move |index| base + index * step))
            .collect();
    }
    positions
}

/// Every index of `shape` in row-major order; nothing when a dim is 0, one empty index for rank 0.
pub fn indices(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    let total: usize = shape.iter().product();
    let shape = shape.to_vec();
    let steps = strides(&shape);
    (0..total).map(move |position| {
        shape.iter().zip(&steps).map(|(&extent, &step)| position / step % extent).collect()
    })
}
