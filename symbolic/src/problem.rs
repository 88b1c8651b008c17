//! The linear system behind a question: the facts that concern it, what defines its quotients and
//! `min`/`max`, and products of known inequalities, with every monomial as a column.

use crate::atoms::Atom;
use crate::context::Context;
use crate::engine::Engine;
use crate::intervals::Interval;
use crate::journal::Event;
use crate::linear::{Refutation, Row, System};
use crate::polynomial::{AtomId, Mono, Poly};
use crate::thorough::Reach;
use std::collections::{BTreeMap, BTreeSet};

/// How many inequalities a system may start with.
const MAX_ROWS: usize = 80;
/// Steps of the linear solver before products are added.
const LINEAR_FUEL: u32 = 300;
/// How many multiples of equations a system may get.
const MAX_MULTIPLES: usize = 24;
/// How much bigger products of equations may be than those that are asked about.
const MORE_DEGREE: usize = 2;
/// How often facts may bring in further facts.
const MAX_ROUNDS: usize = 4;

/// Why a row of a problem holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It was asked about, or it is a fact of the context.
    Given,
    /// What an atom is: the part of its definition.
    Definition(AtomId, usize),
    /// A bound of a product of atoms.
    ProductBound,
    /// The product of two polynomials that bounds show to be at least 0.
    Product(Box<(Poly, Poly)>),
    /// A row times a polynomial that bounds show to be at least 0.
    Multiple(usize, Box<Poly>),
    /// `m * p >= c` with this `m >= 1` means `p >= 1` for `c >= 1`, and `p >= c` else; the row with `m` is given.
    WithoutFactor(Box<(Poly, Poly)>),
    /// The product of two rows.
    RowProduct(usize, usize),
    /// The square of a polynomial.
    Square(Box<Poly>),
}

/// Polynomials that are at least 0, with reasons, or 0, which are all given; without solution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Infeasibility {
    pub(crate) zero: Vec<Poly>,
    pub(crate) at_least_zero: Vec<(Poly, Reason)>,
    pub(crate) refutation: Refutation,
}

/// Polynomials that are 0, or at least 0, and the atoms they are about.
#[derive(Default)]
pub(crate) struct Problem {
    pub(crate) zero: Vec<Poly>,
    pub(crate) at_least_zero: Vec<(Poly, Reason)>,
    /// How many inequalities were asked about.
    pub(crate) asked: usize,
    /// The same, to find repetitions.
    seen: BTreeSet<Poly>,
    atoms: BTreeSet<AtomId>,
    fresh: Vec<AtomId>,
}

impl Problem {
    pub(crate) fn add(&mut self, poly: Poly, reason: Reason) {
        if poly.as_constant().is_some_and(|value| value >= 0)
            || self.at_least_zero.len() >= MAX_ROWS
        {
            return;
        }
        if self.seen.insert(poly.clone()) {
            self.note_atoms(&poly);
            self.at_least_zero.push((poly, reason));
        }
    }

    pub(crate) fn add_equation(&mut self, poly: Poly) {
        if self.zero.len() < MAX_ROWS && !self.zero.contains(&poly) {
            self.note_atoms(&poly);
            self.zero.push(poly);
        }
    }

    fn note_atoms(&mut self, poly: &Poly) {
        for id in poly.atoms() {
            if self.atoms.insert(id) {
                self.fresh.push(id);
            }
        }
    }

    fn concerns(&self, poly: &Poly) -> bool {
        let mut ids = poly.terms().iter().flat_map(|(mono, _)| mono.atoms());
        ids.any(|id| self.atoms.contains(id))
    }

    pub(crate) fn without_solution(self, refutation: Refutation) -> Infeasibility {
        let Problem { zero, at_least_zero, .. } = self;
        Infeasibility { zero, at_least_zero, refutation }
    }

    pub(crate) fn monos(&self) -> BTreeSet<Mono> {
        let polys = self.zero.iter().chain(self.at_least_zero.iter().map(|row| &row.0));
        polys.flat_map(|poly| poly.varying().iter().map(|term| term.0)).collect()
    }
}

