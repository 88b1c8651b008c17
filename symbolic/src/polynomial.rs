//! Polynomials with integer coefficients over numbered atoms: the canonical form of sums and
//! products. Every operation is checked; `None` means that a limit was met, and whoever asked
//! answers "unknown".

use std::cmp::Ordering;

/// The number of an atom; 0 is never used, it fills the tail of a [`Mono`].
pub(crate) type AtomId = u16;

/// How many atoms (with repetition) a monomial may have.
pub(crate) const MAX_DEGREE: usize = 12;
/// How many terms a polynomial may have.
const MAX_TERMS: usize = 160;
/// How big coefficients and bounds may be; far from the ends of i128, so that negations and sums of
/// a few of them are exact.
const MAX_NUMBER: i128 = 1 << 110;

/// The number, if it is not too big to go on with.
pub(crate) fn moderate(value: i128) -> Option<i128> {
    (-MAX_NUMBER..=MAX_NUMBER).contains(&value).then_some(value)
}

/// A product of atoms: ids in falling order, filled up with 0. The derived order is the
/// lexicographic monomial order in which a later atom is bigger, so it respects products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Mono([AtomId; MAX_DEGREE]);

impl Mono {
    /// The empty product.
    pub(crate) const ONE: Mono = Mono([0; MAX_DEGREE]);

    /// One atom.
    pub(crate) fn atom(id: AtomId) -> Self {
        let mut ids = [0; MAX_DEGREE];
        ids[0] = id;
        Mono(ids)
    }

    /// The atoms, with repetition, biggest first.
    pub(crate) fn atoms(&self) -> &[AtomId] {
        &self.0[..self.degree()]
    }

    /// How many atoms there are, with repetition.
    pub(crate) fn degree(&self) -> usize {
        self.0.iter().position(|&id| id == 0).unwrap_or(MAX_DEGREE)
    }

    /// The atom, if there is exactly one.
    pub(crate) fn as_atom(&self) -> Option<AtomId> {
        (self.0[0] != 0 && self.0[1] == 0).then_some(self.0[0])
    }

    /// The product; `None` above [`MAX_DEGREE`].
    pub(crate) fn times(&self, other: &Mono) -> Option<Mono> {
        let (a, b) = (self.atoms(), other.atoms());
        if a.len() + b.len() > MAX_DEGREE {
            return None;
        }
        let mut ids = [0; MAX_DEGREE];
        let (mut i, mut j) = (0, 0);
        for slot in ids.iter_mut().take(a.len() + b.len()) {
            let take_left = j == b.len() || (i < a.len() && a[i] >= b[j]);
            *slot = if take_left { a[i] } else { b[j] };
            if take_left { i += 1 } else { j += 1 }
        }
        Some(Mono(ids))
    }

    /// The quotient, if `other` divides this.
    pub(crate) fn over(&self, other: &Mono) -> Option<Mono> {
        let divisor = other.atoms();
        let mut ids = [0; MAX_DEGREE];
        let (mut used, mut length) = (0, 0);
        for &id in self.atoms() {
            if used < divisor.len() && divisor[used] == id {
                used += 1;
            } else {
                ids[length] = id;
                length += 1;
            }
        }
        (used == divisor.len()).then_some(Mono(ids))
    }

    /// The greatest product that divides both.
    pub(crate) fn common(&self, other: &Mono) -> Mono {
        let (a, b) = (self.atoms(), other.atoms());
        let mut ids = [0; MAX_DEGREE];
        let (mut i, mut j, mut length) = (0, 0, 0);
        while i < a.len() && j < b.len() {
            match a[i].cmp(&b[j]) {
                Ordering::Greater => i += 1,
                Ordering::Less => j += 1,
                Ordering::Equal => {
                    ids[length] = a[i];
                    length += 1;
                    i += 1;
                    j += 1;
                }
            }
        }
        Mono(ids)
    }
}

/// A sum of terms: falling monomials, no coefficient 0.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Poly {
    terms: Vec<(Mono, i128)>,
}

impl Poly {
    /// The number `value`.
    pub(crate) fn constant(value: i128) -> Self {
        Self::term(Mono::ONE, value)
    }

    /// One atom.
    pub(crate) fn atom(id: AtomId) -> Self {
        Self::term(Mono::atom(id), 1)
    }

    /// One term.
    pub(crate) fn term(mono: Mono, coefficient: i128) -> Self {
        let terms = if coefficient == 0 { Vec::new() } else { vec![(mono, coefficient)] };
        Self { terms }
    }

