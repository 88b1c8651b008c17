//! The order of a tensor's dims as a string of letters, such as `NHWC`.

use crate::ops::{Eval, Infer, Reject};
use crate::tensor::{Tensor, strided_positions, strides};
use relax_syntax::annotation::Extents;
use relax_syntax::dim::Dim;

/// The letters of data in canonical order, by the number of spatial dims.
pub(super) const DATA: [&str; 3] = ["NC", "NCW", "NCHW"];
/// The letters of a kernel in canonical order, by the number of spatial dims.
pub(super) const KERNEL: [&str; 3] = ["OI", "OIW", "OIHW"];

/// An order of dims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Where each dim of the canonical order stands.
    places: Vec<usize>,
}

impl Layout {
    /// The layout that `text` names, an order of the letters `canonical`.
    pub(super) fn parse(canonical: &str, text: &str) -> Option<Layout> {
        let places = canonical.chars().map(|letter| text.find(letter)).collect::<Option<_>>()?;
        (text.len() == canonical.len()).then_some(Layout { places })
    }

    /// The layout that the string attribute `param` names.
    pub(super) fn read(
        infer: &Infer,
        constraint: &'static str,
        param: &str,
        canonical: &str,
    ) -> Result<Layout, Reject> {
        let text = infer.str(param)?;
        Layout::parse(canonical, &text).ok_or_else(|| {
            let message = format!(
                "`{param}` must be an order of the letters {canonical}, found {text}; blocked \
                 layouts such as NCHW4c are not supported"
            );
            infer.reject(constraint, message)
        })
    }

    /// As [`Layout::read`], with `None` for the layout `or`.
    pub(super) fn read_or(
        infer: &Infer,
        constraint: &'static str,
        param: &str,
        or: &Layout,
        canonical: &str,
    ) -> Result<Layout, Reject> {
        if infer.is_none(param) {
            return Ok(or.clone());
        }
        Layout::read(infer, constraint, param, canonical)
    }

    /// The layout that a string attribute names in a call that `infer` accepted; `None` for `None`.
    pub(super) fn of(eval: &Eval, param: &str, canonical: &str) -> Option<Layout> {
        let named = (!eval.is_none(param)).then(|| eval.str(param))?;
        Some(Layout::parse(canonical, &named).expect("invariant: infer checked the layouts"))
    }

    /// From this order to the canonical one.
    pub(super) fn canonical<T: Clone>(&self, dims: &[T]) -> Vec<T> {
        self.places.iter().map(|&place| dims[place].clone()).collect()
    }

    /// From the canonical order to this one.
    pub(super) fn arranged<T: Clone>(&self, canonical: &[T]) -> Vec<T> {
        let mut dims = canonical.to_vec();
        for (dim, &place) in canonical.iter().zip(&self.places) {
            dims[place] = dim.clone();
        }
        dims
    }

    /// The dims of the operand `param` in canonical order, where known.
    ///
    /// # Errors
    /// A rejection under `constraint` when it has another rank.
    pub(super) fn dims_of(
        &self,
        infer: &Infer,
        constraint: &'static str,
        param: &str,
    ) -> Result<Option<Vec<Dim>>, Reject> {
        let extents: Extents = infer.tensor(param)?.extents;
        let expected = self.places.len();
        match extents.rank() {
            Some(rank) if rank != expected => {
                let message = format!("`{param}` must have rank {expected}, found rank {rank}");
                Err(infer.reject(constraint, message))
            }
            _ => Ok(extents.dims().map(|dims| self.canonical(dims))),
        }
    }

    /// The tensor with its dims in canonical order.
    pub(super) fn canonical_tensor(&self, tensor: &Tensor) -> Tensor {
        let shape = self.canonical(tensor.shape());
        let steps = self.canonical(&strides(tensor.shape()));
        tensor.select(&shape, &strided_positions(&shape, &steps))
    }

    /// The tensor, whose dims are in canonical order, in this one.
    pub(super) fn arranged_tensor(&self, tensor: &Tensor) -> Tensor {
        let shape = self.arranged(tensor.shape());
        let steps = self.arranged(&strides(tensor.shape()));
        tensor.select(&shape, &strided_positions(&shape, &steps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let layout = Layout::parse("NCHW", "NHWC").expect("an order of the letters");
        assert_eq!(layout.canonical(&[1, 2, 3, 4]), [1, 4, 2, 3]);
        assert_eq!(layout.arranged(&[1, 4, 2, 3]), [1, 2, 3, 4]);
        for wrong in ["NHW", "NHWCC", "NHWc", "NNHW", "NCHW4c", ""] {
            assert_eq!(Layout::parse("NCHW", wrong), None, "{wrong}");
        }
    }
}
