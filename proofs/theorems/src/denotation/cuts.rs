//! Reductions cut at the index where a test changes, or to the one for which it holds; and indices cut into digits.

use super::normal::Normalizer;
use super::poly::Poly;
use super::program::rebuilt;
use super::ranges::factors;
use super::term::{Binder, Domain, FoldOp, Known, Stuck, Term, Test, mentions, unknown};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};
use std::collections::{BTreeMap, BTreeSet};

/// Claims that decide whether a term is 0.
const MOST_CLAIMS: usize = 6;

impl Normalizer<'_> {
    /// A reduction of which a test on its index is not decided: in two parts at the point where the
    /// test changes, or the one element for which it holds.
    pub(super) fn split_fold(
        &mut self,
        domain: Domain,
        op: &FoldOp,
        binders: &[Binder],
        body: &Term,
        claim: &Claim,
    ) -> Known<Poly> {
        if matches!(op, FoldOp::Row(..)) {
            return unknown("a row that consists of parts");
        }
        let outer: BTreeSet<&Name> = binders.iter().map(|(name, _)| name).collect();
        for (at, (k, n)) in binders.iter().enumerate() {
            if !mentions(&claim.left, &|name| name == k)
                && !mentions(&claim.right, &|name| name == k)
            {
                continue;
            }
            let Some((slope, point)) = self.turning(claim, k) else { continue };
            if mentions(&point, &|name| outer.contains(name)) {
                continue;
            }
            if claim.relation == Relation::Equal {
                // Where there is a place, its multiple is what it is compared with.
                let there = claim.substitute(&BTreeMap::from([(k.clone(), point.clone())]));
                return self.pick(domain, op, (binders, at), body, (&point, &there));
            }
            for side in [
                Claim::new(0, Relation::AtMost, point.clone()),
                Claim::new(point.clone(), Relation::AtMost, n.clone()),
            ] {
                if !self.proves(&side) {
                    return Err(Stuck::Split(Test::Dims(side)));
                }
            }
            let (before, after) = (slope < 0, slope > 0);
            let (first_body, second_body) =
                match (decided(body, claim, before)?, decided(body, claim, after)?) {
                    (Some(first), Some(second)) => (first, second),
                    // With steps of one the prover decides the test in both parts, however it is written there.
                    _ if slope.abs() == 1 => (body.clone(), body.clone()),
                    _ => continue,
                };
            let mut first = binders.to_vec();
            first[at].1 = point.clone();
            // Extents of other indices may depend on this one.
            let moved = Dim::op(DimOp::Add, Dim::Var(k.clone()), point.clone());
            let moved = BTreeMap::from([(k.clone(), moved)]);
            let mut second = renamed(binders, &moved);
            second[at].1 = Dim::op(DimOp::Sub, n.clone(), point);
            let shifted = second_body.substitute(&moved);
            let a = self.fold(domain, op, &first, &first_body)?;
            let b = self.fold(domain, op, &second, &shifted)?;
            return self.joined(domain, op, (a, b));
        }
        if let Some((rest, body)) = self.picked_by_others((domain, op), binders, body, claim)? {
            return self.fold(domain, op, &rest, &body);
        }
        unknown(format!("a reduction over an index with the test {claim}"))
    }

    /// A sum of which all elements are 0 but those where an index is what other indices of it say: over these others, where what
    /// they say is in range.
    fn picked_by_others(
        &mut self,
        (domain, op): (Domain, &FoldOp),
        binders: &[Binder],
        body: &Term,
        claim: &Claim,
    ) -> Known<Option<(Vec<Binder>, Term)>> {
        if (op, claim.relation) != (&FoldOp::Add, Relation::Equal) {
            return Ok(None);
        }
        for (at, (k, n)) in binders.iter().enumerate() {
            let Some((-1 | 1, point)) = self.turning(claim, k) else { continue };
            let mut rest = binders.to_vec();
            rest.remove(at);
            let elsewhere = Claim::new(Dim::Var(k.clone()), Relation::NotEqual, point.clone());
            if rest.iter().any(|(_, extent)| mentions(extent, &|name| name == k))
                || !self.vanishes(binders, body, vec![elsewhere])?
            {
                continue;
            }
            let body = body.substitute(&BTreeMap::from([(k.clone(), point.clone())]));
            let inside = [
                Claim::new(0, Relation::AtMost, point.clone()),
                Claim::new(point, Relation::Less, n.clone()),
            ];
            return Ok(Some((rest, body.where_all(inside.into_iter(), domain))));
        }
        Ok(None)
    }

    /// The index from which on a claim has another truth value, or for which it holds if it holds for one.
    pub(super) fn point(&mut self, claim: &Claim, k: &Name) -> Option<Dim> {
        self.turning(claim, k).map(|(_, point)| point)
    }

    /// That index, and by how much the sides of the claim part with each index.
    fn turning(&mut self, claim: &Claim, k: &Name) -> Option<(i64, Dim)> {
        let (slope, at_zero) = self.slope(claim, k)?;
        let minus = |a: Dim, b: i64| Dim::op(DimOp::Sub, a, Dim::Int(b));
        let zero_minus = |a: Dim| Dim::op(DimOp::Sub, Dim::Int(0), a);
        let part = |op, a: Dim| {
            if slope.abs() == 1 { a } else { Dim::op(op, a, Dim::Int(slope.abs())) }
        };
        // `left < right` is `0 <= difference - 1`, true up to the point or from it on.
        let bound = match claim.relation {
            Relation::Less => minus(at_zero, 1),
            Relation::AtMost | Relation::Equal => at_zero,
            _ => return None,
        };
        let point = match (claim.relation, slope > 0) {
            (Relation::Equal, true) => part(DimOp::FloorDiv, zero_minus(bound)),
            (Relation::Equal, false) => part(DimOp::FloorDiv, bound),
            (_, true) => part(DimOp::CeilDiv, zero_minus(bound)),
            (_, false) => minus(part(DimOp::FloorDiv, bound), -1),
        };
        Some((slope, self.facts.simplify(&point)))
    }

    /// By how much the right side of a claim less the left one grows with an index, and what it is at 0.
    fn slope(&mut self, claim: &Claim, k: &Name) -> Option<(i64, Dim)> {
        let difference = Dim::op(DimOp::Sub, claim.right.clone(), claim.left.clone());
        let at =
            |value: i64| difference.substitute(&BTreeMap::from([(k.clone(), Dim::Int(value))]));
        let (at_zero, var) = (at(0), Dim::Var(k.clone()));
        let step = self.facts.simplify(&Dim::op(DimOp::Sub, at(1), at_zero.clone()));
        let slope = step.as_int().filter(|&slope| slope != 0 && slope != i64::MIN)?;
        let (op, size) = (if slope > 0 { DimOp::Add } else { DimOp::Sub }, slope.abs());
        let grown = if size == 1 { var } else { Dim::op(DimOp::Mul, var, Dim::Int(size)) };
        self.equal_dims(&difference, &Dim::op(op, at_zero.clone(), grown))
            .then_some((slope, at_zero))
    }

    /// A sum of which all but one element are 0.
    fn pick(
        &mut self,
        domain: Domain,
        op: &FoldOp,
        (binders, at): (&[Binder], usize),
        body: &Term,
        (point, there): (&Dim, &Claim),
    ) -> Known<Poly> {
        let (k, n) = binders[at].clone();
        let elsewhere = Claim::new(Dim::Var(k.clone()), Relation::NotEqual, point.clone());
        if *op != FoldOp::Add || !self.vanishes(binders, body, vec![elsewhere])? {
            return unknown("an element of a reduction apart from the others");
        }
        for side in [
            Claim::new(0, Relation::AtMost, point.clone()),
            Claim::new(point.clone(), Relation::Less, n),
            there.clone(),
        ] {
            if self.proves(&side.opposite()) {
                return Ok(Poly::default());
            }
            if !self.proves(&side) {
                return Err(Stuck::Split(Test::Dims(side)));
            }
        }
        let place = BTreeMap::from([(k, point.clone())]);
        let mut rest = renamed(binders, &place);
        rest.remove(at);
        let body = body.substitute(&place);
        if rest.is_empty() { self.normal(&body) } else { self.fold(domain, op, &rest, &body) }
    }

    /// Whether a term is 0 for all indices of which some claims hold, in each case of what else decides it.
    fn vanishes(&mut self, binders: &[Binder], body: &Term, claims: Vec<Claim>) -> Known<bool> {
        let found = self.within(binders, |own| {
            claims.iter().for_each(|claim| own.facts.assume(claim.clone()));
            own.normal(body)
        });
        match found {
            Err(Stuck::Split(Test::Dims(claim)))
                if claims.len() < MOST_CLAIMS && self.about(&claim, binders) =>
            {
                for claim in [claim.clone(), claim.opposite()] {
                    let mut all = claims.clone();
                    all.push(claim);
                    if !self.vanishes(binders, body, all)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            other => Ok(other?.is_zero()),
        }
    }

    /// Whether a claim is another for other indices of a reduction.
    pub(super) fn about(&self, claim: &Claim, binders: &[Binder]) -> bool {
        self.claim_depends(claim, &binders.iter().map(|(name, _)| name.clone()).collect())
    }
}

/// Indices whose extents have dims for variables.
pub(super) fn renamed(binders: &[Binder], map: &BTreeMap<Name, Dim>) -> Vec<Binder> {
    binders.iter().map(|(name, extent)| (name.clone(), extent.substitute(map))).collect()
}

/// A term in which a test is decided; none where it does not stand in it.
fn decided(term: &Term, claim: &Claim, holds: bool) -> Known<Option<Term>> {
    let mut stands = false;
    let result = rebuilt(term, &mut |term| match term {
        Term::If(Test::Dims(own), then, otherwise) if own == claim => {
            stands = true;
            let chosen = if holds { then } else { otherwise };
            Ok(Some(decided(chosen, claim, holds)?.unwrap_or_else(|| (**chosen).clone())))
        }
        _ => Ok(None),
    })?;
    Ok(stands.then_some(result))
}

/// An index below a product of extents that the body divides by one of them: as two indices.
pub(super) fn by_rows(binders: &[Binder], body: &Term) -> Option<(Vec<Binder>, Term)> {
    binders.iter().enumerate().find_map(|(at, binder)| {
        let ([outer, inner], place) = digits(binder, &[body])?;
        let mut own = binders.to_vec();
        own.splice(at..=at, [outer, inner]);
        Some((own, body.substitute(&BTreeMap::from([(binder.0.clone(), place)]))))
    })
}

/// An index below a product of extents that terms divide by one of them: as two indices, and the dim that it is of them.
pub(super) fn digits((name, extent): &Binder, terms: &[&Term]) -> Option<([Binder; 2], Dim)> {
    let mut divisors = Vec::new();
    terms.iter().for_each(|term| divisors_of(term, name, &mut divisors));
    divisors.into_iter().find_map(|divisor| {
        let rows = quotient(extent, &divisor)?;
        let (outer, inner): (Name, Name) = (format!("{name}.0").into(), format!("{name}.1").into());
        let row = Dim::op(DimOp::Mul, Dim::Var(outer.clone()), divisor.clone());
        let place = Dim::op(DimOp::Add, row, Dim::Var(inner.clone()));
        Some(([(outer, rows), (inner, divisor)], place))
    })
}

/// How often a divisor is in an extent, if it is a part of the factors and not all of them.
fn quotient(extent: &Dim, divisor: &Dim) -> Option<Dim> {
    if let (Dim::Int(extent), Dim::Int(divisor)) = (extent, divisor) {
        let is_part = 1 < *divisor && divisor < extent && extent % divisor == 0;
        return is_part.then(|| Dim::Int(extent / divisor));
    }
    let mut rest = factors(extent);
    for factor in factors(divisor) {
        let place = rest.iter().position(|other| *other == factor)?;
        rest.remove(place);
    }
    (!rest.is_empty()).then(|| Dim::product(&rest))
}

/// What the indices of a term divide something with `name` in it by.
fn divisors_of(term: &Term, name: &Name, found: &mut Vec<Dim>) {
    fn of_dim(dim: &Dim, name: &Name, found: &mut Vec<Dim>) {
        let Dim::Op(op, operands) = dim else { return };
        let (a, b) = (&operands.0, &operands.1);
        let plain = matches!(a, Dim::Var(own) if own == name);
        if matches!(op, DimOp::FloorDiv | DimOp::FloorMod) && plain && !found.contains(b) {
            found.push(b.clone());
        }
        of_dim(a, name, found);
        of_dim(b, name, found);
    }
    match term {
        Term::Read(_, at) => at.iter().for_each(|dim| of_dim(dim, name, found)),
        Term::Number(..) | Term::Scalar(_) | Term::Extent(_) => {}
        Term::Apply(_, _, args) => args.iter().for_each(|arg| divisors_of(arg, name, found)),
        Term::If(test, then, otherwise) => {
            match test {
                Test::Dims(claim) => {
                    of_dim(&claim.left, name, found);
                    of_dim(&claim.right, name, found);
                }
                Test::Element(term) => divisors_of(term, name, found),
            }
            divisors_of(then, name, found);
            divisors_of(otherwise, name, found);
        }
        Term::Fold(_, _, _, body) => divisors_of(body, name, found),
        Term::Lookup(index, _, body) => {
            divisors_of(index, name, found);
            divisors_of(body, name, found);
        }
    }
}
