//! Integers that are known as expressions of dims and indices: comparisons and remainders of them are claims on dims.

use crate::denotation::denoter::Denoter;
use crate::denotation::names::{
    ADD, DIVIDE, EQUAL, FLOOR_DIVIDE, FLOOR_MOD, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL, MOD,
    MULTIPLY, NOT_EQUAL, SUBTRACT,
};
use crate::denotation::term::{Domain, Term};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};

/// Floats hold integers up to this one exactly.
const LARGEST_EXACT: f64 = (1_u64 << 53) as f64;

/// The value of an i64 term as an expression of dims, where nothing on the way to it wraps.
pub(super) fn as_index(denoter: &mut Denoter, term: &Term) -> Option<Dim> {
    match term {
        Term::Extent(dim) => Some(dim.clone()),
        Term::Number(Domain::Ring, value) if value.abs() < LARGEST_EXACT => {
            Some(Dim::Int(*value as i64))
        }
        Term::Apply(Domain::Ring, name, args) => {
            let op = match name.as_str() {
                ADD => DimOp::Add,
                SUBTRACT => DimOp::Sub,
                MULTIPLY => DimOp::Mul,
                _ => return None,
            };
            let [a, b] = args.as_slice() else { return None };
            let dim = Dim::op(op, as_index(denoter, a)?, as_index(denoter, b)?);
            let fits =
                denoter.at_most(i64::MIN, dim.clone()) && denoter.at_most(dim.clone(), i64::MAX);
            fits.then_some(dim)
        }
        _ => None,
    }
}

/// An operator on two i64 elements that are both known so.
pub(super) fn applied(denoter: &mut Denoter, name: &str, terms: &[Term]) -> Option<Term> {
    let [a, b] = terms else { return None };
    let is_division = matches!(name, FLOOR_DIVIDE | FLOOR_MOD | MOD | DIVIDE);
    if !is_division && relation_of(name).is_none() {
        return None;
    }
    let (a, b) = (as_index(denoter, a)?, as_index(denoter, b)?);
    if let Some((relation, is_swapped)) = relation_of(name) {
        let (a, b) = if is_swapped { (b, a) } else { (a, b) };
        let truth = |value| Term::Number(Domain::Bits, value);
        return Some(Term::choose(Claim::new(a, relation, b), truth(1.0), truth(0.0)));
    }
    // Rounded down or towards 0: of what is not negative it is the same.
    let is_floor = matches!(name, FLOOR_DIVIDE | FLOOR_MOD);
    if !denoter.at_most(1, b.clone()) || !is_floor && !denoter.at_most(0, a.clone()) {
        return None;
    }
    let op = if matches!(name, FLOOR_MOD | MOD) { DimOp::FloorMod } else { DimOp::FloorDiv };
    Some(Term::Extent(Dim::op(op, a, b)))
}

/// The relation that a comparison tests, and whether of its operands exchanged.
fn relation_of(name: &str) -> Option<(Relation, bool)> {
    Some(match name {
        LESS => (Relation::Less, false),
        LESS_EQUAL => (Relation::AtMost, false),
        GREATER => (Relation::Less, true),
        GREATER_EQUAL => (Relation::AtMost, true),
        EQUAL => (Relation::Equal, false),
        NOT_EQUAL => (Relation::NotEqual, false),
        _ => return None,
    })
}
