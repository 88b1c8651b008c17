//! The dims of results: canonical, never negative, never beyond i64; and elements along one axis.

use super::{Infer, Reject};
use crate::tensor::Tensor;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};

/// The number of elements of a tensor with these dims. A literal 0 wins over whatever else there is,
/// so that a product of huge dims beside it does not overflow.
pub(super) fn volume(dims: &[Dim]) -> Dim {
    if dims.contains(&Dim::Int(0)) { Dim::Int(0) } else { Dim::product(dims) }
}

/// A tensor annotation.
pub(super) fn tensor(extents: Extents, dtype: Option<DType>) -> Annotation {
    Annotation::Tensor(TensorType { extents, dtype })
}

impl Infer<'_> {
    /// Dims in canonical form.
    ///
    /// # Errors
    /// A rejection under `constraint` when one has no value in i64, whatever the variables are.
    pub(super) fn settled(
        &mut self,
        constraint: &'static str,
        dims: &[Dim],
    ) -> Result<Extents, Reject> {
        let mut settled = Vec::with_capacity(dims.len());
        for dim in dims {
            let dim = self.facts.simplify(dim);
            if dim.as_int().is_none() && dim.vars_all(&|_| false) {
                let message = format!("the dim `{dim}` of the result leaves the range of i64");
                return Err(self.reject(constraint, message));
            }
            settled.push(dim);
        }
        Ok(Extents::Known(settled))
    }

    /// Demands that no dim is negative.
    ///
    /// # Errors
    /// A rejection under `constraint` when one is negative for all variables.
    pub(super) fn require_nonnegative(
        &mut self,
        constraint: &'static str,
        dims: &[Dim],
    ) -> Result<(), Reject> {
        dims.iter().try_for_each(|dim| {
            self.require(constraint, Claim::new(0, Relation::AtMost, dim.clone()), || {
                format!("a dim of a shape may not be negative, found {dim}")
            })
        })
    }

    /// A shape operand as the extents of a result: canonical, no dim negative.
    ///
    /// # Errors
    /// When the operand is no shape, or under `constraint` when a dim is negative.
    pub(super) fn result_shape(
        &mut self,
        constraint: &'static str,
        param: &str,
    ) -> Result<Extents, Reject> {
        let extents = self.shape(param)?;
        let Some(dims) = extents.dims() else { return Ok(extents) };
        self.require_nonnegative(constraint, dims)?;
        self.settled(constraint, dims)
    }

    /// Demands that a tensor dim of `from` elements may stretch to `to`: equal, or `from` is 1.
    ///
    /// # Errors
    /// A rejection under `constraint` when neither is so for any dims.
    pub(super) fn require_stretches(
        &mut self,
        constraint: &'static str,
        from: &Dim,
        to: &Dim,
        message: impl FnOnce() -> String,
    ) -> Result<(), Reject> {
        if self.proves_equal(from, to) || self.proves_equal(from, &Dim::Int(1)) {
            return Ok(());
        }
        if self.proves(&Claim::new(from.clone(), Relation::NotEqual, 1)) {
            return self.require_equal(constraint, from, to, message);
        }
        let sub = |a: &Dim, b: Dim| Dim::op(DimOp::Sub, a.clone(), b);
        let product = Dim::op(DimOp::Mul, sub(from, Dim::Int(1)), sub(from, to.clone()));
        self.require(constraint, Claim::new(product, Relation::Equal, 0), message)
    }
}

/// A tensor seen as (outer, axis, inner): result element `(o, j, i)` is element
/// `(o, along[j], i)` of the tensor.
pub(super) fn pick(source: &Tensor, axis: usize, along: &[usize]) -> Tensor {
    let mut shape = source.shape().to_vec();
    let extent = shape[axis];
    let inner: usize = shape[axis + 1..].iter().product();
    shape[axis] = along.len();
    if shape.contains(&0) {
        return source.select(&shape, &[]);
    }
    let outer: usize = shape[..axis].iter().product();
    let mut positions = Vec::with_capacity(outer * along.len() * inner);
    for start in (0..outer).map(|o| o * extent * inner) {
        for &index in along {
            let from = start + index * inner;
            positions.extend(from..from + inner);
        }
    }
    source.select(&shape, &positions)
}
