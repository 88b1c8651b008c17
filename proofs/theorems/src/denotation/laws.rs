//! Laws of single operators by which operands cancel, beside the functions that rest on each other.
//!
//! Of floats only what holds bit for bit: `x < x` is false of NaN as well, but `x <= x` is not true of it,
//! so comparisons of a term with itself are decided for integers alone.

use super::functions::cast_of;
use super::normal::{Normalizer, What};
use super::poly::{Atom, Poly};
use super::ratio::Ratio;
use super::term::{Domain, Known};
use crate::denotation::names::{BITWISE_AND, EXP, FLOOR_DIVIDE, FLOOR_MOD, LOG, MOD, RIGHT_SHIFT};
use relax_syntax::dtype::DType;

impl Normalizer<'_> {
    /// What a function of normal forms is by one of these laws.
    pub(super) fn by_law(
        &mut self,
        domain: Domain,
        name: &str,
        args: &[Poly],
    ) -> Known<Option<Poly>> {
        if let (Domain::Bits, [a, b]) = (domain, args)
            && let Some(holds) = self.of_literals(name, a, b)
        {
            return self.literal(f64::from(u8::from(holds))).map(Some);
        }
        if let Some(result) = self.by_order(domain, name, args)? {
            return Ok(Some(result));
        }
        match (domain, args) {
            (Domain::Ring, [a, b]) if a == b && of_same(name).is_some() => {
                let value = of_same(name).unwrap_or(0.0);
                self.literal(value).map(Some)
            }
            (Domain::Ring, [a, b]) if self.is_remainder(a, b, name) => Ok(Some(a.clone())),
            (Domain::Ring, [a, b]) if matches!(name, FLOOR_DIVIDE | FLOOR_MOD) => {
                self.by_number(name, a, b)
            }
            (_, [a, b]) if name == "multiply" && a == b => self.square_of_magnitude(domain, a),
            (Domain::Bits, [a, b]) if name == "power" => self.bits_power(a, b),
            (Domain::Bits, [a, b]) if name == "minimum" => self.limited(a, b),
            (Domain::Bits, [distance]) if self.indicates => self.indicated(name, distance),
            (Domain::Bits, [_, _]) if ORDERED.contains(&name) => self.first_of(name, args),
            (Domain::Real, [a, b]) if name == "power" => self.real_power(a, b),
            (Domain::Real, [a]) if name == "sqrt" => self.root_of_square(a),
            _ => Ok(None),
        }
    }

    /// A remainder is below its divisor, and has the sign that the same division gives.
    fn is_remainder(&self, a: &Poly, divisor: &Poly, name: &str) -> bool {
        let is_remainder = matches!(name, MOD | FLOOR_MOD);
        is_remainder
            && matches!(self.call(a), Some(Atom::Apply(_, inner, under))
                if inner == name && under.get(1) == Some(divisor))
    }

    /// Of the sum of a divisor and an i64 that was a narrower integer the latter: such a sum does not wrap.
    fn beside_divisor(&self, a: &Poly, divisor: &Poly) -> Known<Option<Poly>> {
        let is_small = |value| (1..=1 << 31).contains(&value);
        if !divisor.as_number().and_then(Ratio::as_int).is_some_and(is_small) {
            return Ok(None);
        }
        let rest = a.subtract(divisor)?;
        let dtypes = match self.call(&rest) {
            Some(Atom::Apply(Domain::Ring, name, _)) => cast_of(&name),
            _ => None,
        };
        let is_narrow = |from: DType| from.is_integer() && from.size() < DType::I64.size();
        let fits = dtypes.is_some_and(|(from, to)| to == DType::I64 && is_narrow(from));
        Ok(fits.then_some(rest))
    }

    /// The floor of a quotient by a power of two is a shift that keeps the sign, and its remainder the lowest bits. A divisor that is
    /// added before leaves the remainder as it is.
    fn by_number(&mut self, name: &str, a: &Poly, divisor: &Poly) -> Known<Option<Poly>> {
        if name == FLOOR_MOD
            && let Some(rest) = self.beside_divisor(a, divisor)?
        {
            return self.function(Domain::Ring, FLOOR_MOD, vec![rest, divisor.clone()]).map(Some);
        }
        let Some(exponent) = exponent_of(divisor) else { return Ok(None) };
        let number = |value: i128| Poly::number(Ratio::int(value));
        let (name, other) = if name == FLOOR_DIVIDE {
            (RIGHT_SHIFT, number(i128::from(exponent)))
        } else {
            (BITWISE_AND, number((1 << exponent) - 1))
        };
        self.function(Domain::Ring, name, vec![a.clone(), other]).map(Some)
    }

    /// `|x| * |x|` is `x * x`: the signs cancel, and integers wrap to the same square.
    fn square_of_magnitude(&mut self, domain: Domain, a: &Poly) -> Known<Option<Poly>> {
        match self.call(a) {
            Some(Atom::Apply(_, inner, under)) if inner == "abs" => {
                let twice = vec![under[0].clone(), under[0].clone()];
                self.function(domain, "multiply", twice).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// IEEE 754: `x ** 0` is 1 even of NaN, and `x ** 1` is x.
    fn bits_power(&mut self, a: &Poly, b: &Poly) -> Known<Option<Poly>> {
        match self.value(b) {
            Some(0.0) => self.literal(1.0).map(Some),
            Some(1.0) => Ok(Some(a.clone())),
            _ => Ok(None),
        }
    }

    /// `min(max(x, low), high)` is `max(min(x, high), low)` where the bounds are in order: the order of
    /// floats is total, and NaN wins on either way.
    fn limited(&mut self, a: &Poly, b: &Poly) -> Known<Option<Poly>> {
        for (one, other) in [(a, b), (b, a)] {
            let (Some(high), Some(Atom::Apply(_, inner, under))) =
                (self.value(one), self.call(other))
            else {
                continue;
            };
            let [x, y] = under.as_slice() else { continue };
            if inner != "maximum" {
                continue;
            }
            for (bound, rest) in [(x, y), (y, x)] {
                if self.value(bound).is_some_and(|low| low < high) {
                    let below = vec![rest.clone(), one.clone()];
                    let below = self.function(Domain::Bits, "minimum", below)?;
                    let both = vec![below, bound.clone()];
                    return self.function(Domain::Bits, "maximum", both).map(Some);
                }
            }
        }
        Ok(None)
    }

    /// A power of -1 demands what a quotient does. The power of a positive number is an exponential.
    fn real_power(&mut self, a: &Poly, b: &Poly) -> Known<Option<Poly>> {
        if self.is_positive(a) && b.as_number().is_none() {
            let logarithm = self.function(Domain::Real, LOG, vec![a.clone()])?;
            let exponent = self.times(b, &logarithm)?;
            return self.function(Domain::Real, EXP, vec![exponent]).map(Some);
        }
        if b.as_number() != Some(Ratio::int(-1)) {
            return Ok(None);
        }
        self.demand(What::NonZero, a);
        self.inverse(a).map(Some)
    }

    /// The first of several equal extremes: an operand that stands earlier, too, is never the first. NaN is the extreme of all.
    fn first_of(&mut self, name: &str, args: &[Poly]) -> Known<Option<Poly>> {
        let mut flat: Vec<Poly> = Vec::new();
        for arg in args {
            let own = match self.call(arg) {
                Some(Atom::Apply(_, inner, under)) if inner == name => under,
                _ => vec![arg.clone()],
            };
            for operand in own {
                if !flat.contains(&operand) {
                    flat.push(operand);
                }
            }
        }
        if let [single] = flat.as_slice() {
            return Ok(Some(single.clone()));
        }
        let atom = Atom::Apply(Domain::Bits, name.into(), flat);
        Ok(Some(Poly::atom(self.intern(atom)?)))
    }

    /// A comparison of two floats that are written out.
    fn of_literals(&self, name: &str, a: &Poly, b: &Poly) -> Option<bool> {
        let (a, b) = (self.value(a)?, self.value(b)?);
        match name {
            "less" => Some(a < b),
            "less_equal" => Some(a <= b),
            "equal" => Some(a == b),
            _ => None,
        }
    }

    /// The root of a square is a magnitude; it exists for every number.
    fn root_of_square(&mut self, a: &Poly) -> Known<Option<Poly>> {
        let Some((monomial, coefficient)) = a.as_monomial() else { return Ok(None) };
        let mut factors = monomial.iter();
        match (factors.next(), factors.next()) {
            (Some((&id, 2)), None) if coefficient == Ratio::ONE => {
                self.function(Domain::Real, "abs", vec![Poly::atom(id)]).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// The greater and the lesser of two, of equal ones the first.
const ORDERED: [&str; 2] = ["greater or first", "lesser or first"];

/// The exponent of a power of two that every integer dtype has.
fn exponent_of(divisor: &Poly) -> Option<u32> {
    let value = divisor.as_number()?.as_int()?;
    (1..=6).find(|exponent| value == 1 << exponent)
}

/// A comparison of an integer with itself.
fn of_same(name: &str) -> Option<f64> {
    match name {
        "less" | "greater" | "not_equal" => Some(0.0),
        "equal" | "less_equal" | "greater_equal" => Some(1.0),
        _ => None,
    }
}
