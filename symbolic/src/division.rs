//! Canonical floor division.

use crate::atoms::Atom;
use crate::context::Context;
use crate::engine::Engine;
use crate::intervals::Interval;
use crate::journal::Event;
use crate::polynomial::{AtomId, Mono, Poly, floor_div, gcd};

impl Engine {
    /// The canonical form of `numerator // divisor` for a divisor that is not 0.
    pub(crate) fn floor_div(
        &mut self,
        context: &Context,
        numerator: &Poly,
        divisor: &Poly,
    ) -> Option<Poly> {
        let value = self.quotient(context, numerator, divisor)?;
        self.note(|| Event::Value(Atom::Div(numerator.clone(), divisor.clone()), value.clone()));
        Some(value)
    }

    fn quotient(&mut self, context: &Context, numerator: &Poly, divisor: &Poly) -> Option<Poly> {
        self.spend(2 + numerator.terms().len())?;
        if context.ideal.rewrites(numerator) || context.ideal.rewrites(divisor) {
            let numerator = self.reduced(context, numerator.clone())?;
            let divisor = self.reduced(context, divisor.clone())?;
            return self.quotient_of_reduced(context, &numerator, &divisor);
        }
        self.quotient_of_reduced(context, numerator, divisor)
    }

    fn quotient_of_reduced(
        &mut self,
        context: &Context,
        numerator: &Poly,
        divisor: &Poly,
    ) -> Option<Poly> {
        if numerator.is_zero() {
            return Some(Poly::default());
        }
        if divisor.leading_coefficient() < 0 {
            // a // b == (-a) // (-b)
            return self.floor_div(context, &numerator.scale(-1)?, &divisor.scale(-1)?);
        }
        match divisor.as_constant() {
            Some(0) => None,
            Some(value) => self.div_by_number(context, numerator, value),
            None => self.div_by_polynomial(context, numerator, divisor),
        }
    }

    /// Division by a number above 0.
    fn div_by_number(&mut self, context: &Context, numerator: &Poly, value: i128) -> Option<Poly> {
        if value == 1 {
            return Some(numerator.clone());
        }
        if let Some(quotient) = self.constant_quotient(context, numerator, value) {
            return Some(quotient);
        }
        let (whole, rest) = split(numerator, value)?;
        let quotient = self.div_reduced(context, &rest, value)?;
        whole.add(&quotient)
    }

    /// The quotient when bounds show that the numerator stays between two multiples.
    fn constant_quotient(&self, context: &Context, numerator: &Poly, value: i128) -> Option<Poly> {
        let Interval { low, high } = self.bounds(context).of(numerator);
        let (low, high) = (floor_div(low?, value), floor_div(high?, value));
        (low == high).then(|| Poly::constant(low))
    }

    /// Division of what [`split`] left over.
    fn div_reduced(&mut self, context: &Context, rest: &Poly, value: i128) -> Option<Poly> {
        if let Some(quotient) = self.constant_quotient(context, rest, value) {
            return Some(quotient);
        }
        let common = gcd(rest.content(), value);
        if common > 1 {
            // (g*p + r) // (g*c) == (p + r // g) // c
            let constant = rest.constant_term();
            let varying = rest.plus(-constant)?.exact_quotient(common);
            let reduced = varying.plus(floor_div(constant, common))?;
            return self.div_by_number(context, &reduced, value / common);
        }
        if rest.leading_coefficient() < 0 {
            // p // c == -((c - 1 - p) // c): a ceiling, written with a positive leading term.
            let mirrored = rest.subtracted_from(value - 1)?;
            return self.div_by_number(context, &mirrored, value)?.scale(-1);
        }
        if let Some((numerator, divisor)) = self.nested(context, rest, &Poly::constant(value))? {
            return self.floor_div(context, &numerator, &divisor);
        }
        self.interned(context, Atom::Div(rest.clone(), Poly::constant(value)))
    }

