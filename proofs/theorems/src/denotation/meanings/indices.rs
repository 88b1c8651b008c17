//! Integers that are known as expressions of dims and indices: comparisons and remainders of them are claims on dims.

use super::add;
use crate::denotation::denoter::Denoter;
use crate::denotation::names::{
    ADD, DIVIDE, EQUAL, FLOOR_DIVIDE, FLOOR_MOD, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL, MAXIMUM,
    MINIMUM, MOD, MULTIPLY, NOT_EQUAL, SUBTRACT,
};
use crate::denotation::ranges::assume_index;
use crate::denotation::term::{Domain, Known, Term};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};
use std::collections::BTreeMap;

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
                MAXIMUM => DimOp::Max,
                MINIMUM => DimOp::Min,
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

/// An i64 term as a sum of a known offset and of elements that are limited to known ranges. None of the parts of a sum is
/// negative, so that it wraps nowhere where it is the index of an axis ([`Ranged::is_within`]).
pub(super) struct Ranged {
    /// Each with its least and greatest value.
    limited: Vec<(Term, Dim, Dim)>,
    pub(super) offset: Dim,
}

impl Ranged {
    pub(super) fn of(denoter: &mut Denoter, term: &Term) -> Option<Self> {
        if let Some(offset) = as_index(denoter, term) {
            return Some(Self { limited: Vec::new(), offset });
        }
        if let Some((low, high)) = limits(denoter, term) {
            return Some(Self { limited: vec![(term.clone(), low, high)], offset: Dim::Int(0) });
        }
        let Term::Apply(Domain::Ring, name, args) = term else { return None };
        let [a, b] = args.as_slice() else { return None };
        if name != ADD {
            return None;
        }
        let (a, b) = (Self::of(denoter, a)?, Self::of(denoter, b)?);
        let offsets = denoter.at_most(0, a.offset.clone()) && denoter.at_most(0, b.offset.clone());
        let limited = a.limited.into_iter().chain(b.limited).collect();
        let sum = Self { limited, offset: add(a.offset, b.offset) };
        (offsets && sum.has_no_negative(denoter)).then_some(sum)
    }

    fn has_no_negative(&self, denoter: &mut Denoter) -> bool {
        self.limited.iter().all(|(_, low, _)| denoter.at_most(0, low.clone()))
    }

    /// Whether every value it may have is an index of an axis of this extent.
    pub(super) fn is_within(&self, denoter: &mut Denoter, extent: &Dim) -> bool {
        let sum = |ends: &mut dyn Iterator<Item = &Dim>| {
            ends.fold(self.offset.clone(), |sum, end| add(sum, end.clone()))
        };
        let low = sum(&mut self.limited.iter().map(|(_, low, _)| low));
        let high = sum(&mut self.limited.iter().map(|(_, _, high)| high));
        self.has_no_negative(denoter)
            && denoter.at_most(0, low)
            && denoter.proves(&Claim::new(high, Relation::Less, extent.clone()))
    }

    /// Whether its elements are the same for all values of a variable.
    pub(super) fn is_free_of(&self, name: &Name) -> bool {
        let map = BTreeMap::from([(name.clone(), Dim::Int(0))]);
        self.limited.iter().all(|(term, ..)| term.substitute(&map) == *term)
    }

    /// What is at the sum of the limited elements and an offset.
    pub(super) fn looked_up(
        self,
        denoter: &mut Denoter,
        offset: Dim,
        body: &mut dyn FnMut(&mut Denoter, Dim) -> Known<Term>,
    ) -> Known<Term> {
        let mut place = offset;
        let mut binders = Vec::new();
        for (term, _, high) in self.limited {
            let name = denoter.fresh("@");
            place = add(place, Dim::Var(name.clone()));
            binders.push((term, (name, add(high, Dim::Int(1)))));
        }
        denoter.facts.push();
        binders.iter().for_each(|(_, binder)| assume_index(binder, &mut *denoter.facts));
        let place = denoter.facts.simplify(&place);
        let inner = body(denoter, place);
        denoter.facts.pop();
        let inner = inner?;
        let wrap = |inner, (term, binder)| Term::Lookup(Box::new(term), binder, Box::new(inner));
        Ok(binders.into_iter().rev().fold(inner, wrap))
    }
}

/// The least and the greatest value of `max(min(x, high), low)`.
fn limits(denoter: &mut Denoter, term: &Term) -> Option<(Dim, Dim)> {
    let (below, low) = with_known(denoter, term, MAXIMUM)?;
    let (_, high) = with_known(denoter, &below, MINIMUM)?;
    denoter.at_most(low.clone(), high.clone()).then_some((low, high))
}

/// Of an extreme of two the one that is not known, and the other.
fn with_known(denoter: &mut Denoter, term: &Term, extreme: &str) -> Option<(Term, Dim)> {
    let Term::Apply(Domain::Ring, name, args) = term else { return None };
    let ([a, b], true) = (args.as_slice(), name == extreme) else { return None };
    let pairs = [(a, b), (b, a)];
    pairs.into_iter().find_map(|(one, other)| Some((one.clone(), as_index(denoter, other)?)))
}

/// An operator on two i64 elements that are both known so.
pub(super) fn applied(denoter: &mut Denoter, name: &str, terms: &[Term]) -> Option<Term> {
    let [a, b] = terms else { return None };
    let relation = relation_of(name);
    let is_division = matches!(name, FLOOR_DIVIDE | FLOOR_MOD | MOD | DIVIDE);
    if !is_division && relation.is_none() {
        return None;
    }
    let (a, b) = (as_index(denoter, a)?, as_index(denoter, b)?);
    if let Some((relation, is_swapped)) = relation {
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