    /// The terms, biggest monomial first, the constant last.
    pub(crate) fn terms(&self) -> &[(Mono, i128)] {
        &self.terms
    }

    /// Whether this is the number 0.
    pub(crate) fn is_zero(&self) -> bool {
        self.terms.is_empty()
    }

    /// The number, if this is one.
    pub(crate) fn as_constant(&self) -> Option<i128> {
        match self.terms.as_slice() {
            [] => Some(0),
            [(Mono::ONE, value)] => Some(*value),
            _ => None,
        }
    }

    /// The coefficient of `mono`.
    pub(crate) fn coefficient(&self, mono: &Mono) -> i128 {
        let found = self.terms.binary_search_by(|(other, _)| mono.cmp(other));
        found.map_or(0, |index| self.terms[index].1)
    }

    /// The number that is added to everything else.
    pub(crate) fn constant_term(&self) -> i128 {
        match self.terms.last() {
            Some((Mono::ONE, value)) => *value,
            _ => 0,
        }
    }

    /// All terms but the constant.
    pub(crate) fn varying(&self) -> &[(Mono, i128)] {
        match self.terms.split_last() {
            Some(((Mono::ONE, _), rest)) => rest,
            _ => &self.terms,
        }
    }

    /// The greatest degree of a term.
    pub(crate) fn degree(&self) -> usize {
        self.terms.iter().map(|term| term.0.degree()).max().unwrap_or(0)
    }

    /// The first coefficient; 0 for 0.
    pub(crate) fn leading_coefficient(&self) -> i128 {
        self.terms.first().map_or(0, |term| term.1)
    }

    /// The greatest common divisor of all coefficients but the constant; 0 if there are none.
    pub(crate) fn content(&self) -> i128 {
        self.varying().iter().fold(0, |acc, term| gcd(acc, term.1))
    }

    /// The atoms that occur at the top, in falling order, each once.
    pub(crate) fn atoms(&self) -> Vec<AtomId> {
        let mut ids: Vec<AtomId> =
            self.terms.iter().flat_map(|(mono, _)| mono.atoms().iter().copied()).collect();
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids.dedup();
        ids
    }

    /// `self + factor * other`
    pub(crate) fn add_scaled(&self, other: &Poly, factor: i128) -> Option<Poly> {
        let (a, b) = (&self.terms, &other.terms);
        let mut terms = Vec::with_capacity(a.len() + b.len());
        let (mut i, mut j) = (0, 0);
        while i < a.len() || j < b.len() {
            let order = match (a.get(i), b.get(j)) {
                (Some(x), Some(y)) => x.0.cmp(&y.0),
                (Some(_), None) => Ordering::Greater,
                _ => Ordering::Less,
            };
            let mut value = 0;
            let mono = if order == Ordering::Less { b[j].0 } else { a[i].0 };
            if order != Ordering::Less {
                value = a[i].1;
                i += 1;
            }
            if order != Ordering::Greater {
                value = b[j].1.checked_mul(factor)?.checked_add(value)?;
                j += 1;
            }
            if value != 0 {
                terms.push((mono, moderate(value)?));
            }
        }
        (terms.len() <= MAX_TERMS).then_some(Poly { terms })
    }

    /// `self + other`
    pub(crate) fn add(&self, other: &Poly) -> Option<Poly> {
        self.add_scaled(other, 1)
    }

    /// `self - other`
    pub(crate) fn sub(&self, other: &Poly) -> Option<Poly> {
        self.add_scaled(other, -1)
    }

    /// `self + value`
    pub(crate) fn plus(&self, value: i128) -> Option<Poly> {
        self.add(&Poly::constant(value))
    }

    /// `factor * self`
    pub(crate) fn scale(&self, factor: i128) -> Option<Poly> {
        Poly::default().add_scaled(self, factor)
    }

    /// `value - self`
    pub(crate) fn subtracted_from(&self, value: i128) -> Option<Poly> {
        Poly::constant(value).sub(self)
    }

    /// `self * coefficient * mono`; the order of terms is kept, because the monomial order is
    /// compatible with products.
    pub(crate) fn times_term(&self, mono: &Mono, coefficient: i128) -> Option<Poly> {
        if coefficient == 0 {
            return Some(Poly::default());
        }
        let product = |(own, value): &(Mono, i128)| {
            Some((own.times(mono)?, moderate(value.checked_mul(coefficient)?)?))
        };
        let terms = self.terms.iter().map(product).collect::<Option<Vec<_>>>()?;
        Some(Poly { terms })
    }

