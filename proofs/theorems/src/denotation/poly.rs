//! Sums of products of powers of atoms: the normal form of what a ring or the reals compute.

use super::ratio::Ratio;
use super::term::{Domain, FoldOp, Known, Stuck};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use std::collections::BTreeMap;

/// A place in the table of atoms.
pub(super) type AtomId = usize;

/// Powers of atoms; an absent one has the power 0.
pub(super) type Monomial = BTreeMap<AtomId, i32>;

/// Coefficients of monomials; none is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Poly(pub(super) BTreeMap<Monomial, Ratio>);

/// What is not taken apart.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Atom {
    Read(Name, Vec<Dim>),
    /// The bits of a float, or of a real number with many digits.
    Literal(u64),
    Scalar(Name),
    /// A dim that is no sum of products.
    Extent(Dim),
    Apply(Domain, Name, Vec<Poly>),
    Fold(Domain, FoldOp, Vec<(Name, Dim)>, Poly),
    /// A sum in a denominator.
    Sum(Poly),
}

/// How many terms a sum may have.
const MAX_TERMS: usize = 400;

fn too_large<T>(value: Option<T>) -> Known<T> {
    value.ok_or_else(|| Stuck::Unknown("numbers become too large".to_owned()))
}

impl Poly {
    pub(super) fn number(value: Ratio) -> Poly {
        let mut poly = Poly::default();
        if !value.is_zero() {
            poly.0.insert(Monomial::new(), value);
        }
        poly
    }

    pub(super) fn atom(id: AtomId) -> Poly {
        Poly::monomial(Monomial::from([(id, 1)]), Ratio::ONE)
    }

    pub(super) fn monomial(monomial: Monomial, coefficient: Ratio) -> Poly {
        Poly(BTreeMap::from([(monomial, coefficient)]))
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// The only monomial and its coefficient.
    pub(super) fn as_monomial(&self) -> Option<(&Monomial, Ratio)> {
        let (monomial, coefficient) = self.0.first_key_value()?;
        (self.0.len() == 1).then_some((monomial, *coefficient))
    }

    /// The number that it is.
    pub(super) fn as_number(&self) -> Option<Ratio> {
        if self.is_zero() {
            return Some(Ratio::ZERO);
        }
        self.as_monomial().filter(|(monomial, _)| monomial.is_empty()).map(|(_, number)| number)
    }

    /// The atom that it is.
    pub(super) fn as_atom(&self) -> Option<AtomId> {
        let (monomial, coefficient) = self.as_monomial()?;
        let (&id, &power) = monomial.first_key_value()?;
        (monomial.len() == 1 && power == 1 && coefficient == Ratio::ONE).then_some(id)
    }

    pub(super) fn add(&self, other: &Poly) -> Known<Poly> {
        let mut sum = self.clone();
        for (monomial, &coefficient) in &other.0 {
            let present = sum.0.get(monomial).copied().unwrap_or(Ratio::ZERO);
            let total = too_large(present.add(coefficient))?;
            if total.is_zero() {
                sum.0.remove(monomial);
            } else {
                sum.0.insert(monomial.clone(), total);
            }
        }
        if sum.0.len() > MAX_TERMS {
            return Err(Stuck::Unknown("a sum becomes too long".to_owned()));
        }
        Ok(sum)
    }

    pub(super) fn scaled(&self, by: Ratio) -> Known<Poly> {
        if by.is_zero() {
            return Ok(Poly::default());
        }
        let scale = |(m, c): (&Monomial, &Ratio)| Ok((m.clone(), too_large(c.mul(by))?));
        self.0.iter().map(scale).collect::<Known<_>>().map(Poly)
    }

    pub(super) fn negated(&self) -> Known<Poly> {
        self.scaled(Ratio::int(-1))
    }

    pub(super) fn subtract(&self, other: &Poly) -> Known<Poly> {
        self.add(&other.negated()?)
    }

    /// The product, powers added and nothing else.
    pub(super) fn mul(&self, other: &Poly) -> Known<Poly> {
        let mut product = Poly::default();
        for (a, &x) in &self.0 {
            for (b, &y) in &other.0 {
                let term = Poly::monomial(joined(a, b), too_large(x.mul(y))?);
                product = product.add(&term)?;
            }
        }
        Ok(product)
    }
}

/// The product of two monomials.
pub(super) fn joined(a: &Monomial, b: &Monomial) -> Monomial {
    let mut product = a.clone();
    for (&id, &power) in b {
        let total = product.get(&id).copied().unwrap_or(0) + power;
        if total == 0 {
            product.remove(&id);
        } else {
            product.insert(id, total);
        }
    }
    product
}
