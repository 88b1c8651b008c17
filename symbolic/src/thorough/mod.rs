//! The second attempt: questions that the first steps and the e-graph leave open are asked once more, with further
//! rows in each linear system.
//!
//! The rows are all facts of the context, quotients of facts by factors above 0 ([`factors`]), squares and products of facts
//! ([`products`]). They make systems several times as big, and most questions that stay open gain nothing from them. So what is
//! asked first has none of them: its answers, steps and certificates are as without this attempt. What a system derives is
//! dropped with it.

mod factors;
mod products;
mod squares;
#[cfg(test)]
mod tests;

use crate::claims::Formula;
use crate::context::Context;
use crate::engine::Engine;
use crate::problem::{Infeasibility, Problem, Reason, distances};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};

/// Steps of work for one question.
const FUEL: u32 = 10_000;
/// Steps of the linear solver for one system.
const LINEAR_FUEL: u32 = 2_000;

/// Which rows a linear system gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Facts that share an atom with what is asked, and what they are about.
    #[default]
    Near,
    /// Where these do not suffice, those of the second attempt too.
    Far,
}

impl Engine {
    /// Whether the second attempt proves that `formula` has a value and holds.
    pub(crate) fn proves_thoroughly(&mut self, context: &Context, formula: &Formula) -> bool {
        if !may_gain(context, formula) {
            return false;
        }
        self.fuel = FUEL;
        self.reach = Reach::Far;
        let proved = self.proves_formula(context, formula);
        self.reach = Reach::Near;
        proved
    }

    /// Why the system has no solution with the rows of the second attempt.
    pub(crate) fn far_infeasibility(
        &mut self,
        context: &Context,
        mut problem: Problem,
    ) -> Option<Infeasibility> {
        for poly in &context.zero {
            problem.add_equation(poly.clone());
        }
        for poly in &context.at_least_zero {
            problem.add(poly.clone(), Reason::Given);
        }
        for (&id, &bounds) in &context.bounds {
            for poly in distances(id, bounds) {
                problem.add(poly, Reason::Given);
            }
        }
        self.gather(context, &mut problem);
        self.add_without_factors(context, &mut problem);
        let squares = problem.at_least_zero.len();
        self.add_squares(&mut problem);
        self.add_products_of_rows(&mut problem, squares);
        let refutation = self.linear_refutation(&problem, LINEAR_FUEL)?;
        Some(problem.without_solution(refutation))
    }
}

/// Whether the question has something that the further rows are about: a product of terms, a division, a `min` or `max`.
fn may_gain(context: &Context, formula: &Formula) -> bool {
    let mut found = context.claims.iter().any(is_nonlinear);
    formula.visit_claims(&mut |claim| found |= is_nonlinear(claim));
    found
}

fn is_nonlinear(claim: &Claim) -> bool {
    claim.relation == Relation::Divides
        || [&claim.left, &claim.right].into_iter().any(has_nonlinear_part)
}

fn has_nonlinear_part(dim: &Dim) -> bool {
    let Dim::Op(op, operands) = dim else { return false };
    let (a, b) = (&operands.0, &operands.1);
    let own = match op {
        DimOp::Add | DimOp::Sub => false,
        DimOp::Mul => a.as_int().is_none() && b.as_int().is_none(),
        DimOp::FloorDiv | DimOp::FloorMod | DimOp::CeilDiv | DimOp::Min | DimOp::Max => true,
    };
    own || has_nonlinear_part(a) || has_nonlinear_part(b)
}
