//! Indicator functions (Iverson brackets): of two summands by a test on indices, `[test] * a + (1 - [test]) * b`.
//!
//! A sum with a test is cut where the test changes, if that point does not depend on other indices. A sum over a triangle has
//! no such point. With indicators it is a sum over a rectangle, whose order of indices does not matter. They are used where
//! the first way ends without a proof.

use super::normal::Normalizer;
use super::poly::{Atom, Monomial, Poly};
use super::ratio::Ratio;
use super::term::{Binder, Domain, FoldOp, Known, Term, Test, mentions, unknown};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};
use std::collections::BTreeMap;

/// The functions that are 1 where a distance is as they say, and 0 elsewhere.
const POSITIVE: &str = "is positive";
const ZERO: &str = "is zero";

impl Normalizer<'_> {
    /// The normal form of a term that is multiplied by the indicator of a claim: what it is elsewhere does not matter.
    pub(super) fn where_it_holds(&mut self, claim: &Claim, term: &Term) -> Known<Poly> {
        self.facts.push();
        self.facts.assume(claim.clone());
        let result = self.normal(term);
        self.facts.pop();
        result
    }

    /// `a` where a claim holds, else `b`.
    pub(super) fn weighted(&mut self, claim: &Claim, a: &Poly, b: &Poly) -> Known<Poly> {
        if a == b {
            return Ok(a.clone());
        }
        let indicator = self.indicator(claim)?;
        let difference = self.times(&indicator, &a.subtract(b)?)?;
        b.add(&difference)
    }

    fn indicator(&mut self, claim: &Claim) -> Known<Poly> {
        let one = Poly::number(Ratio::ONE);
        let distance = self.extent(&claim.right)?.subtract(&self.extent(&claim.left)?)?;
        let (name, distance) = match claim.relation {
            Relation::Less => (POSITIVE, distance),
            // Dims are integers.
            Relation::AtMost => (POSITIVE, distance.add(&one)?),
            Relation::Equal => (ZERO, distance),
            Relation::NotEqual => return one.subtract(&self.indicator(&claim.opposite())?),
            Relation::Divides => return unknown("an indicator of a divisor"),
        };
        self.function(Domain::Bits, name, vec![distance])
    }

    /// The value of an indicator: a number where the test is decided, else one atom for a distance and its opposite.
    pub(super) fn indicated(&mut self, name: &str, distance: &Poly) -> Known<Option<Poly>> {
        let one = Poly::number(Ratio::ONE);
        let (relation, opposite) = match name {
            POSITIVE => (Relation::Less, one.subtract(distance)?),
            ZERO => (Relation::Equal, distance.negated()?),
            _ => return Ok(None),
        };
        if let Some(dim) = self.dim_of(distance) {
            let claim = Claim::new(0, relation, dim);
            if self.proves(&claim) {
                return Ok(Some(one));
            }
            if self.proves(&claim.opposite()) {
                return Ok(Some(Poly::default()));
            }
        }
        let opposite = Atom::Apply(Domain::Bits, name.into(), vec![opposite]);
        let Some(id) = self.atoms.iter().position(|atom| *atom == opposite) else {
            return Ok(None);
        };
        if name == ZERO {
            return Ok(Some(Poly::atom(id)));
        }
        one.subtract(&Poly::atom(id)).map(Some)
    }

    /// A sum of products of extents as a dim.
    fn dim_of(&self, poly: &Poly) -> Option<Dim> {
        let mut total = Dim::Int(0);
        for (monomial, coefficient) in &poly.0 {
            let mut product = Dim::Int(i64::try_from(coefficient.as_int()?).ok()?);
            for (&id, &power) in monomial {
                let Atom::Extent(dim) = &self.atoms[id] else { return None };
                for _ in 0..u32::try_from(power).ok()? {
                    product = Dim::op(DimOp::Mul, product, dim.clone());
                }
            }
            total = Dim::op(DimOp::Add, total, product);
        }
        Some(total)
    }

    /// A sum over an index that a test fixes: `sum over k of [k == e] * f(k)` is `[0 <= e] * [e < n] * f(e)`. Gives the
    /// indices that are left, and what is summed over them.
    pub(super) fn picked(
        &mut self,
        binders: &[Binder],
        product: &Monomial,
    ) -> Known<Option<(Vec<Binder>, Poly)>> {
        for &id in product.keys() {
            let Atom::Apply(_, name, args) = self.atoms[id].clone() else { continue };
            if name != ZERO {
                continue;
            }
            for (at, (k, n)) in binders.iter().enumerate() {
                let Some(place) = self.solved(&args[0], k) else { continue };
                let mut rest = binders.to_vec();
                rest.remove(at);
                if rest.iter().any(|(_, extent)| mentions(extent, &|name| name == k)) {
                    continue;
                }
                let mut others = product.clone();
                others.remove(&id);
                let renaming = BTreeMap::from([(k.clone(), place.clone())]);
                let body = Poly::monomial(others, Ratio::ONE);
                let inside = self.within(&rest, |own| {
                    let body = own.renamed(&body, &renaming)?;
                    let first = own.indicator(&Claim::new(0, Relation::AtMost, place.clone()))?;
                    let last =
                        own.indicator(&Claim::new(place.clone(), Relation::Less, n.clone()))?;
                    let inside = own.times(&first, &last)?;
                    own.times(&inside, &body)
                })?;
                return Ok(Some((rest, inside)));
            }
        }
        Ok(None)
    }

    /// The value of an index for which a distance is 0, where that is the distance's only root for all other indices.
    fn solved(&mut self, distance: &Poly, k: &Name) -> Option<Dim> {
        let dim = self.dim_of(distance)?;
        let first = dim.substitute(&BTreeMap::from([(k.clone(), Dim::Int(0))]));
        let var = Dim::Var(k.clone());
        let place = if self.equal_dims(&dim, &Dim::op(DimOp::Add, first.clone(), var.clone())) {
            Dim::op(DimOp::Sub, Dim::Int(0), first)
        } else if self.equal_dims(&dim, &Dim::op(DimOp::Sub, first.clone(), var)) {
            first
        } else {
            return None;
        };
        Some(self.facts.simplify(&place))
    }

    /// A sum whose extents depend on indices around it: over the greatest extents, with tests.
    pub(super) fn over_greatest_extents(
        &mut self,
        binders: &[Binder],
        body: &Term,
    ) -> Option<(Vec<Binder>, Term)> {
        let mut wide = binders.to_vec();
        let mut tested = body.clone();
        for (name, extent) in &mut wide {
            let around: Vec<Binder> = self.binders.iter().rev().cloned().collect();
            let own = extent.clone();
            for (index, end) in around {
                if mentions(extent, &|name| *name == index) {
                    *extent = self.greatest(extent, &index, &end)?;
                }
            }
            if *extent == own {
                continue;
            }
            if !self.proves(&Claim::new(own.clone(), Relation::AtMost, extent.clone())) {
                return None;
            }
            let inside = Claim::new(Dim::Var(name.clone()), Relation::Less, own);
            tested = Term::choose(inside, tested, Term::Number(Domain::Real, 0.0));
        }
        (wide != binders).then_some((wide, tested))
    }

    /// A dim for the index below `end` for which it is greatest, if it rises or falls by one with the index.
    fn greatest(&mut self, dim: &Dim, index: &Name, end: &Dim) -> Option<Dim> {
        let at = |value: Dim| dim.substitute(&BTreeMap::from([(index.clone(), value)]));
        let (first, var) = (at(Dim::Int(0)), Dim::Var(index.clone()));
        if self.equal_dims(dim, &Dim::op(DimOp::Add, first.clone(), var.clone())) {
            let last = at(Dim::op(DimOp::Sub, end.clone(), Dim::Int(1)));
            return Some(self.facts.simplify(&last));
        }
        let falls = self.equal_dims(dim, &Dim::op(DimOp::Sub, first.clone(), var));
        falls.then_some(first)
    }
}

/// Whether a term is a real number, as far as it says so itself.
pub(super) fn is_real(term: &Term) -> bool {
    match term {
        Term::Number(domain, _) | Term::Apply(domain, ..) | Term::Fold(domain, ..) => {
            *domain == Domain::Real
        }
        Term::If(_, then, otherwise) => is_real(then) || is_real(otherwise),
        Term::Lookup(_, _, body) => is_real(body),
        Term::Read(..) | Term::Extent(_) | Term::Scalar(_) => false,
    }
}

/// Whether a sum of real numbers is in a term: without one, indicators say nothing more.
pub(super) fn has_sum(term: &Term) -> bool {
    match term {
        Term::Fold(domain, op, _, body) => {
            (*domain == Domain::Real && *op == FoldOp::Add) || has_sum(body)
        }
        Term::Apply(_, _, args) => args.iter().any(has_sum),
        Term::If(test, then, otherwise) => {
            matches!(test, Test::Element(term) if has_sum(term))
                || has_sum(then)
                || has_sum(otherwise)
        }
        Term::Lookup(index, _, body) => has_sum(index) || has_sum(body),
        Term::Read(..) | Term::Number(..) | Term::Extent(_) | Term::Scalar(_) => false,
    }
}