impl Engine {
    /// Whether linear reasoning alone shows `poly >= 0`.
    pub(crate) fn linearly_at_least_zero(&mut self, context: &Context, poly: &Poly) -> bool {
        if self.bounds(context).of(poly).low.is_some_and(|low| low >= 0) {
            return true;
        }
        let Some(negation) = poly.subtracted_from(-1) else {
            return false;
        };
        if context.contradiction {
            return true;
        }
        self.remembered(&context.stamp, poly, |engine| {
            let Some(rows) = engine.infeasibility(context, &[negation], &[]) else {
                return false;
            };
            engine.note(|| Event::Follows(poly.clone(), Box::new(rows)));
            true
        })
    }

    /// Whether linear reasoning alone shows that the facts exclude that all of `at_least_zero` are
    /// at least 0 and all of `zero` are 0.
    pub(crate) fn is_infeasible(
        &mut self,
        context: &Context,
        at_least_zero: &[Poly],
        zero: &[Poly],
    ) -> bool {
        context.contradiction || self.infeasibility(context, at_least_zero, zero).is_some()
    }

    /// The same, with the rows that show it.
    pub(crate) fn infeasibility(
        &mut self,
        context: &Context,
        at_least_zero: &[Poly],
        zero: &[Poly],
    ) -> Option<Infeasibility> {
        let mut problem = Problem::default();
        at_least_zero.iter().for_each(|poly| problem.add(poly.clone(), Reason::Given));
        zero.iter().for_each(|poly| problem.add_equation(poly.clone()));
        problem.asked = problem.at_least_zero.len();
        for poly in at_least_zero {
            if let Some((divided, factor)) = self.without_positive_factor(context, poly) {
                let reason = Reason::WithoutFactor(Box::new((poly.clone(), factor)));
                problem.add(divided, reason);
            }
        }
        if problem.atoms.is_empty() {
            // Nothing to start from: the facts themselves may be impossible.
            let facts = context.at_least_zero.iter();
            facts.for_each(|poly| problem.add(poly.clone(), Reason::Given));
            context.zero.iter().for_each(|poly| problem.add_equation(poly.clone()));
        }
        self.gather(context, &mut problem);
        self.spend(problem.at_least_zero.len() * 4)?;
        let nonlinear = problem.monos().iter().any(|mono| mono.degree() > 1);
        // Products make a system much bigger, and often nothing depends on them.
        if nonlinear && let Some(refutation) = self.linear_refutation(&problem, LINEAR_FUEL) {
            return Some(problem.without_solution(refutation));
        }
        self.add_products(context, &mut problem);
        if let Some(refutation) = self.linear_refutation(&problem, self.fuel) {
            return Some(problem.without_solution(refutation));
        }
        if nonlinear
            && self.add_equations(context, &mut problem)
            && let Some(refutation) = self.linear_refutation(&problem, self.fuel)
        {
            return Some(problem.without_solution(refutation));
        }
        if self.reach == Reach::Near { None } else { self.far_infeasibility(context, problem) }
    }

    pub(crate) fn linear_refutation(&mut self, problem: &Problem, most: u32) -> Option<Refutation> {
        let rows = problem.at_least_zero.iter().map(|row| &row.0);
        let given = self.fuel.min(most);
        let mut fuel = given;
        let refutation = linear_system(&problem.zero, rows).refuted(&mut fuel);
        self.fuel -= given - fuel;
        refutation
    }

    /// Adds definitions of atoms, their bounds, and facts that share an atom, until all is there.
    pub(crate) fn gather(&mut self, context: &Context, problem: &mut Problem) {
        for _ in 0..MAX_ROUNDS {
            while let Some(id) = problem.fresh.pop() {
                for (part, poly) in self.definition(context, id).into_iter().enumerate() {
                    problem.add(poly, Reason::Definition(id, part));
                }
                let bounds = context.bounds.get(&id).copied().unwrap_or_default();
                for poly in distances(id, bounds) {
                    problem.add(poly, Reason::Given);
                }
            }
            for poly in &context.zero {
                if problem.concerns(poly) {
                    problem.add_equation(poly.clone());
                }
            }
            for poly in &context.at_least_zero {
                if problem.concerns(poly) {
                    problem.add(poly.clone(), Reason::Given);
                }
            }
            if problem.fresh.is_empty() {
                break;
            }
        }
    }

    /// Polynomials that are at least 0 because of what an atom is.
    pub(crate) fn definition(&self, context: &Context, id: AtomId) -> Vec<Poly> {
        let own = Poly::atom(id);
        match self.atoms.at(id) {
            Atom::Var(_) | Atom::Quotient { .. } => Vec::new(),
            Atom::Div(numerator, divisor) => {
                self.remainder_bounds(context, &own, numerator, divisor).unwrap_or_default()
            }
            Atom::Min(args) => all(args.iter().map(|arg| arg.sub(&own))),
            Atom::Max(args) => all(args.iter().map(|arg| own.sub(arg))),
        }
    }

