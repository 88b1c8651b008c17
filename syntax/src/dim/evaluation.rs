//! Whether the evaluation of a dim stays in i64, whatever the variables are: what does not may stop a run with `dim/value`.

use super::{Dim, DimOp};
use crate::Name;

/// Whether every step of evaluating `dim` stays in i64 when its value is the extent of some tensor:
/// then it can be written where the extent was named, and no trap `dim/value` is added.
///
/// Variables are extents, so at least 0. In a sum each term is at most the sum; in a product each
/// factor is at most the product unless another one can be 0, so that only what never leaves i64 and
/// multiples by positive literals are taken. What stays in i64 for all extents may be anything.
#[must_use]
pub fn evaluates_when_it_fits(dim: &Dim) -> bool {
    bounds(dim).is_some() || evaluates_up_to(dim, MOST)
}

/// Whether every step of evaluating `dim` stays in i64 when its value is from 0 to `most`.
fn evaluates_up_to(dim: &Dim, most: i128) -> bool {
    let Dim::Op(op, operands) = dim else { return is_atomic(dim) };
    let (a, b) = (&operands.0, &operands.1);
    // Of a quotient by a literal, or a difference with one: the most that the other side can be.
    let other = |most: i128| most <= MOST && is_no_negative(a) && evaluates_up_to(a, most);
    match (op, b) {
        _ if is_always_extent(dim) => true,
        (DimOp::Add | DimOp::Max, _) => {
            [a, b].into_iter().all(|part| is_no_negative(part) && evaluates_up_to(part, most))
        }
        (DimOp::Mul, _) => {
            let is_part = |part: &Dim, beside: &Dim| {
                is_always_extent(part) || (is_positive(beside) && evaluates_up_to(part, most))
            };
            is_part(a, b) && is_part(b, a)
        }
        (DimOp::FloorDiv, &Dim::Int(by @ 1..)) => other((most + 1) * i128::from(by) - 1),
        (DimOp::CeilDiv, &Dim::Int(by @ 1..)) => other(most * i128::from(by)),
        (DimOp::Sub, &Dim::Int(less @ 0..)) => other(most + i128::from(less)),
        (DimOp::FloorDiv | DimOp::FloorMod | DimOp::CeilDiv | DimOp::Min | DimOp::Sub, _) => false,
    }
}

/// Whether a dim that has a value is no negative number, as its operations tell.
fn is_no_negative(dim: &Dim) -> bool {
    let Dim::Op(op, operands) = dim else { return is_atomic(dim) };
    let (a, b) = (&operands.0, &operands.1);
    match op {
        DimOp::Add | DimOp::Mul | DimOp::Min => is_no_negative(a) && is_no_negative(b),
        DimOp::Max => is_no_negative(a) || is_no_negative(b),
        DimOp::FloorDiv | DimOp::CeilDiv => is_no_negative(a) && is_positive(b),
        DimOp::FloorMod => is_positive(b),
        DimOp::Sub => false,
    }
}

/// Whether a dim is an extent for any extents: no negative number, and no step of its evaluation leaves i64.
fn is_always_extent(dim: &Dim) -> bool {
    bounds(dim).is_some_and(|(low, _)| low >= 0)
}

/// The least and greatest value of a dim for any extents, if no step of its evaluation leaves i64.
fn bounds(dim: &Dim) -> Option<(i128, i128)> {
    bounds_with(dim, &|_| MOST)
}

/// The greatest extent.
pub const MOST: i128 = i64::MAX as i128;

/// The least and greatest value of a dim for extents up to those, if no step of its evaluation leaves i64.
#[must_use]
pub fn bounds_with(dim: &Dim, most: &dyn Fn(&Name) -> i128) -> Option<(i128, i128)> {
    let (op, operands) = match dim {
        Dim::Int(value) => return Some((i128::from(*value), i128::from(*value))),
        Dim::Var(name) => return Some((0, most(name))),
        Dim::Op(op, operands) => (*op, operands),
    };
    let ((a, b), (c, d)) = (bounds_with(&operands.0, most)?, bounds_with(&operands.1, most)?);
    let found = match op {
        DimOp::Add => (a + c, b + d),
        DimOp::Sub => (a - d, b - c),
        DimOp::Mul => {
            let corners = [a * c, a * d, b * c, b * d];
            (*corners.iter().min()?, *corners.iter().max()?)
        }
        DimOp::Min => (a.min(c), b.min(d)),
        DimOp::Max => (a.max(c), b.max(d)),
        // By a positive literal, which makes nothing larger.
        DimOp::FloorDiv | DimOp::CeilDiv if c == d && c > 0 => {
            let up = if op == DimOp::CeilDiv { c - 1 } else { 0 };
            ((a + up).div_euclid(c), (b + up).div_euclid(c))
        }
        DimOp::FloorMod if c == d && c > 0 => (0, c - 1),
        DimOp::FloorDiv | DimOp::CeilDiv | DimOp::FloorMod => return None,
    };
    (i128::from(i64::MIN) <= found.0 && found.1 <= MOST).then_some(found)
}

