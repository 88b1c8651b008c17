//! Polynomials over big integers: the only arithmetic of the checker, and all of it is one function,
//! `sum += a * b`.
//!
//! **Values.** Under an assignment of integers to names every atom has a value: `A // B` is the floor
//! of the quotient, and 0 where B is 0. That 0 is arbitrary; what matters is that it is a function of
//! the values of A and B, so that equal operands give equal atoms and polynomials may be computed
//! with. No rule of the checker says anything of `A // B` without a fact about the sign of B, and a
//! statement is taken apart only together with facts `d != 0` for every divisor in its text. So
//! a fact about polynomials is always a plain fact about integers, in branches too where a divisor
//! may be 0.
//!
//! **Limits.** A certificate may be hostile. Terms, degrees and bits of a polynomial are limited, and
//! all work is paid for from one budget.

#[cfg(test)]
mod evaluation;

use crate::{Checks, refuse};
use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, Signed, Zero};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::rc::Rc;

/// The most terms of a polynomial.
const MAX_TERMS: usize = 5_000;
/// The most factors of a term.
const MAX_DEGREE: usize = 100;
/// The longest number, in bits.
const MAX_BITS: u64 = 2_000;
/// The budget: products of terms that may be computed for one certificate.
const MAX_WORK: u64 = 20_000_000;
/// What it costs to keep a term: limits memory as well.
const KEEPING: u64 = 20;
/// The longest polynomial that a message shows, in characters.
const MAX_SHOWN: usize = 300;

/// An atom by its number in [`Algebra`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AtomId(u32);

/// What a polynomial is over.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Atom {
    /// A variable.
    Name(String),
    /// `A // B`
    Quotient(Poly, Poly),
    /// `min(A, ...)`
    Least(Vec<Poly>),
    /// `max(A, ...)`
    Greatest(Vec<Poly>),
}

/// A polynomial: products of atoms, each a sorted list, with their coefficients, of which none is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Poly(BTreeMap<Vec<AtomId>, BigInt>);

impl Poly {
    /// A number.
    pub(crate) fn constant(value: impl Into<BigInt>) -> Self {
        let value = value.into();
        let terms = if value.is_zero() { BTreeMap::new() } else { [(Vec::new(), value)].into() };
        Poly(terms)
    }

    /// Its value, when no atom is in it.
    pub(crate) fn as_constant(&self) -> Option<BigInt> {
        self.0.keys().all(Vec::is_empty).then(|| self.constant_term())
    }

    /// The term without atoms.
    pub(crate) fn constant_term(&self) -> BigInt {
        self.0.get(&[][..]).cloned().unwrap_or_default()
    }

    /// The atom that this is, when it is one.
    pub(crate) fn as_atom(&self) -> Option<AtomId> {
        let (factors, coefficient) = self.0.iter().next()?;
        let alone = self.0.len() == 1 && factors.len() == 1 && coefficient.is_one();
        alone.then(|| factors[0])
    }

    /// The greatest common divisor of the coefficients but the constant; 0 when there are none.
    pub(crate) fn content(&self) -> BigInt {
        let varying = self.0.iter().filter(|(factors, _)| !factors.is_empty());
        varying.fold(BigInt::zero(), |gcd, (_, coefficient)| gcd.gcd(coefficient))
    }

    /// Every coefficient divided and rounded down.
    pub(crate) fn divided_by(&self, divisor: &BigInt) -> Self {
        let quotients = self.0.iter().map(|(f, c)| (f.clone(), c.div_floor(divisor)));
        Poly(quotients.filter(|(_, c)| !c.is_zero()).collect())
    }

    fn size(&self) -> u64 {
        self.0.len() as u64
    }
}

/// The atoms of a certificate and its budget.
#[derive(Debug)]
pub(crate) struct Algebra {
    atoms: Vec<Rc<Atom>>,
    numbers: BTreeMap<Rc<Atom>, AtomId>,
    work: u64,
}

impl Algebra {
    /// Without atoms, with the whole budget.
    pub(crate) fn new() -> Self {
        Algebra { atoms: Vec::new(), numbers: BTreeMap::new(), work: MAX_WORK }
    }

    /// `sum += a * b`
    pub(crate) fn add_product(&mut self, sum: &mut Poly, a: &Poly, b: &Poly) -> Checks<()> {
        self.pay(1 + sum.size() + a.size().saturating_mul(b.size()))?;
        for (left, c) in &a.0 {
            for (right, d) in &b.0 {
                let mut factors = [left.as_slice(), right.as_slice()].concat();
                factors.sort_unstable();
                if factors.len() > MAX_DEGREE {
                    return refuse(format!("a term of more than {MAX_DEGREE} factors"));
                }
                let coefficient = sum.0.entry(factors).or_default();
                *coefficient += c * d;
                if coefficient.bits() > MAX_BITS {
                    return refuse(format!("a number of more than {MAX_BITS} bits"));
                }
                if sum.0.len() > MAX_TERMS {
                    return refuse(format!("a polynomial of more than {MAX_TERMS} terms"));
                }
            }
        }
        sum.0.retain(|_, coefficient| !coefficient.is_zero());
        Ok(())
    }

