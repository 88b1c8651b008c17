//! Proofs by the arguments of `min` and `max`: in a fact `p >= 0` a `max` with a negative factor is replaced by one of its arguments,
//! and so is a `min` with a positive one, which makes `p` no less; others have a case for each argument. Where bounds of products
//! then show that `p` is below 0, the branch is absurd. This is what sizes of storages need, which are `max` of sums of `min`: the
//! engine's canonical forms of such terms take long proofs.

use super::lines::{Case, End, Fact, Id, Relation, Step};
use super::prove::Author;
use crate::atoms::Atom;
use crate::polynomial::{AtomId, Mono, Poly};

/// Replacements on a path.
const DEPTH: u32 = 8;
/// Polynomials that are looked at in a branch.
const TRIES: u32 = 400;

/// A proof that a polynomial is not at least 0.
enum Plan {
    /// The bound of each of its terms that holds before it is known that the polynomial is at least 0.
    Bounds(Vec<i128>),
    /// The polynomial plus this multiple of the part of the definition of an atom.
    Replace { atom: AtomId, part: usize, definition: Poly, by: (Mono, i128), then: Box<Plan> },
    /// A plan for each argument that the atom may be, with the atom's factor.
    Choose { atom: AtomId, args: Vec<Poly>, factor: Poly, cases: Vec<Plan> },
}

/// Where an atom that is a `min` or a `max` stands in a polynomial.
struct Place {
    atom: AtomId,
    args: Vec<Poly>,
    /// The definition of a part is `atom - argument` for a `max`, the opposite for a `min`.
    is_max: bool,
    cofactor: Mono,
    coefficient: i128,
}

