//! From polynomials back to dims that people can read: `n * 4`, `m + n * 2 + 1`, remainders as `%`.

use crate::atoms::Atom;
use crate::context::Context;
use crate::engine::Engine;
use crate::polynomial::{AtomId, Mono, Poly};
use relax_syntax::dim::{Dim, DimOp};
use std::collections::BTreeSet;

/// How often the result is simplified again until it stays.
const MAX_PASSES: usize = 8;

/// A factor or summand with what it is sorted by: variables before operations, then by text.
type Keyed = ((bool, String), Dim);

/// Summands that are added, and summands that are subtracted.
type Signed = (Vec<Keyed>, Vec<Keyed>);

impl Engine {
    /// A canonical dim with the same value wherever `dim` has one and the context holds.
    ///
    /// The choice between mirrored forms (`a // 4` or `-((3 - a) // 4)`) may depend on the order of
    /// atoms, so passes run until the result stays; of a cycle the least form is taken. Both make
    /// the function idempotent.
    pub(crate) fn simplified(&mut self, context: &Context, dim: &Dim) -> Option<Dim> {
        let mut seen = vec![self.simplified_once(context, dim)?];
        for _ in 0..MAX_PASSES {
            let next = self.simplified_once(context, seen.last()?)?;
            if let Some(start) = seen.iter().position(|old| *old == next) {
                return seen.into_iter().skip(start).min();
            }
            seen.push(next);
        }
        None
    }

    fn simplified_once(&mut self, context: &Context, dim: &Dim) -> Option<Dim> {
        let mark = self.atoms.mark();
        let mut names = BTreeSet::new();
        dim.visit_vars(&mut |name| _ = names.insert(name.clone()));
        for name in names {
            self.atoms.intern(Atom::Var(name))?;
        }
        let (poly, _) = self.canonical(context, dim)?;
        let result = self.sum(&poly);
        self.atoms.forget_from(mark);
        result
    }

    fn sum(&mut self, poly: &Poly) -> Option<Dim> {
        let poly = self.unfold_quotients(poly)?;
        let (poly, remainders) = self.take_remainders(poly)?;
        let (mut added, mut taken) = remainders;
        for (mono, coefficient) in poly.varying() {
            let keyed = self.product(mono, coefficient.checked_abs()?)?;
            if *coefficient > 0 { added.push(keyed) } else { taken.push(keyed) }
        }
        added.sort();
        taken.sort();
        let constant = i64::try_from(poly.constant_term()).ok()?;
        let mut added = added.into_iter().map(|keyed| keyed.1);
        let (start, constant) = match added.next() {
            Some(first) => (first, constant),
            None => (Dim::Int(constant), 0),
        };
        let sum = added.fold(start, |acc, term| Dim::op(DimOp::Add, acc, term));
        let sum = taken.into_iter().fold(sum, |acc, (_, term)| Dim::op(DimOp::Sub, acc, term));
        if constant < 0 {
            return Some(Dim::op(DimOp::Sub, sum, Dim::Int(constant.checked_neg()?)));
        }
        Some(Dim::op(DimOp::Add, sum, Dim::Int(constant)))
    }

    /// Quotients that facts introduced: `divisor * quotient` is what the fact says.
    fn unfold_quotients(&mut self, poly: &Poly) -> Option<Poly> {
        let mut current = poly.clone();
        for id in poly.atoms() {
            let Atom::Quotient { divisor, multiple, .. } = self.atoms.at(id).clone() else {
                continue;
            };
            let [(part, number)] = divisor.terms() else {
                continue;
            };
            let whole = Mono::atom(id).times(part)?;
            let mut sum = Poly::default();
            for (mono, coefficient) in current.terms() {
                let factor = mono.over(&whole).filter(|_| coefficient % number == 0);
                let term = match factor {
                    Some(factor) => multiple.times_term(&factor, coefficient / number)?,
                    None => Poly::term(*mono, *coefficient),
                };
                sum = sum.add(&term)?;
            }
            current = sum;
        }
        Some(current)
    }

