//! Equalities as generators of an ideal: a Gröbner basis of bounded size, by which monomials are rewritten.
//!
//! From `n*m == k*l` follows `n*m*h == k*l*h`, and no linear step sees that: each monomial is a column of its own. So every
//! equality that determines no atom becomes a rule from its leading monomial to the rest, in the graded lexicographic order
//! in which a later atom is bigger. Pairs of rules are completed as Buchberger does. Limits keep this small: where one is
//! met, a polynomial stays as it is, and less is decided.

use crate::context::Context;
use crate::engine::Engine;
use crate::polynomial::{AtomId, Mono, Poly, gcd, moderate};
use std::collections::{BTreeMap, BTreeSet};

/// How many rules there may be.
const MAX_RULES: usize = 16;
/// How many atoms a leading monomial may have.
const MAX_LEAD: usize = 8;
/// How big coefficients of rules may be.
const MAX_COEFFICIENT: i128 = 1 << 40;
/// How often a polynomial is rewritten.
const MAX_STEPS: usize = 64;
/// How many multiples of rules a division looks at.
const MAX_MULTIPLES: usize = 24;

/// A polynomial that is 0, and its leading term.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    lead: Mono,
    coefficient: i128,
    poly: Poly,
}

/// A rule's number, and a term that it is multiplied by.
pub(crate) type Part = (usize, Mono, i128);

/// A sum of multiples of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Combination {
    /// The sum.
    pub(crate) poly: Poly,
    /// Its summands.
    pub(crate) parts: Vec<Part>,
}

/// Rules by which polynomials are rewritten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ideal {
    rules: Vec<Rule>,
}

impl Ideal {
    /// Whether nothing is rewritten.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The polynomials that are 0.
    pub(crate) fn polys(&self) -> impl Iterator<Item = &Poly> {
        self.rules.iter().map(|rule| &rule.poly)
    }

    /// Rewrites by `poly == 0` from now on: the number of the rule; `None` beyond the limits.
    pub(crate) fn insert(&mut self, poly: &Poly) -> Option<usize> {
        let (lead, coefficient) = *poly.terms().iter().max_by_key(|term| graded(&term.0))?;
        let small = |term: &(Mono, i128)| term.1.abs() <= MAX_COEFFICIENT;
        let within = self.rules.len() < MAX_RULES && (1..=MAX_LEAD).contains(&lead.degree());
        if !within || !poly.terms().iter().all(small) {
            return None;
        }
        self.rules.push(Rule { lead, coefficient, poly: poly.clone() });
        Some(self.rules.len() - 1)
    }

    /// Forgets the rules that are not wanted; the numbers of the others close up.
    pub(crate) fn retain(&mut self, mut wanted: impl FnMut(&Poly) -> bool) {
        self.rules.retain(|rule| wanted(&rule.poly));
    }

    /// Whether a rule rewrites a term of `poly`.
    pub(crate) fn rewrites(&self, poly: &Poly) -> bool {
        !self.is_empty() && self.exact_step(poly).is_some()
    }

    /// `poly` rewritten until no rule applies, and what was subtracted; `None` beyond the limits.
    pub(crate) fn rewritten(&self, poly: &Poly) -> Option<Combination> {
        let mut poly = poly.clone();
        let mut parts = Vec::new();
        while let Some(part) = self.exact_step(&poly) {
            if parts.len() == MAX_STEPS {
                return None;
            }
            poly = poly.sub(&self.multiple(&part)?)?;
            parts.push(part);
        }
        Some(Combination { poly, parts })
    }

    fn multiple(&self, (rule, mono, coefficient): &Part) -> Option<Poly> {
        self.rules[*rule].poly.times_term(mono, *coefficient)
    }

    /// A rule whose leading term divides a term, number included. Linear equalities are left to the linear step.
    fn exact_step(&self, poly: &Poly) -> Option<Part> {
        poly.varying().iter().find_map(|(mono, value)| {
            self.rules.iter().enumerate().find_map(|(index, rule)| {
                let divides = rule.lead.degree() > 1 && value % rule.coefficient == 0;
                let cofactor = if divides { mono.over(&rule.lead) } else { None }?;
                Some((index, cofactor, value / rule.coefficient))
            })
        })
    }

    /// What two rules say together where their leading terms overlap, rewritten; `None` where that is nothing.
    pub(crate) fn consequence(&self, first: usize, second: usize) -> Option<Combination> {
        let (a, b) = (&self.rules[first], &self.rules[second]);
        let common = a.lead.common(&b.lead);
        if common == Mono::ONE {
            return None;
        }
        let number = gcd(a.coefficient, b.coefficient);
        let left = (first, b.lead.over(&common)?, b.coefficient / number);
        let right = (second, a.lead.over(&common)?, -(a.coefficient / number));
        let poly = self.multiple(&left)?.add(&self.multiple(&right)?)?;
        let (_, sum) = self.remainder(Combination { poly, parts: vec![left, right] })?;
        (!sum.poly.is_zero()).then_some(sum)
    }

