//! Divisions of dims. StableHLO divides towards zero, and JAX makes the floor of it with signs, remainders and a `select`.
//! The steps are followed here, so that the `select` at the end is `//` or `%` of dims again, also where the dividend may be
//! negative and no step alone is an expression over dims.

use super::walk::Walk;
use crate::builder::{Builder, V};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};
use std::collections::BTreeMap;

/// What a scalar is of a dividend and a divisor, which is a number of at least 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rounded {
    step: Step,
    dividend: Dim,
    divisor: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The quotient, rounded towards zero.
    Quotient,
    /// The quotient less 1.
    Below,
    /// With the sign of the dividend.
    Remainder,
    /// The remainder and the divisor.
    Wrapped,
    /// Of the dividend; any divisor.
    Sign,
    /// Whether the signs differ; any divisor.
    SignsDiffer,
    HasRemainder,
    IsNegative,
    /// Whether there is a remainder, and the signs differ.
    IsBelow,
}

impl Rounded {
    pub(super) fn substitute(&mut self, map: &BTreeMap<Name, Dim>) {
        self.dividend = self.dividend.substitute(map);
    }
}

impl Walk<'_> {
    fn step(&self, v: V) -> Option<(Step, Dim, i64)> {
        let rounded = self.rounded.get(&v)?;
        Some((rounded.step, rounded.dividend.clone(), rounded.divisor))
    }

    fn one_dim(builder: &Builder, v: V) -> Option<Dim> {
        match builder.elements(v)?.as_slice() {
            [dim] if builder.rank(v) == 0 => Some(dim.clone()),
            _ => None,
        }
    }

    /// Notes what `value`, an operation on two scalars or on one and itself, is of a division.
    pub(super) fn follow(&mut self, operator: &str, [x, y]: [V; 2], value: V) {
        if self.builder.tensor(value).is_some() {
            return;
        }
        let number = |v: V| Self::one_dim(&self.builder, v).and_then(|dim| dim.as_int());
        let dividend = Self::one_dim(&self.builder, x);
        let divisor = number(y).filter(|&divisor| divisor >= 1);
        let found = match (operator, dividend, divisor) {
            ("divide", Some(dividend), Some(divisor)) => Some((Step::Quotient, dividend, divisor)),
            ("mod", Some(dividend), Some(divisor)) => Some((Step::Remainder, dividend, divisor)),
            ("sign", Some(dividend), _) => Some((Step::Sign, dividend, 1)),
            _ => match (operator, self.step(x), number(y)) {
                ("not_equal", Some((Step::Sign, of, by)), Some(1)) => {
                    Some((Step::SignsDiffer, of, by))
                }
                ("not_equal", Some((Step::Remainder, of, by)), Some(0)) => {
                    Some((Step::HasRemainder, of, by))
                }
                ("less", Some((Step::Remainder, of, by)), Some(0)) => {
                    Some((Step::IsNegative, of, by))
                }
                ("not_equal", Some((Step::IsNegative, of, by)), Some(0)) => {
                    Some((Step::IsNegative, of, by))
                }
                ("subtract", Some((Step::Quotient, of, by)), Some(1)) => {
                    Some((Step::Below, of, by))
                }
                ("add", Some((Step::Remainder, of, by)), Some(added)) if added == by => {
                    Some((Step::Wrapped, of, by))
                }
                ("logical_and", Some(a), _) => self.step(y).and_then(|b| both(a, b)),
                _ => None,
            },
        };
        if let Some((step, dividend, divisor)) = found {
            self.rounded.insert(value, Rounded { step, dividend, divisor });
        }
    }

    /// The floor of a quotient, or what it leaves.
    pub(super) fn floor(&mut self, condition: V, then: V, otherwise: V) -> Option<V> {
        let (step, of, by) = self.step(condition)?;
        let (first, second) = (self.step(then)?, self.step(otherwise)?);
        let is_same = |(_, a, b): &(Step, Dim, i64)| *a == of && *b == by;
        let is_negative = Claim::new(of.clone(), Relation::Less, 0);
        let rounds = step == Step::IsBelow
            || step == Step::HasRemainder && self.builder.proves(&is_negative);
        if !rounds || !is_same(&first) || !is_same(&second) {
            return None;
        }
        let op = match (first.0, second.0) {
            (Step::Below, Step::Quotient) => DimOp::FloorDiv,
            (Step::Wrapped, Step::Remainder) => DimOp::FloorMod,
            _ => return None,
        };
        let dim = self.builder.dim(op, &of, &Dim::Int(by));
        let dtype = self.builder.dtype(then);
        Some(self.builder.integers(vec![dim], 0, dtype))
    }
}

/// A divisor is positive, so that the signs differ where the dividend, or the remainder, is negative or both are 0.
fn both(a: (Step, Dim, i64), b: (Step, Dim, i64)) -> Option<(Step, Dim, i64)> {
    let (sign, rest) = if a.0 == Step::HasRemainder { (b, a) } else { (a, b) };
    let by_sign = sign.0 == Step::SignsDiffer;
    let fits = rest.0 == Step::HasRemainder
        && rest.1 == sign.1
        && (by_sign || sign.0 == Step::IsNegative && sign.2 == rest.2);
    fits.then_some((Step::IsBelow, rest.1, rest.2))
}
