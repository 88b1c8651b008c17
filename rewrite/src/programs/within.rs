//! Whether an index is within an extent, also where it is a part of another one: scheduled programs take the indices of a
//! nest from one number by quotients and remainders.

use super::ranges::{Ranges, is_proved};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Facts, Relation};
use relax_syntax::ir::tensor::{BinOp, TExpr};

/// Whether an index is proved to be within an extent.
pub fn is_within(ranges: &Ranges, facts: &mut dyn Facts, index: &TExpr, extent: &Dim) -> bool {
    if ranges.is_within(facts, index, extent) {
        return true;
    }
    let Some(dim) = ranges.dim(index) else { return false };
    is_part_within(facts, &dim, extent)
        || (is_proved(facts, &Claim::new(dim.clone(), Relation::Less, extent.clone()))
            && is_not_negative(facts, &dim))
}

/// Whether a dim is proved to be at least 0, or is made of such by what keeps that.
fn is_not_negative(facts: &mut dyn Facts, dim: &Dim) -> bool {
    if is_proved(facts, &Claim::new(0, Relation::AtMost, dim.clone())) {
        return true;
    }
    let Dim::Op(op, operands) = dim else { return false };
    let (a, b) = (&operands.0, &operands.1);
    match op {
        DimOp::Add | DimOp::Mul => is_not_negative(facts, a) && is_not_negative(facts, b),
        DimOp::FloorDiv | DimOp::FloorMod => {
            is_proved(facts, &Claim::new(0, Relation::Less, b.clone()))
                && (*op == DimOp::FloorMod || is_not_negative(facts, a))
        }
        _ => false,
    }
}

/// `x // d < e` where `0 <= x < e * d`, which no `d` of 0 allows, and `x % d < e` where `0 < d <= e`.
fn is_part_within(facts: &mut dyn Facts, part: &Dim, extent: &Dim) -> bool {
    let Dim::Op(op, operands) = part else { return false };
    let (whole, divisor) = (&operands.0, &operands.1);
    let claim = match op {
        DimOp::FloorDiv => {
            let end = Dim::op(DimOp::Mul, extent.clone(), divisor.clone());
            Claim::new(whole.clone(), Relation::Less, end)
        }
        DimOp::FloorMod => Claim::new(divisor.clone(), Relation::AtMost, extent.clone()),
        _ => return false,
    };
    let least = i64::from(*op == DimOp::FloorMod);
    is_proved(facts, &Claim::new(least, Relation::AtMost, divisor.clone()))
        && is_not_negative(facts, whole)
        && is_proved(facts, &claim)
}

/// Assumes a condition, and of a product that some number is less than that its factors are positive, where none is negative: so
/// extents are where a nest over all of them has an iteration.
pub fn assume(ranges: &Ranges, facts: &mut dyn Facts, condition: &TExpr) {
    ranges.assume(facts, condition);
    let TExpr::Binary(op, operands) = condition else { return };
    match op {
        BinOp::And => {
            assume(ranges, facts, &operands.0);
            assume(ranges, facts, &operands.1);
        }
        BinOp::Less => {
            let (Some(less), Some(product)) = (ranges.dim(&operands.0), ranges.dim(&operands.1))
            else {
                return;
            };
            let mut factors = Vec::new();
            collect_factors(&product, &mut factors);
            let mut all = std::iter::once(&less).chain(factors.iter().copied());
            let at_least = |least: i64, dim: &Dim| Claim::new(least, Relation::AtMost, dim.clone());
            if factors.len() > 1 && all.all(|dim| is_proved(facts, &at_least(0, dim))) {
                factors.into_iter().for_each(|factor| facts.assume(at_least(1, factor)));
            }
        }
        _ => {}
    }
}

fn collect_factors<'d>(dim: &'d Dim, found: &mut Vec<&'d Dim>) {
    match dim {
        Dim::Op(DimOp::Mul, operands) => {
            collect_factors(&operands.0, found);
            collect_factors(&operands.1, found);
        }
        _ => found.push(dim),
    }
}