    /// `(factor, parts)` where `factor * poly`, with a factor above 0, is the sum of these multiples of rules.
    pub(crate) fn cofactors(&self, poly: &Poly) -> Option<(i128, Vec<Part>)> {
        let (factor, sum) =
            self.remainder(Combination { poly: poly.clone(), parts: Vec::new() })?;
        let negated = |(rule, mono, coefficient): Part| {
            Some((rule, mono, moderate(coefficient.checked_neg()?)?))
        };
        let parts = sum.parts.into_iter().map(negated).collect::<Option<Vec<Part>>>()?;
        sum.poly.is_zero().then_some((factor, parts))
    }

    /// A multiple of the sum, by a number above 0, plus multiples of rules, until none reduces it.
    fn remainder(&self, mut sum: Combination) -> Option<(i128, Combination)> {
        let mut all: i128 = 1;
        for _ in 0..MAX_STEPS {
            let Some((factor, part)) = self.step(&sum.poly) else {
                return Some((all, sum));
            };
            sum.poly = sum.poly.scale(factor)?.add(&self.multiple(&part)?)?;
            for (.., coefficient) in &mut sum.parts {
                *coefficient = moderate(coefficient.checked_mul(factor)?)?;
            }
            sum.parts.push(part);
            all = moderate(all.checked_mul(factor)?)?;
        }
        None
    }

    /// What the polynomial is multiplied by, and what is added to remove its leading term, or another one where the former is 1.
    fn step(&self, poly: &Poly) -> Option<(i128, Part)> {
        let (lead, value) = *poly.terms().iter().max_by_key(|term| graded(&term.0))?;
        let by_lead = self.rules.iter().enumerate().find_map(|(index, rule)| {
            let number = gcd(value, rule.coefficient);
            let factor = rule.coefficient.abs() / number;
            let times = -(value / number) * rule.coefficient.signum();
            Some((factor, (index, lead.over(&rule.lead)?, times)))
        });
        let exact = || self.exact_step(poly).map(|(rule, mono, times)| (1, (rule, mono, -times)));
        by_lead.or_else(exact)
    }

    /// What a product is by each rule that has a part of it, with coefficient 1 or -1.
    pub(crate) fn forms(&self, mono: &Mono) -> Vec<Poly> {
        let mut forms = Vec::new();
        for poly in self.polys() {
            for (part, coefficient) in poly.varying().iter().filter(|term| term.1.abs() == 1) {
                let multiple = mono.over(part).and_then(|by| poly.times_term(&by, -coefficient));
                forms.extend(multiple.and_then(|multiple| multiple.add(&Poly::term(*mono, 1))));
            }
        }
        forms
    }

    /// `(q, r)` where `numerator == q * divisor + r` by the rules, and `r` has fewer terms than `numerator`.
    ///
    /// The order of the rules may lead away from multiples of the divisor, so this is linear algebra: `numerator` is reduced by
    /// those multiples of rules and of the divisor that have one of its monomials, or one of theirs.
    pub(crate) fn divided(&self, numerator: &Poly, divisor: &Poly) -> Option<(Poly, Poly)> {
        let occurring: BTreeSet<_> = self.polys().flat_map(Poly::atoms).collect();
        if !divisor.atoms().iter().any(|id| occurring.contains(id)) {
            return None;
        }
        let mut pivots: BTreeMap<Mono, Residue> = BTreeMap::new();
        for multiple in self.multiples(numerator, divisor) {
            let row = multiple.without(&pivots)?;
            if let Some(&(lead, _)) = row.rest.terms().first() {
                pivots.insert(lead, row);
            }
        }
        let given = Residue { scale: 1, rest: numerator.clone(), quotient: Poly::default() };
        let Residue { scale, rest, quotient } = given.without(&pivots)?;
        let exact = |poly: &Poly| poly.terms().iter().all(|term| term.1 % scale == 0);
        let simpler = rest.terms().len() < numerator.terms().len() && !quotient.is_zero();
        (simpler && exact(&rest) && exact(&quotient))
            .then(|| (quotient.exact_quotient(scale), rest.exact_quotient(scale)))
    }

