//! Laws of order: comparisons of extremes, extremes with infinities, and what is never negative.
//!
//! They hold of floats as they are: NaN is an extreme of whatever has one, and less than nothing.

use super::normal::Normalizer;
use super::poly::{Atom, Poly};
use super::ratio::Ratio;
use super::term::{Domain, Known};
use crate::denotation::names::{ABS, EXP, LESS, LOGICAL_AND, MAXIMUM, MINIMUM, MULTIPLY};

/// Integers from 0 to this one are the same in every dtype.
pub(super) const LARGEST_OF_ALL: i64 = 127;

impl Normalizer<'_> {
    /// A comparison or an extreme of two normal forms by a law of order.
    pub(super) fn by_order(
        &mut self,
        domain: Domain,
        name: &str,
        args: &[Poly],
    ) -> Known<Option<Poly>> {
        match (domain, args) {
            (Domain::Ring | Domain::Bits, [a, b]) if name == LESS => self.less(domain, a, b),
            (Domain::Bits, [a, b]) if name == MAXIMUM => Ok(self.without(a, b, f64::NEG_INFINITY)),
            (Domain::Bits, [a, b]) if name == MINIMUM => Ok(self.without(a, b, f64::INFINITY)),
            (Domain::Ring | Domain::Bits, [a]) if name == ABS => {
                Ok(self.is_never_negative(domain, a).then(|| a.clone()))
            }
            _ => Ok(None),
        }
    }

    /// The other operand, where one of them is the neutral element.
    fn without(&self, a: &Poly, b: &Poly, neutral: f64) -> Option<Poly> {
        let pairs = [(a, b), (b, a)];
        let found = pairs.into_iter().find(|(one, _)| self.value(one) == Some(neutral));
        found.map(|(_, other)| other.clone())
    }

    /// Below the lesser of two is below both, and so is the greater of two below a third. No number is below itself, so it is
    /// below the greater of itself and others where it is below that of the others.
    fn less(&mut self, domain: Domain, a: &Poly, b: &Poly) -> Known<Option<Poly>> {
        if domain == Domain::Ring && b.is_zero() && self.is_unsigned(a) {
            return self.literal(0.0).map(Some);
        }
        if let Some(others) = self.beside(b, MAXIMUM, a) {
            let greatest = self.extreme_of(domain, MAXIMUM, others)?;
            return self.function(domain, LESS, vec![a.clone(), greatest]).map(Some);
        }
        if let Some(others) = self.beside(a, MINIMUM, b) {
            let least = self.extreme_of(domain, MINIMUM, others)?;
            return self.function(domain, LESS, vec![least, b.clone()]).map(Some);
        }
        let pairs: Vec<(Poly, Poly)> = if let Some(args) = self.operands_of(b, MINIMUM) {
            args.into_iter().map(|arg| (a.clone(), arg)).collect()
        } else if let Some(args) = self.operands_of(a, MAXIMUM) {
            args.into_iter().map(|arg| (arg, b.clone())).collect()
        } else {
            return Ok(None);
        };
        let mut result: Option<Poly> = None;
        for (a, b) in pairs {
            let own = self.function(domain, LESS, vec![a, b])?;
            result = Some(match result {
                None => own,
                Some(others) => self.function(Domain::Bits, LOGICAL_AND, vec![others, own])?,
            });
        }
        Ok(result)
    }

    fn operands_of(&self, poly: &Poly, name: &str) -> Option<Vec<Poly>> {
        match self.call(poly) {
            Some(Atom::Apply(_, own, args)) if own == name && args.len() > 1 => Some(args),
            _ => None,
        }
    }

    /// The other operands of an extreme that has this one.
    fn beside(&self, poly: &Poly, name: &str, one: &Poly) -> Option<Vec<Poly>> {
        let mut args = self.operands_of(poly, name)?;
        let at = args.iter().position(|arg| arg == one)?;
        args.remove(at);
        Some(args)
    }

    fn extreme_of(&mut self, domain: Domain, name: &str, args: Vec<Poly>) -> Known<Poly> {
        let mut args = args.into_iter();
        let mut result = args.next().unwrap_or_default();
        for arg in args {
            result = self.function(domain, name, vec![result, arg])?;
        }
        Ok(result)
    }

    /// Whether it is an element of a tensor of unsigned integers.
    fn is_unsigned(&self, poly: &Poly) -> bool {
        match poly.as_atom().map(|id| &self.atoms[id]) {
            Some(Atom::Read(name, _)) => self.operands.are_unsigned(name),
            _ => false,
        }
    }

    /// Whether it has no sign: it is NaN, 0.0 or above, or an integer that is 0 or above.
    fn is_never_negative(&self, domain: Domain, poly: &Poly) -> bool {
        if self.is_unsigned(poly) {
            return true;
        }
        match (domain, self.call(poly)) {
            (Domain::Bits, None) => self.value(poly).is_some_and(|value| !value.is_sign_negative()),
            (Domain::Ring, None) => poly.as_number().is_some_and(is_small),
            (Domain::Bits, Some(Atom::Apply(_, name, args))) => match (name.as_str(), &args[..]) {
                (ABS | EXP | "sigmoid" | "cosh", [_]) => true,
                (MULTIPLY, [a, b]) => a == b,
                (MAXIMUM, args) => args.iter().any(|arg| self.is_never_negative(domain, arg)),
                _ => false,
            },
            (Domain::Ring, Some(Atom::Apply(_, name, args))) => {
                name == MAXIMUM && args.iter().any(|arg| self.is_never_negative(domain, arg))
            }
            _ => false,
        }
    }
}

fn is_small(number: Ratio) -> bool {
    number.as_int().is_some_and(|value| (0..=i128::from(LARGEST_OF_ALL)).contains(&value))
}
