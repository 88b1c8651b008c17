//! Quick bounds of polynomials: intervals of atoms from facts, with two refinements that make
//! remainders and `min`/`max` exact enough for most shapes.

use crate::atoms::{Atom, Atoms};
use crate::context::Context;
use crate::polynomial::{AtomId, Mono, Poly, ceil_div, floor_div, moderate};
use std::cell::Cell;
use std::cmp::Ordering;

/// How deep the refinements may nest.
const DEPTH: u32 = 3;
/// How many terms of polynomials the refinements of one question may look at. Most look at some hundreds; equations
/// can make polynomials of a hundred minima and maxima, for which each level would look at all of them again.
const TERMS: u32 = 10_000;

/// The least and greatest value, where known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Interval {
    pub(crate) low: Option<i128>,
    pub(crate) high: Option<i128>,
}

/// An end of an interval.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    MinusInfinity,
    At(i128),
    Infinity,
}

impl End {
    fn sign(self) -> Ordering {
        self.cmp(&End::At(0))
    }

    /// The product, with `0 * infinity = 0`, which is right for corners of intervals.
    fn times(self, other: End) -> Option<End> {
        if let (End::At(a), End::At(b)) = (self, other) {
            return a.checked_mul(b).and_then(moderate).map(End::At);
        }
        Some(match (self.sign(), other.sign()) {
            (Ordering::Equal, _) | (_, Ordering::Equal) => End::At(0),
            (a, b) if a == b => End::Infinity,
            _ => End::MinusInfinity,
        })
    }

    fn value(self) -> Option<i128> {
        if let End::At(value) = self { Some(value) } else { None }
    }
}

impl Interval {
    /// Only `value`.
    pub(crate) fn point(value: i128) -> Self {
        Self { low: Some(value), high: Some(value) }
    }

    /// What is in both.
    pub(crate) fn meet(self, other: Interval) -> Self {
        let lesser =
            |a: Option<i128>, b: Option<i128>| a.map_or(b, |x| Some(b.map_or(x, |y| x.min(y))));
        Self { low: self.low.max(other.low), high: lesser(self.high, other.high) }
    }

    fn scaled(self, factor: i128) -> Self {
        let times = |bound: Option<i128>| {
            bound.and_then(|value| value.checked_mul(factor)).and_then(moderate)
        };
        let (low, high) = (times(self.low), times(self.high));
        if factor < 0 { Self { low: high, high: low } } else { Self { low, high } }
    }

    fn plus(self, other: Interval) -> Self {
        let sum = |a: Option<i128>, b: Option<i128>| a?.checked_add(b?).and_then(moderate);
        Self { low: sum(self.low, other.low), high: sum(self.high, other.high) }
    }

    fn ends(self) -> [End; 2] {
        [self.low.map_or(End::MinusInfinity, End::At), self.high.map_or(End::Infinity, End::At)]
    }

    fn times(self, other: Interval) -> Self {
        let mut corners = [End::At(0); 4];
        for (index, corner) in corners.iter_mut().enumerate() {
            match self.ends()[index / 2].times(other.ends()[index % 2]) {
                Some(product) => *corner = product,
                None => return Self::default(),
            }
        }
        let (low, high) = (corners.into_iter().min(), corners.into_iter().max());
        Self { low: low.and_then(End::value), high: high.and_then(End::value) }
    }

    /// Whether every value is above 0, or every value is below.
    pub(crate) fn excludes_zero(self) -> bool {
        self.low.is_some_and(|low| low > 0) || self.high.is_some_and(|high| high < 0)
    }
}

/// Bounds under the facts of a context.
pub(crate) struct Bounds<'a> {
    atoms: &'a Atoms,
    context: &'a Context,
    /// How many terms the refinements of this question may still look at.
    left: Cell<u32>,
}

impl<'a> Bounds<'a> {
    pub(crate) fn new(atoms: &'a Atoms, context: &'a Context) -> Self {
        Self { atoms, context, left: Cell::new(TERMS) }
    }

    /// Bounds of a polynomial.
    pub(crate) fn of(&self, poly: &Poly) -> Interval {
        self.left.set(TERMS);
        self.refined(poly, DEPTH)
    }

    /// Bounds of an atom.
    pub(crate) fn of_atom(&self, id: AtomId) -> Interval {
        self.left.set(TERMS);
        self.atom(id, DEPTH)
    }

    /// Bounds of a monomial.
    pub(crate) fn of_mono(&self, mono: &Mono) -> Interval {
        self.left.set(TERMS);
        self.mono(mono, DEPTH)
    }

    /// Takes the terms of `poly` from those that may be looked at; `None` where there are not as many.
    fn look_at(&self, poly: &Poly) -> Option<()> {
        let terms = u32::try_from(poly.terms().len()).ok()?;
        let left = self.left.get().checked_sub(terms);
        self.left.set(left.unwrap_or(0));
        left.map(drop)
    }

    fn refined(&self, poly: &Poly, depth: u32) -> Interval {
        let plain = self.plain(poly, depth);
        if depth == 0 || poly.varying().len() < 2 {
            return plain;
        }
        let lower = |poly: &Poly| self.eliminated_low(poly, depth - 1);
        let low = lower(poly);
        let high = poly.scale(-1).and_then(|negated| lower(&negated)).and_then(i128::checked_neg);
        plain.meet(Interval { low, high })
    }

