//! Lemmas on reductions: nothing, one element, split at a point, a product of extents, linearity, and
//! that sums over independent indices are products.

use super::cuts::by_rows;
use super::normal::Normalizer;
use super::poly::{Atom, AtomId, Monomial, Poly};
use super::ratio::Ratio;
use super::term::{Binder, Domain, FoldOp, Known, Stuck, Term, Test, unknown};
use crate::denotation::names::{MAXIMUM, MINIMUM, NEGATIVE};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Relation};
use std::collections::{BTreeMap, BTreeSet};

/// Reductions in each other, parts of one included.
const MOST_PARTS: usize = 100;

impl Normalizer<'_> {
    /// The normal form of a reduction. What it is split on is not about its indices: a claim may hold for some of them only.
    pub(super) fn fold(
        &mut self,
        domain: Domain,
        op: &FoldOp,
        binders: &[Binder],
        body: &Term,
    ) -> Known<Poly> {
        if self.depth == MOST_PARTS {
            return unknown("a reduction in too many parts");
        }
        self.depth += 1;
        let found = self.fold_of(domain, op, binders, body);
        self.depth -= 1;
        match found {
            Err(Stuck::Split(Test::Dims(claim))) if self.about(&claim, binders) => {
                unknown(format!("a reduction over an index with the test {claim}"))
            }
            other => other,
        }
    }

    fn fold_of(
        &mut self,
        domain: Domain,
        op: &FoldOp,
        binders: &[Binder],
        body: &Term,
    ) -> Known<Poly> {
        self.spend(5)?;
        let ordered = matches!(op, FoldOp::Row(..));
        for (at, (name, extent)) in binders.iter().enumerate() {
            if ordered {
                break;
            }
            if self.equal_dims(extent, &Dim::Int(0)) {
                return self.of_nothing(op);
            }
            if self.equal_dims(extent, &Dim::Int(1)) {
                let mut rest = binders.to_vec();
                rest.remove(at);
                let body = body.substitute(&BTreeMap::from([(name.clone(), Dim::Int(0))]));
                if rest.is_empty() {
                    return self.normal(&body);
                }
                return self.fold(domain, op, &rest, &body);
            }
        }
        if !matches!(op, FoldOp::Row(_, at) if !at.is_empty())
            && let Some((binders, body)) = by_rows(binders, body)
        {
            return self.fold(domain, op, &binders, &body);
        }
        if self.indicates
            && (domain, op) == (Domain::Real, &FoldOp::Add)
            && let Some((binders, body)) = self.over_greatest_extents(binders, body)
        {
            return self.fold(domain, op, &binders, &body);
        }
        if let (true, [(name, extent)]) = (is_sorted(op), binders)
            && self.equal_dims(extent, &Dim::Int(1))
        {
            let map = BTreeMap::from([(name.clone(), Dim::Int(0))]);
            return self.normal(&body.substitute(&map));
        }
        let inner = self.within(binders, |own| own.normal(body));
        match inner {
            Ok(poly) => self.folded(domain, op.clone(), binders.to_vec(), poly),
            Err(Stuck::Split(Test::Dims(claim)))
                if is_stepwise(op) && self.about(&claim, binders) =>
            {
                // A row is not cut: which of two values an element of it is, is a function of the claim.
                self.rows += 1;
                let inner = self.within(binders, |own| own.normal(body));
                self.rows -= 1;
                self.folded(domain, op.clone(), binders.to_vec(), inner?)
            }
            Err(Stuck::Split(Test::Dims(claim))) if self.about(&claim, binders) => {
                self.split_fold(domain, op, binders, body, &claim)
            }
            Err(stuck) => Err(stuck),
        }
    }

    fn of_nothing(&mut self, op: &FoldOp) -> Known<Poly> {
        match op {
            FoldOp::Add => Ok(Poly::default()),
            FoldOp::Multiply => Ok(Poly::number(Ratio::ONE)),
            FoldOp::Max | FoldOp::Min | FoldOp::Row(..) => unknown("a reduction of nothing"),
        }
    }

    pub(super) fn joined(
        &mut self,
        domain: Domain,
        op: &FoldOp,
        (a, b): (Poly, Poly),
    ) -> Known<Poly> {
        match op {
            FoldOp::Add => a.add(&b),
            FoldOp::Multiply => self.times(&a, &b),
            FoldOp::Max => self.function(domain, MAXIMUM, vec![a, b]),
            FoldOp::Min => self.function(domain, MINIMUM, vec![a, b]),
            FoldOp::Row(..) => unknown("a row that consists of parts"),
        }
    }

    /// A reduction of a normal form.
    pub(super) fn folded(
        &mut self,
        domain: Domain,
        op: FoldOp,
        binders: Vec<Binder>,
        body: Poly,
    ) -> Known<Poly> {
        let names: BTreeSet<Name> = binders.iter().map(|(name, _)| name.clone()).collect();
        match op {
            FoldOp::Add if domain != Domain::Bits => self.sum(domain, &binders, &body),
            FoldOp::Multiply if domain != Domain::Bits => self.product(domain, binders, &body),
            FoldOp::Min if domain == Domain::Real => {
                let greatest = self.folded(domain, FoldOp::Max, binders, body.negated()?)?;
                greatest.negated()
            }
            FoldOp::Max | FoldOp::Min => self.extreme(domain, op, binders, body, &names),
            _ if is_sorted(&op) && !self.depends(&body, &names) => Ok(body),
            FoldOp::Row(name, at) if domain != Domain::Bits && self.is_first(&name, &at) => {
                // Neither integers nor real numbers are NaN, which comes last in either order.
                let is_rising = name.ends_with(" ascending");
                let op = if is_rising { FoldOp::Min } else { FoldOp::Max };
                self.folded(domain, op, binders, body)
            }
            op @ FoldOp::Row(..) => {
                Ok(Poly::atom(self.intern(Atom::Fold(domain, op, binders, body))?))
            }
            _ => Ok(Poly::atom(self.intern(Atom::Fold(domain, op, binders, body))?)),
        }
    }

    /// Whether it is the first element of a row in order.
    fn is_first(&mut self, name: &str, at: &[Dim]) -> bool {
        name.starts_with("sorted ") && matches!(at, [place] if self.equal_dims(place, &Dim::Int(0)))
    }

    /// Sums are linear. A factor that does not change with the index stands before the sum, and a sum
    /// over independent indices is a product.
    fn sum(&mut self, domain: Domain, binders: &[Binder], body: &Poly) -> Known<Poly> {
        let mut total = Poly::default();
        for (monomial, &coefficient) in &body.0 {
            let term = self.sum_of_product(domain, binders, monomial)?;
            total = total.add(&term.scaled(coefficient)?)?;
        }
        Ok(total)
    }

    fn sum_of_product(
        &mut self,
        domain: Domain,
        binders: &[Binder],
        monomial: &Monomial,
    ) -> Known<Poly> {
        self.spend(5)?;
        let mut binders = binders.to_vec();
        let names: BTreeSet<Name> = binders.iter().map(|(name, _)| name.clone()).collect();
        let (mut outside, mut inside) = (Monomial::new(), Monomial::new());
        for (&id, &power) in monomial {
            if !self.atom_depends(id, &names) {
                outside.insert(id, power);
            } else if let (1, Atom::Fold(_, FoldOp::Add, inner, body)) =
                (power, self.atoms[id].clone())
                && let Some((product, coefficient)) = body.as_monomial()
                && coefficient == Ratio::ONE
            {
                // A sum in a sum: one over both indices, which get names of their own.
                let (fresh, product) = self.apart(&inner, product, &binders)?;
                binders.extend(fresh);
                inside = super::poly::joined(&inside, &product);
            } else {
                inside = super::poly::joined(&inside, &Monomial::from([(id, power)]));
            }
        }
        // What has no value at some places may stand before the sum only where the sum has summands: a sum
        // of nothing is 0 whatever its summands would be.
        if outside.values().any(|&power| power < 0) {
            for (_, extent) in &binders {
                if !self.at_least(extent, 1) {
                    let claim = Claim::new(1, Relation::AtMost, extent.clone());
                    return Err(Stuck::Split(Test::Dims(claim)));
                }
            }
        }
        let mut result = Poly::monomial(outside, Ratio::ONE);
        if self.indicates
            && let Some((rest, body)) = self.picked(&binders, &inside)?
        {
            let sum = if rest.is_empty() { body } else { self.sum(domain, &rest, &body)? };
            return self.times(&result, &sum);
        }
        for (own, product) in self.components(&binders, &inside) {
            let factor = if product.is_empty() {
                let mut count = Poly::number(Ratio::ONE);
                for (_, extent) in &own {
                    let extent = self.extent(extent)?;
                    count = self.times(&count, &extent)?;
                }
                count
            } else {
                let body = Poly::monomial(product, Ratio::ONE);
                Poly::atom(self.intern(Atom::Fold(domain, FoldOp::Add, own, body))?)
            };
            result = self.times(&result, &factor)?;
        }
        Ok(result)
    }

    /// The body of an inner sum with fresh names for its indices.
    fn apart(
        &mut self,
        inner: &[Binder],
        product: &Monomial,
        outer: &[Binder],
    ) -> Known<(Vec<Binder>, Monomial)> {
        let mut renaming = BTreeMap::new();
        let mut fresh: Vec<Binder> = Vec::new();
        for (name, extent) in inner {
            let own = self.fresh("k");
            renaming.insert(name.clone(), Dim::Var(own.clone()));
            fresh.push((own, extent.clone()));
        }
        let poly = Poly::monomial(product.clone(), Ratio::ONE);
        let scope: Vec<Binder> = outer.iter().chain(&fresh).cloned().collect();
        let renamed = self.within(&scope, |own| own.renamed(&poly, &renaming))?;
        match renamed.as_monomial() {
            Some((monomial, coefficient)) if coefficient == Ratio::ONE => {
                Ok((fresh, monomial.clone()))
            }
            _ => unknown("a sum in a sum"),
        }
    }

    /// Factors and indices, those together that depend on each other.
    fn components(&self, binders: &[Binder], product: &Monomial) -> Vec<(Vec<Binder>, Monomial)> {
        let mut parts: Vec<(Vec<Binder>, Monomial)> = Vec::new();
        for binder in binders {
            parts.push((vec![binder.clone()], Monomial::new()));
        }
        for (&id, &power) in product {
            let (mut own, mut rest): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
            for part in parts {
                let names = part.0.iter().map(|(name, _)| name.clone()).collect();
                if self.atom_depends(id, &names) { own.push(part) } else { rest.push(part) }
            }
            let mut merged = (Vec::new(), Monomial::from([(id, power)]));
            for (names, factors) in own {
                merged.0.extend(names);
                merged.1.extend(factors);
            }
            rest.push(merged);
            parts = rest;
        }
        parts
    }

    fn product(&mut self, domain: Domain, binders: Vec<Binder>, body: &Poly) -> Known<Poly> {
        let names: BTreeSet<Name> = binders.iter().map(|(name, _)| name.clone()).collect();
        if let Some((monomial, coefficient)) = body.as_monomial()
            && coefficient == Ratio::ONE
            && monomial.keys().all(|&id| self.atom_depends(id, &names))
        {
            let mut result = Poly::number(Ratio::ONE);
            for (&id, &power) in &monomial.clone() {
                let atom = Atom::Fold(domain, FoldOp::Multiply, binders.clone(), Poly::atom(id));
                let factor = Poly::atom(self.intern(atom)?);
                let factor = self.power(&factor, power)?;
                result = self.times(&result, &factor)?;
            }
            return Ok(result);
        }
        let atom = Atom::Fold(domain, FoldOp::Multiply, binders, body.clone());
        Ok(Poly::atom(self.intern(atom)?))
    }

    /// The greatest or least: of several at once, of what does not change, of greatest ones.
    fn extreme(
        &mut self,
        domain: Domain,
        op: FoldOp,
        mut binders: Vec<Binder>,
        mut body: Poly,
        names: &BTreeSet<Name>,
    ) -> Known<Poly> {
        let some = binders.clone().iter().all(|(_, extent)| self.at_least(extent, 1));
        if some && !self.depends(&body, names) {
            return Ok(body);
        }
        if let Some(Atom::Fold(_, inner, more, under)) =
            body.as_atom().map(|id| self.atoms[id].clone())
            && inner == op
        {
            binders.extend(more);
            body = under;
        }
        let own = if op == FoldOp::Max { MAXIMUM } else { MINIMUM };
        if let Some(Atom::Apply(_, name, args)) = body.as_atom().map(|id| self.atoms[id].clone()) {
            if some && name == own {
                let parts = args
                    .into_iter()
                    .map(|arg| self.folded(domain, op.clone(), binders.clone(), arg));
                let parts = parts.collect::<Known<Vec<_>>>()?;
                return self.function(domain, own, parts);
            }
            if name == NEGATIVE {
                let other = if op == FoldOp::Max { FoldOp::Min } else { FoldOp::Max };
                let inner = self.folded(domain, other, binders, args[0].clone())?;
                return self.function(domain, NEGATIVE, vec![inner]);
            }
        }
        if some && domain == Domain::Real {
            let (inside, outside): (Vec<_>, Vec<_>) =
                body.0.into_iter().partition(|(monomial, _)| {
                    monomial.keys().any(|&id: &AtomId| self.atom_depends(id, names))
                });
            let inside = Poly(inside.into_iter().collect());
            let atom = self.intern(Atom::Fold(domain, op, binders, inside))?;
            return Poly::atom(atom).add(&Poly(outside.into_iter().collect()));
        }
        Ok(Poly::atom(self.intern(Atom::Fold(domain, op, binders, body))?))
    }
}

/// Whether it is an element of a row in order: one of the elements of the row.
fn is_sorted(op: &FoldOp) -> bool {
    matches!(op, FoldOp::Row(name, _) if name.starts_with("sorted "))
}

/// Whether a row is one that loops of a program go through.
fn is_stepwise(op: &FoldOp) -> bool {
    match op {
        FoldOp::Row(name, _) => {
            name == "rows" || name.starts_with("sum of ") || name.starts_with("product of ")
        }
        _ => false,
    }
}