    /// Multiples of the divisor and of rules, those with monomials of `numerator` first.
    fn multiples(&self, numerator: &Poly, divisor: &Poly) -> Vec<Residue> {
        let mut found = Vec::new();
        let mut taken = BTreeSet::new();
        let mut monos: Vec<Mono> = numerator.varying().iter().map(|term| term.0).collect();
        let mut at = 0;
        while at < monos.len() && found.len() < MAX_MULTIPLES {
            let mono = monos[at];
            at += 1;
            for (index, poly) in std::iter::once(divisor).chain(self.polys()).enumerate() {
                for (part, _) in poly.varying() {
                    let Some(cofactor) = mono.over(part) else { continue };
                    let Some(multiple) = poly.times_term(&cofactor, 1) else { continue };
                    if !taken.insert((index, cofactor)) {
                        continue;
                    }
                    let more = multiple.varying().iter().map(|term| term.0);
                    let more: Vec<Mono> = more.filter(|mono| !monos.contains(mono)).collect();
                    monos.extend(more);
                    // A multiple of the divisor is `quotient * divisor + 0`, so the other side is taken.
                    let times = if index == 0 { -1 } else { 0 };
                    let quotient = Poly::term(cofactor, times);
                    found.push(Residue { scale: 0, rest: multiple, quotient });
                }
            }
        }
        found
    }
}

/// `scale * numerator == rest + quotient * divisor`, for a numerator that the user knows.
#[derive(Clone, Debug)]
struct Residue {
    scale: i128,
    rest: Poly,
    quotient: Poly,
}

impl Residue {
    /// The same without the monomials of the pivots, whose scale is 0; `None` when numbers grow too big.
    fn without(mut self, pivots: &BTreeMap<Mono, Residue>) -> Option<Self> {
        for (mono, pivot) in pivots.iter().rev() {
            let own = self.rest.coefficient(mono);
            if own == 0 {
                continue;
            }
            let other = pivot.rest.leading_coefficient();
            let number = gcd(own, other);
            let (times, by) = (other.abs() / number, -(own / number) * other.signum());
            self.scale = self.scale.checked_mul(times)?;
            self.rest = self.rest.scale(times)?.add_scaled(&pivot.rest, by)?;
            self.quotient = self.quotient.scale(times)?.add_scaled(&pivot.quotient, by)?;
        }
        Some(self)
    }
}

/// What monomials are ordered by: the degree first.
fn graded(mono: &Mono) -> (usize, Mono) {
    (mono.degree(), *mono)
}

impl Engine {
    /// `poly` rewritten by the equalities of the context; as it is where a limit is met.
    pub(crate) fn reduced(&mut self, context: &Context, poly: Poly) -> Option<Poly> {
        if !context.ideal.rewrites(&poly) {
            return Some(poly);
        }
        let rewritten = context.ideal.rewritten(&poly);
        let steps = rewritten.as_ref().map_or(MAX_STEPS, |sum| sum.parts.len());
        self.spend(steps * poly.terms().len())?;
        Some(rewritten.map_or(poly, |sum| sum.poly))
    }

    /// Rewrites by `poly == 0` from now on, with what follows from it and the other equalities.
    pub(crate) fn extend_ideal(&mut self, context: &mut Context, poly: &Poly, depth: u32) {
        let Some(new) = context.ideal.insert(poly) else { return };
        for other in 0..new {
            if self.spend(10).is_none() {
                return;
            }
            let Some(found) = context.ideal.consequence(other, new) else { continue };
            if self.spend(found.parts.len() * 4).is_none() {
                return;
            }
            let before = context.solved.len();
            self.add_zero(context, found.poly, depth.saturating_sub(1));
            // An atom that is determined rewrites all facts, these too.
            if context.solved.len() != before || context.contradiction {
                return;
            }
        }
        self.rewrite_facts(context, depth);
    }

    /// Rewrites all facts but the equalities.
    fn rewrite_facts(&mut self, context: &mut Context, depth: u32) {
        let depth = depth.saturating_sub(1);
        let before = context.clone();
        for (&id, value) in &before.solved {
            if let Some(new) = self.rebuild(context, value) {
                context.solved.insert(id, new);
            }
        }
        let outdated = |poly: &&Poly| self.is_outdated(&before, poly);
        let inequalities: Vec<&Poly> = before.at_least_zero.iter().filter(outdated).collect();
        let unequal: Vec<&Poly> = before.nonzero.iter().filter(outdated).collect();
        let atoms: Vec<AtomId> =
            before.bounds.keys().chain(before.solved.keys()).copied().collect();
        let atoms: Vec<AtomId> =
            atoms.into_iter().filter(|&id| self.is_atom_outdated(&before, id)).collect();
        context.at_least_zero.retain(|poly| !inequalities.contains(&poly));
        context.nonzero.retain(|poly| !unequal.contains(&poly));
        for poly in inequalities {
            let poly = self.rebuild(context, poly).unwrap_or_else(|| poly.clone());
            self.add_at_least_zero(context, poly, depth);
        }
        for poly in unequal {
            let poly = self.rebuild(context, poly).unwrap_or_else(|| poly.clone());
            self.add_nonzero(context, poly);
        }
        self.rebuild_bounds(context, &before.bounds, &atoms, depth);
        self.rebuild_solved(context, &atoms, depth);
    }
}
