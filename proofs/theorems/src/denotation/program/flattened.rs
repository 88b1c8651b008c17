//! Loops of threads as one loop: `at = (by * 65535 + bx) * 256 + tx` below a bound that a guard compares it with.
//!
//! Loop variables are digits of a number in mixed radix, the outermost first. Where no digit exceeds its radix, the nest goes through
//! different numbers in ascending order; where each digit reaches what the bound asks for, it goes through all below the bound. So the
//! nest is the loop over the number, in the same order.
//!
//! A factor of the bound that is 0 or 1 is a condition around the loop: `n * min(r, 1)` is n where r is positive, and else 0.

use super::region::linear;
use super::scalar::Condition;
use super::{Frame, Machine, Scalar};
use crate::denotation::ranges::factors;
use crate::denotation::term::{Known, Term};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::tensor::{BinOp, Loop, ScalarId, Stmt, StmtKind, TExpr};

/// A nest as one loop.
struct Flat<'s> {
    var: ScalarId,
    stop: TExpr,
    extent: Dim,
    body: &'s [Stmt],
}

/// A digit of a number: the factors of what it counts, and how many values it has where that is said.
struct Digit {
    weight: Vec<Dim>,
    radix: Option<Dim>,
}

/// The factors without some of them, numbers divided; none where these are no factors.
fn without(all: &[Dim], some: &[Dim]) -> Option<Vec<Dim>> {
    let number = |dims: &[Dim]| {
        dims.iter()
            .filter_map(Dim::as_int)
            .try_fold(1, |product: i64, next| product.checked_mul(next))
    };
    let symbols =
        |dims: &[Dim]| dims.iter().filter(|dim| dim.as_int().is_none()).cloned().collect();
    let (mut rest, others): (Vec<Dim>, Vec<Dim>) = (symbols(all), symbols(some));
    for other in others {
        rest.remove(rest.iter().position(|dim| *dim == other)?);
    }
    let (whole, part) = (number(all)?, number(some)?);
    let is_part = part > 0 && whole % part == 0;
    if !is_part {
        return None;
    }
    if whole != part {
        rest.push(Dim::Int(whole / part));
    }
    Some(rest)
}