    /// `self * other`
    pub(crate) fn mul(&self, other: &Poly) -> Option<Poly> {
        let (short, long) =
            if self.terms.len() <= other.terms.len() { (self, other) } else { (other, self) };
        let mut sum = Poly::default();
        for (mono, coefficient) in &short.terms {
            sum = sum.add(&long.times_term(mono, *coefficient)?)?;
        }
        Some(sum)
    }

    /// All coefficients divided by `divisor`, which divides them.
    pub(crate) fn exact_quotient(&self, divisor: i128) -> Poly {
        Poly { terms: self.terms.iter().map(|(mono, value)| (*mono, value / divisor)).collect() }
    }

    /// All terms divided by `mono`, if it divides every term.
    pub(crate) fn over_mono(&self, mono: &Mono) -> Option<Poly> {
        let terms = self.terms.iter().map(|(own, value)| Some((own.over(mono)?, *value)));
        Some(Poly { terms: terms.collect::<Option<Vec<_>>>()? })
    }

    /// The greatest product of atoms that divides every term; `ONE` for 0.
    pub(crate) fn common_mono(&self) -> Mono {
        let mut monos = self.terms.iter().map(|term| term.0);
        let first = monos.next().unwrap_or(Mono::ONE);
        monos.fold(first, |acc, mono| acc.common(&mono))
    }

    /// `(s, r)` with `self == s * divisor + r`, no term of `r` divisible by the divisor's leading
    /// term.
    pub(crate) fn divide(&self, divisor: &Poly) -> Option<(Poly, Poly)> {
        let (lead, unit) = *divisor.terms.first()?;
        let (mut quotient, mut rest) = (Poly::default(), self.clone());
        for _ in 0..MAX_TERMS {
            let found = rest.terms.iter().find_map(|(mono, value)| {
                (value % unit == 0).then(|| Some((mono.over(&lead)?, value / unit))).flatten()
            });
            let Some((mono, factor)) = found else {
                return Some((quotient, rest));
            };
            quotient = quotient.add(&Poly::term(mono, factor))?;
            rest = rest.sub(&divisor.times_term(&mono, factor)?)?;
        }
        None
    }
}

/// The greatest common divisor, at least 0.
pub(crate) fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    // Division of 128 bits is slow, and most coefficients are 1.
    if a == 1 || b == 1 {
        return 1;
    }
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i128::try_from(a).unwrap_or(1)
}

/// `a // b` for `b > 0`, rounded towards minus infinity.
pub(crate) fn floor_div(a: i128, b: i128) -> i128 {
    a.div_euclid(b)
}

/// `a / b` for `b > 0`, rounded towards plus infinity.
pub(crate) fn ceil_div(a: i128, b: i128) -> i128 {
    let quotient = a.div_euclid(b);
    if a.rem_euclid(b) == 0 { quotient } else { quotient + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binomial_square() {
        let sum = Poly::atom(1).add(&Poly::atom(2)).expect("small");
        let square = sum.mul(&sum).expect("small");
        assert_eq!(square.terms().len(), 3);
        let cross = Mono::atom(1).times(&Mono::atom(2)).expect("small");
        assert_eq!(square.coefficient(&cross), 2);
        assert_eq!(square.divide(&sum), Some((sum.clone(), Poly::default())));
    }

    #[test]
    fn what_products_have_in_common() {
        let of = |ids: &[AtomId]| {
            let product = ids.iter().map(|&id| Mono::atom(id));
            product.reduce(|a, b| a.times(&b).expect("small")).expect("atoms")
        };
        assert_eq!(of(&[1, 1, 2]).common(&of(&[1, 2, 2, 3])), of(&[1, 2]));
        assert_eq!(of(&[1, 3]).common(&of(&[2])), Mono::ONE);
    }

    #[test]
    fn overflow_is_none() {
        let huge = Poly::constant(MAX_NUMBER);
        assert_eq!(huge.add(&Poly::constant(1)), None);
        assert_eq!(huge.mul(&huge), None);
        let mut power = Poly::atom(1);
        for _ in 1..MAX_DEGREE {
            power = power.mul(&Poly::atom(1)).expect("within the degree");
        }
        assert_eq!(power.mul(&Poly::atom(1)), None);
    }

    #[test]
    fn quotients_round() {
        assert_eq!((floor_div(-1, 4), ceil_div(-1, 4), ceil_div(5, 4)), (-1, 0, 2));
        assert_eq!(gcd(-12, 18), 6);
    }
}