    /// `0 <= numerator - divisor * quotient < divisor`, turned around for a negative divisor;
    /// nothing where its sign is not known.
    fn remainder_bounds(
        &self,
        context: &Context,
        quotient: &Poly,
        numerator: &Poly,
        divisor: &Poly,
    ) -> Option<Vec<Poly>> {
        let remainder = numerator.sub(&divisor.mul(quotient)?)?;
        let sign = self.bounds(context).of(divisor);
        if sign.low.is_some_and(|low| low > 0) {
            let room = divisor.sub(&remainder)?.plus(-1)?;
            Some(vec![remainder, room])
        } else if sign.high.is_some_and(|high| high < 0) {
            let room = remainder.sub(divisor)?.plus(-1)?;
            Some(vec![remainder.scale(-1)?, room])
        } else {
            None
        }
    }

    /// Adds multiples of equations that have monomials of the problem, or of such multiples; false where there are none.
    fn add_equations(&mut self, context: &Context, problem: &mut Problem) -> bool {
        let mut monos = Vec::new();
        let rows = problem.at_least_zero.iter().map(|row| &row.0);
        for (mono, _) in rows.chain(&problem.zero).flat_map(Poly::varying) {
            if mono.degree() > 1 && !monos.contains(mono) {
                monos.push(*mono);
            }
        }
        let top = monos.iter().map(Mono::degree).max().unwrap_or(0) + MORE_DEGREE;
        let (count, most) = (problem.zero.len(), problem.zero.len() + MAX_MULTIPLES);
        let mut at = 0;
        while at < monos.len() && problem.zero.len() < most {
            let mono = monos[at];
            at += 1;
            for poly in context.zero.iter().chain(context.ideal.polys()) {
                for (part, _) in poly.varying() {
                    let Some(cofactor) = mono.over(part) else { continue };
                    let Some(multiple) = poly.times_term(&cofactor, 1) else { continue };
                    let degrees = multiple.varying().iter().map(|term| term.0.degree());
                    if self.spend(1).is_none() || degrees.max() > Some(top) {
                        continue;
                    }
                    for (mono, _) in multiple.varying() {
                        if !monos.contains(mono) {
                            monos.push(*mono);
                        }
                    }
                    problem.add_equation(multiple);
                }
            }
        }
        problem.zero.len() > count
    }

    /// Adds bounds of nonlinear monomials, and inequalities multiplied by what is at least 0, where
    /// that produces monomials of the problem.
    fn add_products(&mut self, context: &Context, problem: &mut Problem) {
        let mut monos = problem.monos();
        if monos.iter().all(|mono| mono.degree() < 2) {
            return;
        }
        let top = monos.iter().map(Mono::degree).max().unwrap_or(0);
        let mut bounded = BTreeSet::new();
        let mut multiplied: BTreeSet<(usize, Mono)> = BTreeSet::new();
        for _ in 0..3 {
            let nonlinear: Vec<Mono> =
                monos.iter().rev().filter(|mono| mono.degree() > 1).copied().collect();
            for mono in &nonlinear {
                if bounded.insert(*mono) {
                    self.add_mono_bounds(context, problem, mono);
                    self.add_products_of_bounds(context, problem, mono);
                }
            }
            let count = problem.at_least_zero.len();
            for index in 0..count {
                for mono in &nonlinear {
                    let row = problem.at_least_zero[index].0.clone();
                    for (part, _) in row.varying() {
                        let Some(cofactor) = mono.over(part).filter(|c| *c != Mono::ONE) else {
                            continue;
                        };
                        if self.spend(1).is_none() {
                            return;
                        }
                        // No bigger products than those that are asked about.
                        let degree = row.terms().iter().map(|term| term.0.degree()).max();
                        if degree.unwrap_or(0) + cofactor.degree() <= top
                            && multiplied.insert((index, cofactor))
                        {
                            self.add_multiple(context, problem, index, &cofactor);
                        }
                    }
                }
            }
            self.gather(context, problem);
            let grown = problem.monos();
            if grown == monos && problem.at_least_zero.len() == count {
                return;
            }
            monos = grown;
        }
    }