    /// `(n // d + r) // c == (n + d*r) // (d*c)` for `c > 0`, where only one quotient occurs.
    fn nested(
        &self,
        context: &Context,
        rest: &Poly,
        divisor: &Poly,
    ) -> Option<Option<(Poly, Poly)>> {
        let mut quotients = rest.atoms().into_iter().filter(|&id| self.is_quotient(id));
        let (Some(id), None) = (quotients.next(), quotients.next()) else {
            return Some(None);
        };
        let others = rest.sub(&Poly::atom(id))?;
        let Atom::Div(inner, inner_divisor) = self.atoms.at(id) else {
            return Some(None);
        };
        if others.atoms().contains(&id) {
            return Some(None);
        }
        let numerator = inner.add(&inner_divisor.mul(&others)?)?;
        // An equality that says what the inner numerator is leads back to the inner quotient.
        if context.ideal.rewrites(&numerator) {
            return Some(None);
        }
        Some(Some((numerator, inner_divisor.mul(divisor)?)))
    }

    fn is_quotient(&self, id: AtomId) -> bool {
        matches!(self.atoms.at(id), Atom::Div(..))
    }

    fn div_by_polynomial(
        &mut self,
        context: &Context,
        numerator: &Poly,
        divisor: &Poly,
    ) -> Option<Poly> {
        // A common factor is not 0, because the divisor is not.
        let factor = numerator.common_mono().common(&divisor.common_mono());
        let numbers = numerator.terms().iter().chain(divisor.terms());
        let number = numbers.fold(0, |acc, (_, coefficient)| gcd(acc, *coefficient));
        if factor != Mono::ONE || number > 1 {
            let numerator = numerator.over_mono(&factor)?.exact_quotient(number);
            let divisor = divisor.over_mono(&factor)?.exact_quotient(number);
            return self.floor_div(context, &numerator, &divisor);
        }
        self.spend(numerator.terms().len() * 4)?;
        let (mut whole, mut rest) = numerator.divide(divisor)?;
        if rest.terms().len() > numerator.terms().len() {
            (whole, rest) = (Poly::default(), numerator.clone());
        }
        if rest.is_zero() {
            return Some(whole);
        }
        if whole.is_zero()
            && let Some(found) = self.divided_by_equations(context, &rest, divisor)?
        {
            (whole, rest) = found;
        }
        if !whole.is_zero() {
            return whole.add(&self.floor_div(context, &rest, divisor)?);
        }
        if let Some((rest, divisor)) = with_common_factor(context, &rest, divisor) {
            return self.div_by_polynomial(context, &rest, &divisor);
        }
        self.div_irreducible(context, &rest, divisor)
    }

    /// A multiple of the divisor that the equalities of the context show in `rest`, and what is left.
    fn divided_by_equations(
        &mut self,
        context: &Context,
        rest: &Poly,
        divisor: &Poly,
    ) -> Option<Option<(Poly, Poly)>> {
        if context.ideal.is_empty() {
            return Some(None);
        }
        self.spend(100)?;
        let Some((whole, left)) = context.ideal.divided(rest, divisor) else {
            return Some(None);
        };
        let left = self.reduced(context, left)?;
        Some((left.terms().len() < rest.terms().len()).then_some((whole, left)))
    }

    /// Division by a polynomial that divides no part of `rest`.
    fn div_irreducible(&mut self, context: &Context, rest: &Poly, divisor: &Poly) -> Option<Poly> {
        let low = self.bounds(context).of(divisor).low;
        if low.is_some_and(|low| low > 0) {
            if let Some(quotient) = self.small_quotient(context, rest, divisor)? {
                return Some(quotient);
            }
            if let Some((numerator, divisor)) = self.nested(context, rest, divisor)? {
                return self.floor_div(context, &numerator, &divisor);
            }
            if let Some(quotient) = self.without_small_rest(context, rest, divisor)? {
                return Some(quotient);
            }
        }
        self.interned(context, Atom::Div(rest.clone(), divisor.clone()))
    }

