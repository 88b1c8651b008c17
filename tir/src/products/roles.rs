//! Which loops of a product go over rows, which over columns, and which are around it: a batch.

use super::{At, Panels, Product, mentions};
use relax_semantics::tir::ranges::Ranges;
use relax_syntax::dim::Dim;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{Loop, ScalarId};

/// The loops of a product by what they go over.
#[derive(Clone, Debug)]
pub struct Roles<'s> {
    /// The factor that the rows go through.
    pub left: At<'s>,
    /// The factor that the columns go through.
    pub right: At<'s>,
    /// Around one product, over those of a batch.
    pub outer: Vec<&'s Loop>,
    /// Over rows, outermost first, which together step through the left matrix evenly.
    pub rows: Vec<&'s Loop>,
    /// The loop over columns of the result.
    pub column: &'s Loop,
}

impl<'s> Roles<'s> {
    /// `None` where an index is more than a loop variable, but for the panels of the right factor.
    #[must_use]
    pub fn of(program: &TensorProgram, ranges: &Ranges, product: &Product<'s>) -> Option<Self> {
        let [a, b] = product.factors;
        let along = product.along.var;
        let last = product.out.indices.last()?.as_scalar()?;
        let (left, right) = match (mentions(a.indices, last), mentions(b.indices, last)) {
            (false, true) => (a, b),
            (true, false) => (b, a),
            _ => return None,
        };
        let column = *product.loops.iter().find(|item| item.var == last)?;
        let in_panels = right.panels().is_some_and(|Panels { column, width }| {
            column == last && program.buffer(right.buffer).shape.last() == Some(&Dim::Int(width))
        });
        let own = |var| {
            let of_right = right.has_at_most_one_place(var) || (in_panels && var == last);
            of_right && [left, product.out].iter().all(|at| at.has_at_most_one_place(var))
        };
        let vars = product.loops.iter().map(|item| item.var);
        if !vars.chain([along]).all(own) || mentions(product.out.indices, along) {
            return None;
        }
        let written = |item: &&Loop| mentions(product.out.indices, item.var);
        if !product.loops.iter().all(written) {
            return None;
        }
        let of_rows =
            |item: &Loop| mentions(left.indices, item.var) && !mentions(right.indices, item.var);
        let mut rows: Vec<&Loop> = Vec::new();
        for item in product.loops.iter().rev().filter(|item| item.var != last) {
            let inner = rows.first().copied();
            let accesses = [left, product.out];
            let fits = inner.is_none_or(|inner| follows(program, ranges, &accesses, item, inner));
            if of_rows(item) && fits {
                rows.insert(0, item);
            }
        }
        let is_outer =
            |item: &&Loop| item.var != last && rows.iter().all(|row| row.var != item.var);
        let outer = product.loops.iter().copied().filter(is_outer).collect();
        Some(Self { left, right, outer, rows, column })
    }

    /// The loops over elements of one product, rows first.
    #[must_use]
    pub fn elements(&self) -> Vec<ScalarId> {
        self.rows.iter().copied().chain([self.column]).map(|item| item.var).collect()
    }

    /// How many of the outermost loops of the product are those around it; `None` where one of them is further in.
    #[must_use]
    pub fn leading(&self, product: &Product) -> Option<usize> {
        let leads = product.loops.iter().zip(&self.outer).all(|(a, b)| a.var == b.var);
        leads.then_some(self.outer.len())
    }
}

impl At<'_> {
    /// Whether a loop variable is an index of its own, or none of them mentions it.
    #[must_use]
    pub fn has_at_most_one_place(&self, var: ScalarId) -> bool {
        let own = self.indices.iter().filter(|index| index.as_scalar() == Some(var)).count();
        let within =
            self.indices.iter().filter(|index| mentions(std::slice::from_ref(*index), var));
        own == within.count() && own <= 1
    }
}

/// Whether in all accesses a step of `outer` is a whole round of `inner`.
#[must_use]
pub fn follows(
    program: &TensorProgram,
    ranges: &Ranges,
    accesses: &[At],
    outer: &Loop,
    inner: &Loop,
) -> bool {
    accesses.iter().all(|at| {
        let place = |var| at.indices.iter().position(|index| index.as_scalar() == Some(var));
        let (Some(first), Some(second)) = (place(outer.var), place(inner.var)) else {
            return false;
        };
        let extent = &program.buffer(at.buffer).shape[second];
        first + 1 == second && ranges.dim(&inner.stop).as_ref() == Some(extent)
    })
}
