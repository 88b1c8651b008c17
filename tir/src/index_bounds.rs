//! Index bounds: whether an index is within an extent, also where it is a part of another one: scheduled programs take the indices of a
//! nest from one number by quotients and remainders.

use relax_semantics::tir::ranges::{Ranges, is_proved, opposites};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Facts, Relation};
use relax_syntax::ir::tensor::{BinOp, TExpr, UnOp};

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
/// extents are where a nest over all of them has an iteration. Then factors that are 0 or 1 are 1, and the number divided by the last
/// factors is less than the first ones, as `x // b < a` is where `x < a * b`.
pub fn assume(ranges: &Ranges, facts: &mut dyn Facts, condition: &TExpr) {
    ranges.assume(facts, condition);
    if let TExpr::Unary(UnOp::Not, operand) = condition {
        return assume_not(ranges, facts, operand);
    }
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
            if factors.len() > 1 && all.all(|dim| is_proved(facts, &at_least(0, dim))) {
                factors.iter().for_each(|factor| facts.assume(at_least(1, factor)));
                factors.retain(|factor| !is_choice(facts, factor));
                facts.assume(Claim::new(less.clone(), Relation::Less, multiplied(&factors)));
                assume_quotients(facts, &less, &factors);
            }
        }
        _ => {}
    }
}

/// Assumes that a condition does not hold.
pub fn assume_not(ranges: &Ranges, facts: &mut dyn Facts, condition: &TExpr) {
    opposites(condition).iter().for_each(|holds| assume(ranges, facts, holds));
}

/// What is known of a condition where something is evaluated.
#[derive(Clone, Copy, Debug)]
pub enum Known<'e> {
    /// It holds there.
    Holds(&'e TExpr),
    /// It does not.
    Fails(&'e TExpr),
    /// It may hold or not.
    Nothing,
}

impl Known<'_> {
    /// Assumes what is known.
    pub fn assume(self, ranges: &Ranges, facts: &mut dyn Facts) {
        match self {
            Known::Holds(condition) => assume(ranges, facts, condition),
            Known::Fails(condition) => assume_not(ranges, facts, condition),
            Known::Nothing => {}
        }
    }
}

fn at_least(least: i64, dim: &Dim) -> Claim {
    Claim::new(least, Relation::AtMost, dim.clone())
}

/// Whether what is positive is 1: a factor by which the host chooses one of two kernels, `min(a, 1)` or `1 - min(a, 1)` where `a` is
/// not negative.
fn is_choice(facts: &mut dyn Facts, factor: &Dim) -> bool {
    let Dim::Op(op, both) = factor else { return false };
    match (op, &both.0, &both.1) {
        (DimOp::Min, _, Dim::Int(1)) => true,
        (DimOp::Sub, Dim::Int(1), Dim::Op(DimOp::Min, of)) => {
            of.1 == Dim::Int(1) && is_proved(facts, &at_least(0, &of.0))
        }
        _ => false,
    }
}

fn multiplied(factors: &[&Dim]) -> Dim {
    let factors = factors.iter().map(|factor| (*factor).clone());
    factors.reduce(|a, b| Dim::op(DimOp::Mul, a, b)).unwrap_or(Dim::Int(1))
}

/// Of a number below a product of positive factors: those quotients of which the divisor is no literal.
fn assume_quotients(facts: &mut dyn Facts, less: &Dim, factors: &[&Dim]) {
    for at in 1..factors.len() {
        let (first, last) = (multiplied(&factors[..at]), multiplied(&factors[at..]));
        if matches!(last, Dim::Int(_)) {
            continue;
        }
        let quotient = Dim::op(DimOp::FloorDiv, less.clone(), last);
        facts.assume(at_least(0, &quotient));
        facts.assume(Claim::new(quotient, Relation::Less, first));
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
