//! What is known in a branch of a certificate: facts by their polynomials, and equations used from
//! left to right.

use super::lines::{Fact, Id, Multiples, Relation, Step};
use super::prove::Author;
use crate::atoms::Atom;
use crate::context::{Context, tightened};
use crate::ideal::{Combination, Part};
use crate::polynomial::{AtomId, Mono, Poly};
use std::collections::BTreeMap;

/// How often a polynomial is rewritten before that is given up.
const MAX_REWRITES: usize = 200;

/// The facts of a branch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Branch {
    pub(crate) at_least_zero: BTreeMap<Poly, Id>,
    pub(crate) zero: BTreeMap<Poly, Id>,
    pub(crate) nonzero: BTreeMap<Poly, Id>,
    /// The facts behind the rules of the context's ideal, in their order.
    rules: Vec<Id>,
    /// What an atom is, and the fact that this less the atom is 0.
    rewrites: BTreeMap<AtomId, (Poly, Id)>,
    /// The same facts, as the engine reads them.
    pub(crate) context: Context,
    /// A fact that cannot be.
    pub(crate) absurd: Option<Id>,
}

impl Author<'_> {
    /// The polynomial with all rewritten atoms replaced, reduced by the equalities, and what was added to get there.
    pub(crate) fn normal(&self, poly: &Poly) -> Option<(Poly, Multiples)> {
        let mut poly = poly.clone();
        let mut added: BTreeMap<Id, Poly> = BTreeMap::new();
        for _ in 0..MAX_REWRITES {
            let Some((id, mono, coefficient)) = self.rewritable(&poly) else {
                let Combination { poly, parts } = self.branch.context.ideal.rewritten(&poly)?;
                for (id, factor) in self.multiples(parts)? {
                    let sum = added.remove(&id).unwrap_or_default().sub(&factor)?;
                    added.insert(id, sum);
                }
                return Some((poly, added.into_iter().collect()));
            };
            let (value, equation) = &self.branch.rewrites[&id];
            let rest = mono.over(&Mono::atom(id))?;
            let factor = Poly::term(rest, coefficient);
            let difference = value.sub(&Poly::atom(id))?;
            poly = poly.add(&difference.mul(&factor)?)?;
            let sum = added.remove(equation).unwrap_or_default().add(&factor)?;
            added.insert(*equation, sum);
        }
        None
    }

    /// Multiples of rules as multiples of the facts behind them.
    fn multiples(&self, parts: Vec<Part>) -> Option<Multiples> {
        let mut of: BTreeMap<Id, Poly> = BTreeMap::new();
        for (rule, mono, coefficient) in parts {
            let id = self.branch.rules[rule];
            let sum = of.remove(&id).unwrap_or_default();
            of.insert(id, sum.add(&Poly::term(mono, coefficient))?);
        }
        Some(of.into_iter().collect())
    }

    /// `poly == 0` because a multiple of it is a sum of multiples of equalities.
    pub(crate) fn zero_by_equalities(&mut self, poly: &Poly) -> Option<Id> {
        let (factor, parts) = self.branch.context.ideal.cofactors(poly)?;
        let step = Step::Equation(self.multiples(parts)?);
        let id = self.derive(step, poly.scale(factor)?, Relation::Equal);
        if factor == 1 {
            return Some(id);
        }
        Some(self.derive(Step::Divide(id, factor), poly.clone(), Relation::Equal))
    }

    fn rewritable(&self, poly: &Poly) -> Option<(AtomId, Mono, i128)> {
        poly.varying().iter().find_map(|(mono, coefficient)| {
            let ids = mono.atoms().iter();
            let id = ids.copied().find(|id| self.branch.rewrites.contains_key(id))?;
            Some((id, *mono, *coefficient))
        })
    }

    /// Takes a fact into the branch.
    pub(crate) fn learn(&mut self, id: Id, fact: &Fact) {
        match fact.relation {
            Relation::AtLeast => self.learn_at_least_zero(id, &fact.poly),
            Relation::Equal => self.learn_zero(id, &fact.poly),
            Relation::NotEqual => self.learn_nonzero(id, &fact.poly),
        }
    }

    fn learn_at_least_zero(&mut self, id: Id, poly: &Poly) {
        if let Some(value) = poly.as_constant() {
            if value < 0 {
                self.branch.absurd.get_or_insert(id);
            }
            return;
        }
        if self.branch.at_least_zero.contains_key(poly) {
            return;
        }
        self.branch.at_least_zero.insert(poly.clone(), id);
        let content = poly.content();
        if content > 1 {
            if let Some(tight) = tightened(poly, content) {
                self.derive(Step::Divide(id, content), tight, Relation::AtLeast);
            }
            return;
        }
        if !self.learn_normal(id, poly, Relation::AtLeast) {
            self.narrow(poly);
        }
    }

    /// The context has bounds of atoms apart from other inequalities.
    fn narrow(&mut self, poly: &Poly) {
        let context = &mut self.branch.context;
        let single = match poly.varying() {
            [(mono, coefficient)] => mono.as_atom().map(|id| (id, *coefficient)),
            _ => None,
        };
        let Some((id, sign)) = single else {
            context.at_least_zero.push(poly.clone());
            return;
        };
        let bounds = context.bounds.entry(id).or_default();
        if sign > 0 {
            bounds.low = bounds.low.max(poly.constant_term().checked_neg());
        } else {
            let high = poly.constant_term();
            bounds.high = Some(bounds.high.map_or(high, |old| old.min(high)));
        }
    }

    fn learn_zero(&mut self, id: Id, poly: &Poly) {
        let content = poly.content();
        let constant = poly.constant_term();
        if content == 0 || constant % content != 0 {
            if constant != 0 {
                self.branch.absurd.get_or_insert(id);
            }
            return;
        }
        if self.branch.zero.contains_key(poly) {
            return;
        }
        self.branch.zero.insert(poly.clone(), id);
        if content > 1 {
            self.derive(Step::Divide(id, content), poly.exact_quotient(content), Relation::Equal);
            return;
        }
        if !self.learn_normal(id, poly, Relation::Equal) {
            self.branch.context.zero.push(poly.clone());
            if !self.engine.determines(poly) {
                self.extend_ideal(id, poly);
            }
        }
    }

    /// Rewrites by an equality that determines no atom, and derives what follows from it and the others before it.
    fn extend_ideal(&mut self, id: Id, poly: &Poly) -> Option<()> {
        let new = self.branch.context.ideal.insert(poly)?;
        self.branch.rules.push(id);
        for other in 0..new {
            // What was derived may rewrite the rules themselves.
            if self.branch.rules.get(new) != Some(&id) {
                return None;
            }
            let Some(found) = self.branch.context.ideal.consequence(other, new) else { continue };
            let step = Step::Equation(self.multiples(found.parts)?);
            self.derive(step, found.poly, Relation::Equal);
        }
        let context = &mut self.branch.context;
        let ideal = context.ideal.clone();
        context.at_least_zero.retain(|poly| !ideal.rewrites(poly));
        self.learn_rewritten(|poly| ideal.rewrites(poly));
        Some(())
    }

    fn learn_nonzero(&mut self, id: Id, poly: &Poly) {
        if poly.is_zero() {
            self.branch.absurd.get_or_insert(id);
        }
        if poly.as_constant().is_some() || self.branch.nonzero.contains_key(poly) {
            return;
        }
        self.branch.nonzero.insert(poly.clone(), id);
        // Divisors are looked up as they are.
        self.branch.context.nonzero.push(poly.clone());
        self.learn_normal(id, poly, Relation::NotEqual);
    }

    /// Derives the same fact with all rewritten atoms replaced; false where there are none.
    fn learn_normal(&mut self, id: Id, poly: &Poly, relation: Relation) -> bool {
        match self.normal(poly) {
            Some((normal, with)) if !with.is_empty() => {
                self.derive(Step::Rewrite(id, with), normal, relation);
                true
            }
            _ => false,
        }
    }

    /// Uses the equation `value - atom == 0` from now on, in what is known too.
    pub(crate) fn rewrite(&mut self, atom: AtomId, value: Poly, equation: Id) {
        if value.atoms().contains(&atom) || self.branch.rewrites.contains_key(&atom) {
            return;
        }
        self.branch.rewrites.insert(atom, (value, equation));
        let touched = |poly: &Poly| poly.atoms().contains(&atom);
        let context = &mut self.branch.context;
        context.at_least_zero.retain(|poly| !touched(poly));
        context.zero.retain(|poly| !touched(poly));
        let mut kept = context.ideal.polys().map(|poly| !touched(poly));
        self.branch.rules.retain(|_| kept.next() == Some(true));
        drop(kept);
        context.ideal.retain(|poly| !touched(poly));
        let equations =
            self.branch.zero.iter().filter(|(poly, id)| touched(poly) && **id != equation);
        let equations: Vec<(Poly, Id)> = equations.map(|(poly, id)| (poly.clone(), *id)).collect();
        self.learn_rewritten(touched);
        for (poly, id) in equations {
            self.learn_normal(id, &poly, Relation::Equal);
        }
    }

    /// Derives the normal form of what is at least 0 or not 0 and was rewritten.
    fn learn_rewritten(&mut self, touched: impl Fn(&Poly) -> bool) {
        let lists = [
            (Relation::AtLeast, &self.branch.at_least_zero),
            (Relation::NotEqual, &self.branch.nonzero),
        ];
        let mut old = Vec::new();
        for (relation, facts) in lists {
            let facts = facts.iter().filter(|(poly, _)| touched(poly));
            old.extend(facts.map(|(poly, id)| (relation, poly.clone(), *id)));
        }
        // What came first has the shorter proof.
        old.sort_by_key(|fact| fact.2);
        for (relation, poly, id) in old {
            self.learn_normal(id, &poly, relation);
        }
    }

    /// The polynomial over atoms that have a text of their own: a quotient that the engine treats
    /// as a variable is the quotient itself.
    pub(crate) fn translated(&mut self, poly: &Poly) -> Option<Poly> {
        let mut sum = Poly::default();
        for (mono, coefficient) in poly.terms() {
            let mut product = Poly::constant(*coefficient);
            for &id in mono.atoms() {
                product = product.mul(&Poly::atom(self.translated_atom(id)?))?;
            }
            sum = sum.add(&product)?;
        }
        Some(sum)
    }

    /// The same for an atom.
    pub(crate) fn translated_atom(&mut self, id: AtomId) -> Option<AtomId> {
        if let Some(known) = self.translations.get(&id) {
            return Some(*known);
        }
        let atom = self.engine.atoms.at(id).clone();
        let own = self.translated_operation(atom)?;
        self.translations.insert(id, own);
        Some(own)
    }

    /// The same for an operation.
    pub(crate) fn translated_operation(&mut self, atom: Atom) -> Option<AtomId> {
        let atom = match atom {
            Atom::Var(_) => atom,
            Atom::Div(numerator, divisor) | Atom::Quotient { numerator, divisor, .. } => {
                Atom::Div(self.translated(&numerator)?, self.translated(&divisor)?)
            }
            Atom::Min(args) => Atom::Min(self.all_translated(&args)?),
            Atom::Max(args) => Atom::Max(self.all_translated(&args)?),
        };
        self.engine.atoms.intern(atom)
    }

    /// The same for a list.
    pub(crate) fn all_translated(&mut self, polys: &[Poly]) -> Option<Vec<Poly>> {
        polys.iter().map(|poly| self.translated(poly)).collect()
    }
}