    /// Finds `n - d * (n // d)` in the sum and takes it out as `n % d`: what is left, and the
    /// remainders that are added and subtracted.
    fn take_remainders(&mut self, mut poly: Poly) -> Option<(Poly, Signed)> {
        let (mut added, mut taken) = (Vec::new(), Vec::new());
        for (mono, coefficient) in poly.clone().varying() {
            self.spend(poly.terms().len())?;
            for &id in mono.atoms() {
                let Atom::Div(numerator, divisor) = self.atoms.at(id).clone() else {
                    continue;
                };
                let Some((rest, cofactor, times)) =
                    without_remainder(&poly, mono, *coefficient, (id, &numerator, &divisor))
                else {
                    continue;
                };
                let operands = (self.sum(&numerator)?, self.sum(&divisor)?);
                let remainder = Dim::op(DimOp::FloorMod, operands.0, operands.1);
                let factors = vec![((true, remainder.to_string()), remainder)];
                let keyed = self.product_with(factors, &cofactor, times.checked_abs()?)?;
                if times > 0 {
                    added.push(keyed)
                } else {
                    taken.push(keyed)
                }
                poly = rest;
                break;
            }
        }
        Some((poly, (added, taken)))
    }

    fn product(&mut self, mono: &Mono, coefficient: i128) -> Option<Keyed> {
        self.product_with(Vec::new(), mono, coefficient)
    }

    fn product_with(
        &mut self,
        mut factors: Vec<Keyed>,
        mono: &Mono,
        coefficient: i128,
    ) -> Option<Keyed> {
        for &id in mono.atoms() {
            let dim = self.atom_dim(id)?;
            let composite = matches!(dim, Dim::Op(..));
            factors.push(((composite, dim.to_string()), dim));
        }
        // Operations first: `a // b * c` needs no parentheses.
        factors.sort_by(|a, b| (!a.0.0, &a.0.1).cmp(&(!b.0.0, &b.0.1)));
        let composite = factors.iter().any(|factor| factor.0.0);
        let product = Dim::product(factors.iter().map(|factor| &factor.1));
        let key = (composite, product.to_string());
        let number = Dim::Int(i64::try_from(coefficient).ok()?);
        Some((key, Dim::op(DimOp::Mul, product, number)))
    }

    fn atom_dim(&mut self, id: AtomId) -> Option<Dim> {
        self.spend(10)?;
        match self.atoms.at(id).clone() {
            Atom::Var(name) => Some(Dim::Var(name)),
            Atom::Div(numerator, divisor) | Atom::Quotient { numerator, divisor, .. } => {
                let operands = (self.sum(&numerator)?, self.sum(&divisor)?);
                Some(Dim::op(DimOp::FloorDiv, operands.0, operands.1))
            }
            Atom::Min(args) => self.call(DimOp::Min, &args),
            Atom::Max(args) => self.call(DimOp::Max, &args),
        }
    }

    /// `min(min(a, b), c)` with literals last.
    fn call(&mut self, op: DimOp, args: &[Poly]) -> Option<Dim> {
        let mut dims = Vec::with_capacity(args.len());
        for arg in args {
            let dim = self.sum(arg)?;
            dims.push(((dim.as_int().is_some(), dim.to_string()), dim));
        }
        dims.sort();
        dims.into_iter().map(|keyed| keyed.1).reduce(|a, b| Dim::op(op, a, b))
    }
}

/// If the term `coefficient * mono` of `poly` is part of a multiple of `n - d * (n // d)` whose
/// removal leaves fewer terms: what is left, and the multiple as monomial and number.
fn without_remainder(
    poly: &Poly,
    mono: &Mono,
    coefficient: i128,
    (id, numerator, divisor): (AtomId, &Poly, &Poly),
) -> Option<(Poly, Mono, i128)> {
    let [(part, number)] = divisor.terms() else {
        return None;
    };
    if poly.coefficient(mono) != coefficient || coefficient % number != 0 {
        return None;
    }
    let cofactor = mono.over(&Mono::atom(id))?.over(part)?;
    let times = -(coefficient / number);
    let remainder = numerator.sub(&divisor.mul(&Poly::atom(id))?)?;
    let rest = poly.sub(&remainder.times_term(&cofactor, times)?)?;
    (rest.terms().len() + 1 < poly.terms().len()).then_some((rest, cofactor, times))
}