/// Whether `dim` evaluates to an extent whatever the variables are, given that there is a tensor of
/// each of `shapes`: it is a literal or a variable, or the product of some extents of one of them, or an
/// extent itself, or the variables in it are too small to reach beyond i64. A tensor exists only where the product of its
/// extents other than 0 is a number of elements.
#[must_use]
pub fn always_evaluates(dim: &Dim, shapes: &[&[Dim]]) -> bool {
    let fits = || bounds_with(dim, &|name| most(name, shapes)).is_some_and(|(low, _)| low >= 0);
    is_atomic(dim)
        || shapes.iter().any(|extents| is_product_of_some(dim, extents))
        || shapes.iter().any(|extents| is_sum_of_one(dim, extents))
        || fits()
}

/// Whether the evaluation of `dim` stays in i64 whatever the variables are; its value may be negative, as a place may be.
#[must_use]
pub fn evaluates_to_a_place(dim: &Dim) -> bool {
    bounds_with(dim, &|_| MOST).is_some()
}

/// Whether `dim` adds what one of `extents` adds, in any order, so that it is that extent: no more than the literal extents
/// beside it leave room for.
fn is_sum_of_one(dim: &Dim, extents: &[Dim]) -> bool {
    fn summands<'d>(dim: &'d Dim, all: &mut Vec<&'d Dim>) {
        match dim {
            Dim::Op(DimOp::Add, operands) => {
                summands(&operands.0, all);
                summands(&operands.1, all);
            }
            other => all.push(other),
        }
    }
    let sorted = |dim| {
        let mut all = Vec::new();
        summands(dim, &mut all);
        all.sort();
        all
    };
    let evaluates = bounds(dim).is_some() || evaluates_up_to(dim, MOST / literals(extents));
    evaluates && extents.iter().any(|extent| sorted(extent) == sorted(dim))
}

/// The product of the literal extents other than 0.
fn literals(extents: &[Dim]) -> i128 {
    let literals = extents.iter().filter_map(Dim::as_int).filter(|&extent| extent > 0);
    literals.fold(1_i128, |product, extent| product.saturating_mul(extent.into()))
}

/// The greatest value of a variable, given that there is a tensor of each of `shapes`: beside literal
/// extents there is the less room for it, and as a term of a sum it is no more than the sum.
#[must_use]
pub fn most(name: &Name, shapes: &[&[Dim]]) -> i128 {
    let limits = shapes.iter().filter_map(|extents| {
        let has_term = |extent: &Dim| terms(extent).is_some_and(|terms| terms.contains(&name));
        extents.iter().any(has_term).then(|| MOST / literals(extents))
    });
    limits.min().unwrap_or(MOST)
}

/// The variables that a sum adds, beside literals; `None` where a part could be negative.
fn terms(dim: &Dim) -> Option<Vec<&Name>> {
    match dim {
        Dim::Var(name) => Some(vec![name]),
        Dim::Int(value) => (*value >= 0).then(Vec::new),
        Dim::Op(DimOp::Add, operands) => {
            let mut all = terms(&operands.0)?;
            all.extend(terms(&operands.1)?);
            Some(all)
        }
        Dim::Op(..) => None,
    }
}

/// Whether the variables of `dim` are those of some of `extents`, each extent with all its variables,
/// and the literals together are no more than theirs.
fn is_product_of_some(dim: &Dim, extents: &[Dim]) -> bool {
    let Some(mut left) = factors(dim) else { return false };
    let mut literals = Vec::new();
    for extent in extents {
        let Some(mut own) = factors(extent) else { continue };
        let taken = take_all(&left, own.iter().filter(|factor| !is_positive(factor)));
        if let Some(rest) = taken {
            left = rest;
            own.retain(is_positive);
            literals.extend(own);
        }
    }
    let product = |factors: &[Dim]| {
        factors.iter().try_fold(1_i64, |product, factor| product.checked_mul(factor.as_int()?))
    };
    let (wanted, there) = (product(&left), product(&literals));
    left.iter().all(is_positive) && wanted.zip(there).is_some_and(|(a, b)| a <= b)
}

/// `from` without each of `wanted`, if they are all in it.
fn take_all<'d>(from: &[Dim], wanted: impl Iterator<Item = &'d Dim>) -> Option<Vec<Dim>> {
    let mut left = from.to_vec();
    for factor in wanted {
        let at = left.iter().position(|found| found == factor)?;
        left.swap_remove(at);
    }
    Some(left)
}

/// What a product multiplies: literals, variables, and what never leaves i64.
fn factors(dim: &Dim) -> Option<Vec<Dim>> {
    match dim {
        Dim::Op(DimOp::Mul, operands) => {
            let mut all = factors(&operands.0)?;
            all.extend(factors(&operands.1)?);
            Some(all)
        }
        factor if is_always_extent(factor) => Some(vec![factor.clone()]),
        _ => None,
    }
}

/// A variable, or a literal that is no negative number.
#[must_use]
pub fn is_atomic(dim: &Dim) -> bool {
    match dim {
        Dim::Int(value) => *value >= 0,
        Dim::Var(_) => true,
        Dim::Op(..) => false,
    }
}

/// Whether it is a literal above 0.
#[must_use]
pub fn is_positive(dim: &Dim) -> bool {
    matches!(dim, Dim::Int(value) if *value > 0)
}

#[cfg(test)]
mod tests;
