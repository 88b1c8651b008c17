//! Whether an index is within an extent, also where it is a part of another one: scheduled programs take the indices of a
//! nest from one number by quotients and remainders.

use super::ranges::{Ranges, is_proved};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Facts, Relation};
use relax_syntax::ir::tensor::TExpr;

/// Whether an index is proved to be within an extent.
pub fn is_within(ranges: &Ranges, facts: &mut dyn Facts, index: &TExpr, extent: &Dim) -> bool {
    ranges.is_within(facts, index, extent)
        || ranges.dim(index).is_some_and(|dim| is_part_within(facts, &dim, extent))
}

/// `x // d < e` where `x < e * d`, and `x % d < e` where `d <= e`; `d` is positive, and `x` is not negative.
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
    is_proved(facts, &Claim::new(0, Relation::Less, divisor.clone()))
        && is_proved(facts, &Claim::new(0, Relation::AtMost, whole.clone()))
        && is_proved(facts, &claim)
}