    /// 0 or -1, when the numerator is smaller than the positive divisor.
    fn small_quotient(
        &mut self,
        context: &Context,
        rest: &Poly,
        divisor: &Poly,
    ) -> Option<Option<Poly>> {
        let low = self.bounds(context).of(rest).low;
        let negative = low.is_none_or(|low| low < 0);
        if !negative && self.linearly_at_least_zero(context, &divisor.sub(rest)?.plus(-1)?) {
            return Some(Some(Poly::default()));
        }
        if negative && self.linearly_at_least_zero(context, rest) {
            let below = self.linearly_at_least_zero(context, &divisor.sub(rest)?.plus(-1)?);
            return Some(below.then(Poly::default));
        }
        let negative = self.bounds(context).of(rest).high;
        if negative.is_some_and(|high| high < 0)
            && self.linearly_at_least_zero(context, &divisor.add(rest)?)
        {
            return Some(Some(Poly::constant(-1)));
        }
        Some(None)
    }

    /// `(m*p + r) // (m*c) == p // c` where `m` divides the divisor and `0 <= r < m`.
    fn without_small_rest(
        &mut self,
        context: &Context,
        rest: &Poly,
        divisor: &Poly,
    ) -> Option<Option<Poly>> {
        let [(mono, coefficient)] = divisor.terms() else {
            return Some(None);
        };
        for &id in mono.atoms() {
            let part = Mono::atom(id);
            let mut multiple = Poly::default();
            for (mono, coefficient) in rest.terms() {
                if mono.over(&part).is_some() {
                    multiple = multiple.add(&Poly::term(*mono, *coefficient))?;
                }
            }
            let small = rest.sub(&multiple)?;
            let above = |engine: &mut Self| {
                let room = Poly::atom(id).sub(&small)?.plus(-1)?;
                Some(engine.linearly_at_least_zero(context, &room))
            };
            let positive = self.bounds(context).of_atom(id).low;
            if multiple.is_zero()
                || positive.is_none_or(|low| low < 1)
                || !self.linearly_at_least_zero(context, &small)
                || !above(self)?
            {
                continue;
            }
            let divisor = Poly::term(mono.over(&part)?, *coefficient);
            return self.floor_div(context, &multiple.over_mono(&part)?, &divisor).map(Some);
        }
        Some(None)
    }
}

/// Forms of numerator and divisor by the equalities of the context that have a factor in common, if there are such.
fn with_common_factor(context: &Context, numerator: &Poly, divisor: &Poly) -> Option<(Poly, Poly)> {
    let forms = |poly: &Poly| {
        let mut forms = vec![poly.clone()];
        if let [(mono, coefficient)] = poly.terms() {
            let others = context.ideal.forms(mono).into_iter();
            forms.extend(others.filter_map(|form| form.scale(*coefficient)));
        }
        forms
    };
    if context.ideal.is_empty() {
        return None;
    }
    let given = numerator.degree() + divisor.degree();
    let numerators = forms(numerator);
    forms(divisor).into_iter().find_map(|divisor| {
        let factor = divisor.common_mono();
        // What is left without the common factor is smaller than what was given: forms of forms come to an end.
        let shares = |poly: &&Poly| {
            let common = poly.common_mono().common(&factor).degree();
            common > 0 && poly.degree() + divisor.degree() < given + 2 * common
        };
        numerators.iter().find(shares).map(|numerator| (numerator.clone(), divisor.clone()))
    })
}

/// `(w, r)` with `numerator == value * w + r`, coefficients of `r` between `-value / 2` and
/// `value / 2`, its constant between 0 and `value - 1`.
fn split(numerator: &Poly, value: i128) -> Option<(Poly, Poly)> {
    let (mut whole, mut rest) = (Poly::default(), Poly::default());
    for (mono, coefficient) in numerator.terms() {
        let mut remainder = coefficient.rem_euclid(value);
        if *mono != Mono::ONE && remainder > value - remainder {
            remainder -= value;
        }
        whole = whole.add(&Poly::term(*mono, (coefficient - remainder) / value))?;
        rest = rest.add(&Poly::term(*mono, remainder))?;
    }
    Some((whole, rest))
}
