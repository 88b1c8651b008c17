//! Arrays as other libraries describe them, and row-major copies of those that are not row-major.

use relax_runtime::{DType, dense_bytes};

/// Elements in memory. Strides are in bytes and may be negative.
#[derive(Debug)]
pub(crate) struct Strided {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<i64>,
    pub(crate) strides: Option<Vec<isize>>,
    /// Of the element whose indices are 0.
    pub(crate) data: *const u8,
}

impl Strided {
    pub(crate) fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Whether the elements are row-major without gaps, and aligned.
    pub(crate) fn is_dense(&self) -> bool {
        if !self.data.addr().is_multiple_of(self.dtype.size()) {
            return false;
        }
        let Some(strides) = &self.strides else { return true };
        let mut expected = self.dtype.size() as isize;
        for (&extent, &stride) in self.shape.iter().zip(strides).rev() {
            if extent != 1 && stride != expected {
                return false;
            }
            expected = expected.saturating_mul(isize::try_from(extent).unwrap_or(isize::MAX));
        }
        true
    }

    /// A row-major copy; `None` where there is no memory, or the shape is none.
    ///
    /// # Safety
    /// Each element that shape and strides describe is initialized, and nobody writes to it meanwhile.
    pub(crate) unsafe fn copied(&self) -> Option<Vec<u8>> {
        let bytes = dense_bytes(self.dtype, &self.shape)?;
        let mut copy = Vec::new();
        copy.try_reserve_exact(bytes).ok()?;
        if self.is_empty() {
            return Some(copy);
        }
        let dense: Vec<isize>;
        let strides = match &self.strides {
            Some(strides) => strides,
            None => {
                dense = dense_strides(self.dtype, &self.shape);
                &dense
            }
        };
        let mut index = vec![0_i64; self.shape.len()];
        let mut at = self.data;
        loop {
            // SAFETY: `at` is the place of the element of `index`, and the caller promises that it is there.
            let element = unsafe { std::slice::from_raw_parts(at, self.dtype.size()) };
            copy.extend_from_slice(element);
            let Some(axis) =
                (0..index.len()).rev().find(|&axis| index[axis] + 1 < self.shape[axis])
            else {
                return Some(copy);
            };
            for inner in axis + 1..index.len() {
                at = at.wrapping_offset(-strides[inner] * index[inner] as isize);
                index[inner] = 0;
            }
            index[axis] += 1;
            at = at.wrapping_offset(strides[axis]);
        }
    }
}

/// The strides of a row-major array, in bytes.
pub(crate) fn dense_strides(dtype: DType, shape: &[i64]) -> Vec<isize> {
    let mut stride = dtype.size() as isize;
    let mut strides: Vec<isize> = shape
        .iter()
        .rev()
        .map(|&extent| {
            let own = stride;
            stride = stride.saturating_mul(isize::try_from(extent.max(1)).unwrap_or(isize::MAX));
            own
        })
        .collect();
    strides.reverse();
    strides
}