    /// `a * b`
    pub(crate) fn product(&mut self, a: &Poly, b: &Poly) -> Checks<Poly> {
        let mut product = Poly::default();
        self.add_product(&mut product, a, b)?;
        Ok(product)
    }

    /// `a + factor * b`
    pub(crate) fn plus(&mut self, a: &Poly, factor: i32, b: &Poly) -> Checks<Poly> {
        self.pay(a.size())?;
        let mut sum = a.clone();
        self.add_product(&mut sum, b, &Poly::constant(factor))?;
        Ok(sum)
    }

    /// `factor * a + constant`
    pub(crate) fn linear(&mut self, factor: i32, a: &Poly, constant: i32) -> Checks<Poly> {
        self.plus(&Poly::constant(constant), factor, a)
    }

    /// The atom as a polynomial.
    pub(crate) fn atom(&mut self, atom: Atom) -> Checks<Poly> {
        match &atom {
            Atom::Name(_) => self.pay(KEEPING)?,
            Atom::Quotient(a, b) => self.keep(a).and_then(|()| self.keep(b))?,
            Atom::Least(operands) | Atom::Greatest(operands) => {
                operands.iter().try_for_each(|operand| self.keep(operand))?;
            }
        }
        let new = AtomId(self.atoms.len() as u32);
        let atom = Rc::new(atom);
        let id = *self.numbers.entry(Rc::clone(&atom)).or_insert(new);
        if id == new {
            self.atoms.push(atom);
        }
        Ok(Poly([(vec![id], BigInt::one())].into()))
    }

    /// The atom `a // b` as a polynomial.
    pub(crate) fn quotient(&mut self, a: &Poly, b: &Poly) -> Checks<Poly> {
        self.atom(Atom::Quotient(a.clone(), b.clone()))
    }

    /// `a - b * (a // b)`: the remainder, where b is not 0.
    pub(crate) fn remainder(&mut self, a: &Poly, b: &Poly) -> Checks<Poly> {
        let quotient = self.quotient(a, b)?;
        let multiple = self.product(b, &quotient)?;
        self.plus(a, -1, &multiple)
    }

    /// The atom that a polynomial is.
    pub(crate) fn as_atom(&self, poly: &Poly) -> Option<Rc<Atom>> {
        poly.as_atom().map(|id| Rc::clone(&self.atoms[id.0 as usize]))
    }

    /// Pays for a polynomial that is kept.
    pub(crate) fn keep(&mut self, poly: &Poly) -> Checks<()> {
        self.pay(KEEPING * (1 + poly.size()))
    }

    fn pay(&mut self, price: u64) -> Checks<()> {
        match self.work.checked_sub(price) {
            Some(left) => self.work = left,
            None => return refuse("the certificate takes too much work to check"),
        }
        Ok(())
    }

    /// A polynomial as text that reads back, or its beginning.
    pub(crate) fn text(&self, poly: &Poly) -> String {
        let mut out = String::new();
        self.write(poly, &mut out);
        if let Some((end, _)) = out.char_indices().nth(MAX_SHOWN) {
            out.truncate(end);
            out.push_str(" ...");
        }
        out
    }

    /// Stops soon after `MAX_SHOWN`: atoms in atoms could make a text without end.
    fn write(&self, poly: &Poly, out: &mut String) {
        if poly.0.is_empty() {
            out.push('0');
        }
        for (index, (factors, coefficient)) in poly.0.iter().rev().enumerate() {
            if out.len() > MAX_SHOWN {
                return;
            }
            let sign = match (index, coefficient.is_negative()) {
                (0, true) => "-",
                (0, false) => "",
                (_, true) => " - ",
                (_, false) => " + ",
            };
            out.push_str(sign);
            let magnitude = coefficient.abs();
            let mut times = "";
            if factors.is_empty() || !magnitude.is_one() {
                let _ = write!(out, "{magnitude}");
                times = " * ";
            }
            for id in factors {
                out.push_str(times);
                self.write_atom(*id, out);
                times = " * ";
            }
        }
    }

    fn write_atom(&self, id: AtomId, out: &mut String) {
        let (name, operands, between) = match self.atoms[id.0 as usize].as_ref() {
            Atom::Name(name) => return out.push_str(name),
            Atom::Quotient(a, b) => ("", vec![a, b], ") // ("),
            Atom::Least(operands) => ("min", operands.iter().collect(), ", "),
            Atom::Greatest(operands) => ("max", operands.iter().collect(), ", "),
        };
        let quotient = name.is_empty();
        out.push_str(if quotient { "((" } else { name });
        out.push_str(if quotient { "" } else { "(" });
        for (index, operand) in operands.into_iter().enumerate() {
            out.push_str(if index > 0 { between } else { "" });
            self.write(operand, out);
        }
        out.push_str(if quotient { "))" } else { ")" });
    }
}
