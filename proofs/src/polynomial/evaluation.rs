//! The value of a polynomial under an assignment, for tests: what [`super`] says that it is.

use super::{Algebra, Atom, AtomId, Poly};
use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::Zero;
use std::collections::BTreeMap;

impl Algebra {
    pub(crate) fn value(&self, poly: &Poly, names: &BTreeMap<String, i128>) -> BigInt {
        let term = |(factors, coefficient): (&Vec<AtomId>, &BigInt)| {
            factors
                .iter()
                .fold(coefficient.clone(), |value, id| value * self.atom_value(*id, names))
        };
        poly.0.iter().map(term).sum()
    }

    fn atom_value(&self, id: AtomId, names: &BTreeMap<String, i128>) -> BigInt {
        let values = |polys: &[Poly]| -> Vec<BigInt> {
            polys.iter().map(|poly| self.value(poly, names)).collect()
        };
        match self.atoms[id.0 as usize].as_ref() {
            Atom::Name(name) => names[name].into(),
            Atom::Quotient(a, b) => {
                let (a, b) = (self.value(a, names), self.value(b, names));
                if b.is_zero() { b } else { a.div_floor(&b) }
            }
            Atom::Least(operands) => values(operands).into_iter().min().unwrap_or_default(),
            Atom::Greatest(operands) => values(operands).into_iter().max().unwrap_or_default(),
        }
    }
}