    fn add_mono_bounds(&self, context: &Context, problem: &mut Problem, mono: &Mono) {
        let bounds = self.product_bounds(context, mono);
        let own = Poly::term(*mono, 1);
        let below = bounds.low.and_then(|low| own.plus(-low));
        let above = bounds.high.and_then(|high| own.subtracted_from(high));
        for poly in below.into_iter().chain(above) {
            problem.add(poly, Reason::ProductBound);
        }
    }

    /// Bounds of a product; by what equalities say of it only where it is not rewritten: the rows are about what it is
    /// rewritten to.
    fn product_bounds(&self, context: &Context, mono: &Mono) -> Interval {
        let own = Poly::term(*mono, 1);
        let bounds = self.bounds(context);
        if context.ideal.rewrites(&own) { bounds.of_mono(mono) } else { bounds.of(&own) }
    }

    /// `(a - low) * (b - low) >= 0` and its like for the other ends.
    fn add_products_of_bounds(&self, context: &Context, problem: &mut Problem, mono: &Mono) {
        let &[a, b] = mono.atoms() else { return };
        let bounds = self.bounds(context);
        for first in distances(a, bounds.of_atom(a)) {
            for second in distances(b, bounds.of_atom(b)) {
                if let Some(product) = first.mul(&second) {
                    problem.add(product, Reason::Product(Box::new((first.clone(), second))));
                }
            }
        }
    }

    /// Adds a row times a product of atoms of known sign.
    fn add_multiple(&self, context: &Context, problem: &mut Problem, row: usize, by: &Mono) {
        let sign = self.product_bounds(context, by);
        let factor = match (by.as_atom(), sign) {
            // The distance to a bound is the stronger factor.
            (Some(id), Interval { low: Some(low), .. }) if low >= 0 => Poly::atom(id).plus(-low),
            (_, Interval { low: Some(low), .. }) if low >= 0 => Some(Poly::term(*by, 1)),
            (_, Interval { high: Some(high), .. }) if high <= 0 => Some(Poly::term(*by, -1)),
            _ => None,
        };
        let Some(factor) = factor else { return };
        if let Some(product) = problem.at_least_zero[row].0.mul(&factor) {
            problem.add(product, Reason::Multiple(row, Box::new(factor)));
        }
    }

    /// `m * p >= 1` with `m >= 1` means `p >= 1`: what that says, and `m`.
    fn without_positive_factor(&self, context: &Context, poly: &Poly) -> Option<(Poly, Poly)> {
        let constant = poly.constant_term();
        let varying = poly.plus(constant.checked_neg()?)?;
        let factor = varying.common_mono();
        let low = self.bounds(context).of_mono(&factor).low?;
        if constant >= 0 || low < 1 || factor == Mono::ONE {
            return None;
        }
        Some((varying.over_mono(&factor)?.plus(-1)?, Poly::term(factor, 1)))
    }
}

/// The list, if nothing in it is missing: parts of definitions are known by their place.
fn all(polys: impl Iterator<Item = Option<Poly>>) -> Vec<Poly> {
    polys.collect::<Option<Vec<_>>>().unwrap_or_default()
}

/// How far an atom is above its least and below its greatest value.
pub(crate) fn distances(id: AtomId, bounds: Interval) -> Vec<Poly> {
    let below = bounds.low.and_then(|low| Poly::atom(id).plus(low.checked_neg()?));
    let above = bounds.high.and_then(|high| Poly::atom(id).subtracted_from(high));
    below.into_iter().chain(above).collect()
}

/// The system with every monomial as a column.
pub(crate) fn linear_system<'p>(
    zero: &[Poly],
    at_least_zero: impl Iterator<Item = &'p Poly>,
) -> System {
    let mut columns: BTreeMap<Mono, u32> = BTreeMap::new();
    let mut row = |poly: &Poly| {
        let mut terms: Vec<(u32, i128)> = Vec::with_capacity(poly.terms().len());
        for (mono, value) in poly.varying() {
            let next = u32::try_from(columns.len()).unwrap_or(u32::MAX);
            terms.push((*columns.entry(*mono).or_insert(next), *value));
        }
        terms.sort_unstable_by_key(|term| term.0);
        Row::new(terms, poly.constant_term())
    };
    let zero = zero.iter().map(&mut row).collect();
    System::new(zero, at_least_zero.map(row).collect())
}
