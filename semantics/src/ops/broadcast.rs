//! Implicit broadcast, NumPy's: shapes are aligned at the last dim, and a dim of 1 stretches.

use super::{Infer, Reject};
use crate::tensor::{Tensor, strides};
use relax_syntax::annotation::Extents;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};

impl Infer<'_> {
    /// The shape that two shapes broadcast to.
    ///
    /// For a pair of dims: equal → that one; one is 1 → the other; one is a literal other than 1 →
    /// that literal, and the other side is checked at run time to be it or 1. Two symbolic dims that
    /// are not proved equal leave the result's dims unknown, but not its rank.
    ///
    /// # Errors
    /// A rejection under `constraint` when a pair of dims never fits.
    pub fn broadcast(
        &mut self,
        constraint: &'static str,
        a: &Extents,
        b: &Extents,
    ) -> Result<Extents, Reject> {
        let (Extents::Known(x), Extents::Known(y)) = (a, b) else {
            let ranks = a.rank().zip(b.rank());
            return Ok(ranks.map_or(Extents::Unknown, |(x, y)| Extents::Rank(x.max(y))));
        };
        let rank = x.len().max(y.len());
        let mut dims = Vec::with_capacity(rank);
        for axis in 0..rank {
            let pick =
                |side: &[Dim]| (axis + side.len()).checked_sub(rank).map(|at| side[at].clone());
            dims.push(match (pick(x), pick(y)) {
                (Some(x), Some(y)) => self.broadcast_dim(constraint, &x, &y, axis)?,
                (one, other) => one.or(other),
            });
        }
        let known: Option<Vec<Dim>> = dims.into_iter().collect();
        Ok(known.map_or(Extents::Rank(rank), Extents::Known))
    }

    fn broadcast_dim(
        &mut self,
        constraint: &'static str,
        x: &Dim,
        y: &Dim,
        axis: usize,
    ) -> Result<Option<Dim>, Reject> {
        let one = Dim::Int(1);
        if self.proves_equal(x, y) || self.proves_equal(y, &one) {
            return Ok(Some(x.clone()));
        }
        if self.proves_equal(x, &one) {
            return Ok(Some(y.clone()));
        }
        // From here on neither is known to be 1.
        let never_one = |infer: &mut Self, dim: &Dim| {
            infer.proves(&Claim::new(dim.clone(), Relation::NotEqual, 1))
        };
        let (x_stretches, y_stretches) = (!never_one(self, x), !never_one(self, y));
        if !x_stretches && !y_stretches {
            self.require_equal(constraint, x, y, || {
                format!(
                    "dims {x} and {y} (dim {axis} of the result) must be equal, or one of them 1"
                )
            })?;
            return Ok(Some(x.clone()));
        }
        Ok(match (x_stretches, y_stretches) {
            (true, false) => Some(self.stretched(constraint, x, y)),
            (false, true) => Some(self.stretched(constraint, y, x)),
            _ => {
                self.one_stretches(constraint, x, y);
                None
            }
        })
    }

    /// `(x - y) * (x - 1) * (y - 1) == 0`: they are equal, or one of them is 1; checked at run time.
    fn one_stretches(&mut self, constraint: &'static str, x: &Dim, y: &Dim) {
        let sub = |a: &Dim, b: Dim| Dim::op(DimOp::Sub, a.clone(), b);
        let factors = [sub(x, y.clone()), sub(x, Dim::Int(1)), sub(y, Dim::Int(1))];
        let claim = Claim::new(Dim::product(&factors), Relation::Equal, 0);
        self.obligations.push(super::Obligation { constraint, claim });
    }

    /// `from` is 1 or `to`, which is not 1: `(from - 1) * (from - to) == 0`, checked at run time.
    fn stretched(&mut self, constraint: &'static str, from: &Dim, to: &Dim) -> Dim {
        let sub = |a: &Dim, b: Dim| Dim::op(DimOp::Sub, a.clone(), b);
        let product = Dim::op(DimOp::Mul, sub(from, Dim::Int(1)), sub(from, to.clone()));
        let claim = Claim::new(product, Relation::Equal, 0);
        self.obligations.push(super::Obligation { constraint, claim });
        to.clone()
    }
}

/// The tensor stretched to `shape`, to which it broadcasts.
#[must_use]
pub fn broadcast_to(tensor: &Tensor, shape: &[usize]) -> Tensor {
    if tensor.shape() == shape {
        return tensor.clone();
    }
    tensor.select(shape, &positions(tensor.shape(), shape))
}

/// For each element of `shape`, row-major, the position in a tensor of shape `from` that broadcasts
/// to it.
#[must_use]
pub fn positions(from: &[usize], shape: &[usize]) -> Vec<usize> {
    let lead = shape.len() - from.len();
    let steps: Vec<usize> = (0..shape.len())
        .map(|axis| match axis.checked_sub(lead) {
            Some(own) if from[own] != 1 => strides(from)[own],
            _ => 0,
        })
        .collect();
    crate::tensor::strided_positions(shape, &steps)
}