    fn plain(&self, poly: &Poly, depth: u32) -> Interval {
        let mut sum = Interval::point(0);
        for (mono, coefficient) in poly.terms() {
            sum = sum.plus(self.mono_by_forms(mono, depth).scaled(*coefficient));
            if sum == Interval::default() {
                break;
            }
        }
        sum
    }

    fn mono(&self, mono: &Mono, depth: u32) -> Interval {
        let mut product = Interval::point(1);
        let ids = mono.atoms();
        let mut index = 0;
        while index < ids.len() {
            let own = self.atom(ids[index], depth);
            let square = ids.get(index + 1) == Some(&ids[index]);
            let mut factor = own;
            if square {
                factor = own.times(own);
                factor.low = Some(factor.low.map_or(0, |low| low.max(0)));
            }
            product = product.times(factor);
            index += if square { 2 } else { 1 };
        }
        product
    }

    /// The same with what equalities say that the product is.
    fn mono_by_forms(&self, mono: &Mono, depth: u32) -> Interval {
        let product = self.mono(mono, depth);
        if depth == 0 || mono.degree() < 2 || self.context.ideal.is_empty() {
            return product;
        }
        let forms = self.context.ideal.forms(mono);
        forms.iter().fold(product, |known, form| known.meet(self.plain(form, 0)))
    }

    fn atom(&self, id: AtomId, depth: u32) -> Interval {
        let known = self.context.bounds.get(&id).copied().unwrap_or_default();
        if depth == 0 {
            return known;
        }
        let built = match self.atoms.at(id) {
            Atom::Var(_) | Atom::Quotient { .. } => Interval::default(),
            Atom::Div(numerator, divisor) => self.quotient(numerator, divisor, depth - 1),
            Atom::Min(args) => {
                let all: Vec<Interval> =
                    args.iter().map(|arg| self.refined(arg, depth - 1)).collect();
                let least = all.iter().map(|arg| arg.low).min().flatten();
                Interval { low: least, high: all.iter().filter_map(|arg| arg.high).min() }
            }
            Atom::Max(args) => {
                let all: Vec<Interval> =
                    args.iter().map(|arg| self.refined(arg, depth - 1)).collect();
                let highs: Option<Vec<i128>> = all.iter().map(|arg| arg.high).collect();
                let greatest = highs.and_then(|highs| highs.into_iter().max());
                Interval { low: all.iter().filter_map(|arg| arg.low).max(), high: greatest }
            }
        };
        known.meet(built)
    }

    fn quotient(&self, numerator: &Poly, divisor: &Poly, depth: u32) -> Interval {
        let top = self.refined(numerator, depth);
        if let Some(value) = divisor.as_constant().filter(|value| *value > 0) {
            let divided = |bound: Option<i128>| bound.map(|bound| floor_div(bound, value));
            return Interval { low: divided(top.low), high: divided(top.high) };
        }
        let bottom = self.refined(divisor, depth);
        let Some(least) = bottom.low.filter(|low| *low > 0) else {
            return Interval::default();
        };
        // A positive divisor moves towards 0 from above, and towards -1 or 0 from below.
        let low = top.low.map(|low| if low >= 0 { 0 } else { floor_div(low, least) });
        let high = top.high.map(|high| if high < 0 { -1 } else { floor_div(high, least) });
        Interval { low, high }
    }

    /// A lower bound after one quotient is bounded by what it divides, or one `min`/`max` by one of
    /// its arguments, when these also occur elsewhere in the polynomial.
    fn eliminated_low(&self, poly: &Poly, depth: u32) -> Option<i128> {
        let mut best = None;
        for (mono, coefficient) in poly.varying() {
            let Some(id) = mono.as_atom() else { continue };
            if self.look_at(poly).is_none() {
                break;
            }
            let rest = poly.sub(&Poly::term(*mono, *coefficient))?;
            let shares =
                |arg: &Poly| arg.varying().iter().any(|(mono, _)| rest.coefficient(mono) != 0);
            let low = match self.atoms.at(id) {
                Atom::Div(numerator, divisor) if shares(numerator) => {
                    self.low_without_quotient(&rest, *coefficient, numerator, divisor, depth)
                }
                Atom::Max(args) if *coefficient > 0 && args.iter().any(shares) => {
                    self.low_with_argument(&rest, *coefficient, args, depth)
                }
                Atom::Min(args) if *coefficient < 0 && args.iter().any(shares) => {
                    self.low_with_argument(&rest, *coefficient, args, depth)
                }
                _ => None,
            };
            best = best.max(low);
        }
        best
    }

    fn low_without_quotient(
        &self,
        rest: &Poly,
        coefficient: i128,
        numerator: &Poly,
        divisor: &Poly,
        depth: u32,
    ) -> Option<i128> {
        let value = divisor.as_constant().filter(|value| *value > 0)?;
        // value * quotient lies between numerator - (value - 1) and numerator.
        let slack = if coefficient > 0 { 1 - value } else { 0 };
        let bounded = rest.scale(value)?.add_scaled(&numerator.plus(slack)?, coefficient)?;
        self.refined(&bounded, depth).low.map(|low| ceil_div(low, value))
    }

    fn low_with_argument(
        &self,
        rest: &Poly,
        coefficient: i128,
        args: &[Poly],
        depth: u32,
    ) -> Option<i128> {
        let lows = args.iter().filter_map(|arg| {
            self.look_at(rest)?;
            self.refined(&rest.add_scaled(arg, coefficient)?, depth).low
        });
        lows.max()
    }
}