impl Author<'_> {
    /// Why the facts of this branch are absurd, if one of them is by its `min` and `max`.
    pub(crate) fn absurd_by_arguments(&mut self) -> Option<End> {
        let mut facts: Vec<(Poly, Id)> =
            self.branch.at_least_zero.iter().map(|(poly, id)| (poly.clone(), *id)).collect();
        // What is to be refuted came last.
        facts.sort_by_key(|fact| std::cmp::Reverse(fact.1));
        let given = self.fuel.min(TRIES);
        let mut tries = given;
        let found = facts.into_iter().find_map(|(poly, id)| {
            self.plan(&poly, DEPTH, &mut tries).map(|plan| (poly, id, plan))
        });
        self.fuel -= given - tries;
        let (poly, id, plan) = found?;
        self.carry_out(&poly, id, &plan)
    }

    fn plan(&self, poly: &Poly, depth: u32, tries: &mut u32) -> Option<Plan> {
        if let Some(ends) = self.ends_below_zero(poly) {
            return Some(Plan::Bounds(ends));
        }
        let bounds = self.engine.bounds(&self.branch.context);
        *tries = tries.checked_sub(1)?;
        let depth = depth.checked_sub(1)?;
        let places = self.places(poly);
        let helpful = |place: &&Place| {
            bounds.of_mono(&place.cofactor).low.is_some_and(|low| low >= 0)
                && (place.coefficient < 0) == place.is_max
        };
        for place in places.iter().filter(helpful) {
            let own = Poly::atom(place.atom);
            for (part, arg) in place.args.iter().enumerate() {
                let definition = if place.is_max { own.sub(arg)? } else { arg.sub(&own)? };
                let factor = place.coefficient.checked_abs()?;
                let next = poly.add(&definition.times_term(&place.cofactor, factor)?)?;
                if let Some(then) = self.plan(&next, depth, tries) {
                    let (atom, by, then) = (place.atom, (place.cofactor, factor), Box::new(then));
                    return Some(Plan::Replace { atom, part, definition, by, then });
                }
            }
        }
        let place = places.iter().find(|place| !helpful(place))?;
        let factor = factor_of(poly, place.atom)?;
        let cases = place.args.iter().map(|arg| {
            let next = poly.add(&arg.sub(&Poly::atom(place.atom))?.mul(&factor)?)?;
            self.plan(&next, depth, tries)
        });
        let cases = cases.collect::<Option<Vec<Plan>>>()?;
        Some(Plan::Choose { atom: place.atom, args: place.args.clone(), factor, cases })
    }

    fn places(&self, poly: &Poly) -> Vec<Place> {
        let mut found = Vec::new();
        for (mono, coefficient) in poly.varying() {
            for &atom in mono.atoms() {
                let (args, is_max) = match self.engine.atoms.at(atom) {
                    Atom::Max(args) => (args.clone(), true),
                    Atom::Min(args) => (args.clone(), false),
                    Atom::Var(_) | Atom::Div(..) | Atom::Quotient { .. } => continue,
                };
                let Some(cofactor) = mono.over(&Mono::atom(atom)) else { continue };
                found.push(Place { atom, args, is_max, cofactor, coefficient: *coefficient });
            }
        }
        found
    }

    /// The bound of each monomial, where the greatest values of all terms have a sum below 0.
    fn ends_below_zero(&self, poly: &Poly) -> Option<Vec<i128>> {
        let (mut ends, mut sum) = (Vec::new(), poly.constant_term());
        for (mono, coefficient) in poly.varying() {
            let bounds = self.engine.bounds(&self.branch.context).of_mono(mono);
            let end = if *coefficient < 0 { bounds.low } else { bounds.high }?;
            sum = sum.checked_add(end.checked_mul(*coefficient)?)?;
            ends.push(end);
        }
        (sum < 0).then_some(ends)
    }

    /// Writes down what a plan says of a fact.
    fn carry_out(&mut self, poly: &Poly, id: Id, plan: &Plan) -> Option<End> {
        match plan {
            Plan::Bounds(ends) => {
                let mut from = vec![(id, Poly::constant(1))];
                let mut sum = poly.clone();
                for ((mono, coefficient), end) in poly.varying().iter().zip(ends) {
                    // mono - low >= 0 or high - mono >= 0, so often.
                    let sign = -coefficient.signum();
                    let distance = Poly::term(*mono, sign).plus(end.checked_mul(-sign)?)?;
                    let known = self.at_least_zero(&distance)?;
                    let times = coefficient.checked_abs()?;
                    sum = sum.add_scaled(&distance, times)?;
                    from.push((known, Poly::constant(times)));
                }
                Some(End::Closed(self.derive(Step::Lin(from, 0), sum, Relation::AtLeast)))
            }
            Plan::Replace { atom, part, definition, by: (cofactor, factor), then } => {
                let mut known = self.definition(*atom, *part, definition)?;
                let mut added = definition.clone();
                if *cofactor != Mono::ONE {
                    let sign = self.at_least_zero(&Poly::term(*cofactor, 1))?;
                    added = definition.times_term(cofactor, 1)?;
                    known = self.derive(Step::Times(known, sign), added.clone(), Relation::AtLeast);
                }
                let next = poly.add_scaled(&added, *factor)?;
                let from = vec![(id, Poly::constant(1)), (known, Poly::constant(*factor))];
                let id = self.derive(Step::Lin(from, 0), next.clone(), Relation::AtLeast);
                self.closed_or(&next, id, then)
            }
            Plan::Choose { atom, args, factor, cases } => {
                let cases = args.iter().zip(cases).map(|(arg, plan)| {
                    let poly_of = Poly::atom(*atom).sub(arg)?;
                    let next = poly.sub(&poly_of.mul(factor)?)?;
                    let equal = Fact { poly: poly_of, relation: Relation::Equal };
                    self.block(&[equal], |author, ids| {
                        let with = vec![(ids[0], factor.scale(-1)?)];
                        let id =
                            author.derive(Step::Rewrite(id, with), next.clone(), Relation::AtLeast);
                        author.closed_or(&next, id, plan)
                    })
                });
                Some(End::Choose(*atom, cases.collect::<Option<Vec<Case>>>()?))
            }
        }
    }

    /// The end, where what was derived is absurd already.
    fn closed_or(&mut self, poly: &Poly, id: Id, plan: &Plan) -> Option<End> {
        match self.branch.absurd {
            Some(absurd) => Some(End::Closed(absurd)),
            None => self.carry_out(poly, id, plan),
        }
    }
}

/// What an atom is multiplied by in a polynomial in which no product has it twice.
fn factor_of(poly: &Poly, atom: AtomId) -> Option<Poly> {
    let own = Mono::atom(atom);
    let mut factor = Poly::default();
    for (mono, coefficient) in poly.varying() {
        let Some(rest) = mono.over(&own) else { continue };
        if rest.over(&own).is_some() {
            return None;
        }
        factor = factor.add(&Poly::term(rest, *coefficient))?;
    }
    Some(factor)
}
