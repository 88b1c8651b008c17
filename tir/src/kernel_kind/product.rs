//! Matrix products among nests.

use super::nest::{Nest, Term};
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BinOp, BufferId, ScalarId, TExpr};

/// `B[i, j] += X[i, k] * W[k, j]`, from 0 on, over whole matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixProduct {
    /// The left factor, `X`.
    pub left: BufferId,
    /// The right factor, `W`.
    pub right: BufferId,
}

impl Nest<'_> {
    /// Which matrices a nest multiplies, if it does that and nothing else.
    pub fn matrix_product(&self, program: &TensorProgram) -> Option<MatrixProduct> {
        let [Some(i), Some(j)] = self.written[..] else { return None };
        let mut reduced = self.reduced.iter();
        let (Some(&k), None) = (reduced.next(), reduced.next()) else { return None };
        let from_zero = self.initial.is_some_and(|initial| {
            matches!(self.scalars.resolve(initial), TExpr::Int(0))
                || matches!(self.scalars.resolve(initial), TExpr::Float(value) if value.to_bits() == 0)
        });
        if self.is_finished {
            return None;
        }
        let (a, b) = match self.term? {
            (Some(BinOp::Add), Term::Product(a, b)) => (a, b),
            (Some(BinOp::Add), Term::One(term)) => match self.scalars.resolve(term) {
                TExpr::Binary(BinOp::Mul, factors) => (&factors.0, &factors.1),
                _ => return None,
            },
            _ => return None,
        };
        let at = |factor: &TExpr, row: ScalarId, column: ScalarId| {
            let TExpr::Load { buffer, indices } = self.scalars.resolve(factor) else { return None };
            let [x, y] = indices.as_slice() else { return None };
            let extents = [self.extents.get(&row)?.clone(), self.extents.get(&column)?.clone()];
            let fits = self.scalars.lone(x) == Some(row)
                && self.scalars.lone(y) == Some(column)
                && program.buffer(*buffer).shape == extents
                && program.buffer(*buffer).dtype == program.buffer(self.output).dtype;
            fits.then_some(*buffer)
        };
        let (left, right) =
            (at(a, i, k).zip(at(b, k, j))).or_else(|| at(b, i, k).zip(at(a, k, j)))?;
        (from_zero && !self.has_axes).then_some(MatrixProduct { left, right })
    }
}