impl Machine<'_> {
    /// Runs a nest whose variables are digits of one number; none where it is no such nest.
    pub(super) fn threads(&mut self, loops: &[Loop], body: &[Stmt]) -> Option<Known<()>> {
        let (digits, body) = nested(loops, body);
        let saved: Vec<_> =
            digits.iter().map(|digit| self.scalars[digit.var.0 as usize].take()).collect();
        let flat = self.flat(&digits, body);
        for (digit, scalar) in digits.iter().zip(saved) {
            // The body of the nest does not see the digits.
            let place = &mut self.scalars[digit.var.0 as usize];
            *place = if flat.is_some() { None } else { scalar };
        }
        let flat = flat?;
        let (claims, rest): (Vec<_>, Vec<_>) = factors(&flat.extent)
            .into_iter()
            .map(|factor| self.indicated(&factor).ok_or(factor))
            .partition(Result::is_ok);
        let claims: Vec<Claim> = claims.into_iter().flatten().collect();
        let extents: Vec<Dim> = rest.into_iter().filter_map(Result::err).collect();
        if let Some((frames, body)) = self.apart(&flat, &extents) {
            return Some(self.repeated_if(&claims, &frames, body));
        }
        let item = Loop { var: flat.var, start: TExpr::Int(0), stop: flat.stop };
        self.sources.bind_loop(&item);
        let stop = Dim::product(&extents);
        let frame = Frame { var: flat.var, name: self.fresh("i"), start: Dim::Int(0), stop };
        Some(self.repeated_if(&claims, &[frame], flat.body))
    }

    /// The loops that a body begins with taking the number apart to, as `i = at // m` and `j = at % m` are of `n * m` numbers, and what follows.
    fn apart<'s>(&mut self, flat: &Flat<'s>, extents: &[Dim]) -> Option<(Vec<Frame>, &'s [Stmt])> {
        let (mut rest, mut digits) = (flat.body, Vec::new());
        while let [Stmt { kind: StmtKind::Let { var, value }, .. }, others @ ..] = rest
            && let Some(digit) = self.digit(flat.var, value)
        {
            digits.push((*var, digit));
            rest = others;
        }
        let (_, first) = digits.first().filter(|(_, digit)| digit.radix.is_none())?;
        let mut stops = vec![Dim::product(&without(extents, &first.weight)?)];
        for pair in digits.windows(2) {
            let (outer, inner) = (&pair[0].1, &pair[1].1);
            let radix = inner.radix.clone()?;
            let weight = [factors(&radix), inner.weight.clone()].concat();
            let is_next = without(&outer.weight, &weight).is_some_and(|rest| rest.is_empty());
            if !is_next || !self.proves(&Claim::new(0, Relation::AtMost, radix.clone())) {
                return None;
            }
            stops.push(radix);
        }
        if !digits.last()?.1.weight.is_empty() {
            return None;
        }
        let mut number = Dim::Int(0);
        let (mut frames, mut sum) = (Vec::new(), TExpr::Int(0));
        for ((var, _), stop) in digits.into_iter().zip(stops) {
            sum = TExpr::Binary(BinOp::Add, Box::new((sum, TExpr::Scalar(var))));
            let name = self.fresh("i");
            let index = Dim::Var(name.clone());
            number = match frames.is_empty() {
                true => index,
                false => Dim::op(DimOp::Add, Dim::op(DimOp::Mul, number, stop.clone()), index),
            };
            self.sources.bind_loop(&Loop { var, start: TExpr::Int(0), stop: flat.stop.clone() });
            frames.push(Frame { var, name, start: Dim::Int(0), stop });
        }
        // The number comes from all of these loops, and from none of its own.
        self.sources.bind(flat.var, &sum);
        self.scalars[flat.var.0 as usize] = Some(Scalar(Term::Extent(number)));
        Some((frames, rest))
    }

    /// A digit of a number, if a value is one: `at // weight % radix`, without the weight the last one, without the radix the first one.
    fn digit(&mut self, at: ScalarId, value: &TExpr) -> Option<Digit> {
        let TExpr::Binary(op, sides) = value else { return None };
        match (op, &sides.0) {
            (BinOp::FloorDiv, number) if number.as_scalar() == Some(at) => {
                Some(Digit { weight: factors(&self.bound(&sides.1).ok()?), radix: None })
            }
            (BinOp::Mod, number) if number.as_scalar() == Some(at) => {
                Some(Digit { weight: Vec::new(), radix: Some(self.bound(&sides.1).ok()?) })
            }
            (BinOp::Mod, inner) => {
                let outer = self.digit(at, inner).filter(|outer| outer.radix.is_none())?;
                Some(Digit { radix: Some(self.bound(&sides.1).ok()?), ..outer })
            }
            _ => None,
        }
    }

    /// Runs a loop where claims hold.
    fn repeated_if(&mut self, claims: &[Claim], frames: &[Frame], body: &[Stmt]) -> Known<()> {
        let Some((claim, rest)) = claims.split_first() else {
            return self.repeat(frames, body);
        };
        let condition = Condition::Claim(claim.clone());
        self.guarded(&condition, true, body, |own| own.repeated_if(rest, frames, body))
    }

    /// Where a factor is 1, if it is 0 anywhere else: `min(r, 1)` and `1 - min(r, 1)`, for an r that is not negative.
    fn indicated(&mut self, factor: &Dim) -> Option<Claim> {
        let capped = |dim: &Dim| match dim {
            Dim::Op(DimOp::Min, sides) if sides.1 == Dim::Int(1) => Some(sides.0.clone()),
            _ => None,
        };
        let (rest, claim) = match factor {
            Dim::Op(DimOp::Sub, sides) if sides.0 == Dim::Int(1) => {
                let rest = capped(&sides.1)?;
                (rest.clone(), Claim::new(rest, Relation::AtMost, 0))
            }
            other => {
                let rest = capped(other)?;
                (rest.clone(), Claim::new(1, Relation::AtMost, rest))
            }
        };
        self.proves(&Claim::new(0, Relation::AtMost, rest)).then_some(claim)
    }

    fn flat<'s>(&mut self, digits: &[&Loop], body: &'s [Stmt]) -> Option<Flat<'s>> {
        let [Stmt { kind: StmtKind::Let { var, value }, .. }, guarded] = body else { return None };
        let StmtKind::If { condition, then, otherwise } = &guarded.kind else { return None };
        let stop = below(condition, *var)?;
        if digits.len() < 2 || !otherwise.is_empty() {
            return None;
        }
        let mut extents = Vec::new();
        for digit in digits {
            if digit.start != TExpr::Int(0) {
                return None;
            }
            extents.push(self.bound(&digit.stop).ok()?);
        }
        let mut extent = self.bound(stop).ok()?;
        if let Dim::Op(DimOp::Max, sides) = &extent
            && sides.1 == Dim::Int(0)
            && self.proves(&Claim::new(0, Relation::AtMost, sides.0.clone()))
        {
            extent = sides.0.clone();
        }
        let weights = self.weights(digits, value)?;
        self.covers(&weights, &extents, &extent).then(|| Flat {
            var: *var,
            stop: stop.clone(),
            extent,
            body: then,
        })
    }

    /// What each digit counts in a number that is a sum of them.
    fn weights(&mut self, digits: &[&Loop], value: &TExpr) -> Option<Vec<i64>> {
        let mut names = Vec::new();
        for digit in digits {
            let name = self.fresh("d");
            self.scalars[digit.var.0 as usize] = Some(Scalar(Term::Extent(Dim::Var(name.clone()))));
            names.push(name);
        }
        let mut rest = self.bound(value).ok()?;
        let mut weights = Vec::new();
        for name in &names {
            let (weight, other) = linear(&rest, name)?;
            weights.push(weight);
            rest = other;
        }
        let none = Claim::new(rest, Relation::Equal, 0);
        self.proves(&none).then_some(weights)
    }

    /// Whether digits of these weights and extents go through all numbers below the bound, and each once.
    fn covers(&mut self, weights: &[i64], extents: &[Dim], bound: &Dim) -> bool {
        if weights.last() != Some(&1) || weights.iter().any(|&weight| weight < 1) {
            return false;
        }
        for (at, (&weight, extent)) in weights.iter().zip(extents).enumerate() {
            let wanted = Dim::op(DimOp::CeilDiv, bound.clone(), Dim::Int(weight));
            let at_most = |a: Dim, b: Dim| Claim::new(a, Relation::AtMost, b);
            let Some(outer) = at.checked_sub(1).map(|before| weights[before]) else {
                if !self.proves(&at_most(wanted, extent.clone())) {
                    return false;
                }
                continue;
            };
            let radix = Dim::Int(outer / weight);
            let wanted = Dim::op(DimOp::Min, wanted, radix.clone());
            let fits = outer % weight == 0
                && self.proves(&at_most(extent.clone(), radix))
                && self.proves(&at_most(wanted, extent.clone()));
            if !fits {
                return false;
            }
        }
        true
    }
}

/// All loops of a nest in which each has nothing but the next in it, and what the last one has.
fn nested<'s>(loops: &'s [Loop], mut body: &'s [Stmt]) -> (Vec<&'s Loop>, &'s [Stmt]) {
    let mut all: Vec<&Loop> = loops.iter().collect();
    while let [Stmt { kind: StmtKind::For { loops, body: inner, .. }, .. }] = body {
        all.extend(loops);
        body = inner;
    }
    (all, body)
}

/// The bound that a condition compares a number with.
fn below(condition: &TExpr, var: ScalarId) -> Option<&TExpr> {
    match condition {
        TExpr::Binary(BinOp::Less, sides) if sides.0.as_scalar() == Some(var) => Some(&sides.1),
        _ => None,
    }
}
