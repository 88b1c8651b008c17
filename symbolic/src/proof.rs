//! Proofs: a claim holds when its negation and the facts have no common assignment. Linear
//! reasoning first, then a bounded number of case splits.

use crate::atoms::Atom;
use crate::context::Context;
use crate::engine::Engine;
use crate::intervals::Interval;
use crate::journal::{Division, Event};
use crate::polynomial::{AtomId, Mono, Poly};
use relax_syntax::facts::{Claim, Relation};

/// How many splits may be nested.
const MAX_SPLITS: u32 = 6;
/// How often facts of a case may lead to further facts.
const CASCADE: u32 = 3;
/// A bounded atom with at most so many values is tried value by value.
const MAX_VALUES: i128 = 4;
/// Remainders are tried one by one for divisors up to this.
const MAX_DIVISOR: i128 = 8;

/// What is shown to be impossible, together with a context.
#[derive(Clone, Default)]
pub(crate) struct Goal {
    /// Polynomials that would be at least 0.
    pub(crate) at_least_zero: Vec<Poly>,
    /// Polynomials that would be 0.
    pub(crate) zero: Vec<Poly>,
}

/// One case of a split.
enum Case {
    /// The atom has this value, and these are at least 0.
    Is(AtomId, Poly, Vec<Poly>),
    /// This is at least 0.
    AtLeastZero(Poly),
}

impl Engine {
    /// Whether `claim` has a value and holds for every assignment that satisfies the context.
    pub(crate) fn proves(&mut self, context: &Context, claim: &Claim) -> bool {
        let Some((poly, divisors)) = self.claimed(context, claim) else {
            return false;
        };
        divisors.iter().all(|divisor| self.proves_nonzero(context, divisor))
            && self.proves_relation(context, claim.relation, &poly)
    }

    /// Whether every divisor of `claim` is not 0 for every assignment of the context.
    pub(crate) fn proves_defined(&mut self, context: &Context, claim: &Claim) -> bool {
        let Some((_, divisors)) = self.claimed(context, claim) else {
            return false;
        };
        divisors.iter().all(|divisor| self.proves_nonzero(context, divisor))
    }

    fn proves_relation(&mut self, context: &Context, relation: Relation, poly: &Poly) -> bool {
        if context.contradiction {
            return true;
        }
        let bounds = self.bounds(context).of(poly);
        match relation {
            Relation::Equal | Relation::Divides => {
                bounds == Interval::point(0)
                    || (self.excludes_sign(context, poly, 1)
                        && self.excludes_sign(context, poly, -1))
            }
            Relation::NotEqual => self.proves_nonzero(context, poly),
            Relation::AtMost | Relation::Less => {
                bounds.low.is_some_and(|low| low >= 0) || self.excludes_sign(context, poly, -1)
            }
        }
    }

    /// Whether `sign * poly >= 1` is impossible.
    fn excludes_sign(&mut self, context: &Context, poly: &Poly, sign: i128) -> bool {
        let Some(negation) = poly.scale(sign).and_then(|poly| poly.plus(-1)) else {
            return false;
        };
        let goal = Goal { at_least_zero: vec![negation], zero: Vec::new() };
        self.refutes(context, &goal, MAX_SPLITS)
    }

    /// Whether `poly` is never 0.
    pub(crate) fn proves_nonzero(&mut self, context: &Context, poly: &Poly) -> bool {
        if context.contradiction || self.quickly_nonzero(context, poly) {
            return true;
        }
        let goal = Goal { at_least_zero: Vec::new(), zero: vec![poly.clone()] };
        self.refutes(context, &goal, MAX_SPLITS)
    }

    /// Whether the context excludes the goal.
    pub(crate) fn refutes(&mut self, context: &Context, goal: &Goal, splits: u32) -> bool {
        if context.contradiction {
            return true;
        }
        if let Some(rows) = self.infeasibility(context, &goal.at_least_zero, &goal.zero) {
            self.note(|| {
                let (at_least_zero, zero) = (goal.at_least_zero.clone(), goal.zero.clone());
                Event::Infeasible(at_least_zero, zero, Box::new(rows))
            });
            return true;
        }
        if splits == 0 || self.spend(20).is_none() {
            return false;
        }
        if !goal.zero.is_empty() {
            let mut stronger = context.clone();
            for poly in &goal.zero {
                self.add_zero(&mut stronger, poly.clone(), CASCADE);
            }
            let rest = Goal { at_least_zero: goal.at_least_zero.clone(), zero: Vec::new() };
            return self.refutes_rebuilt(&stronger, &rest, splits - 1);
        }
        let Some(division) = self.division(context, goal) else {
            return false;
        };
        let Some(cases) = self.cases(&division) else {
            return false;
        };
        let count = cases.len();
        self.note(|| Event::Divide(division, count));
        // What is noted of cases that stay open is read by nobody: the question that they are about stays open.
        cases.into_iter().all(|case| {
            let closed = self.refutes_case(context, goal, case, splits - 1);
            self.note(|| Event::End);
            closed
        })
    }

    fn refutes_case(&mut self, context: &Context, goal: &Goal, case: Case, splits: u32) -> bool {
        let mut stronger = context.clone();
        let mut goal = goal.clone();
        match case {
            Case::Is(id, value, conditions) => {
                for condition in conditions {
                    goal.at_least_zero.push(condition.clone());
                    self.add_at_least_zero(&mut stronger, condition, CASCADE);
                }
                self.add_solved(&mut stronger, id, value, CASCADE);
            }
            Case::AtLeastZero(poly) => {
                goal.at_least_zero.push(poly.clone());
                self.add_at_least_zero(&mut stronger, poly, CASCADE);
            }
        }
        self.refutes_rebuilt(&stronger, &goal, splits)
    }

    fn refutes_rebuilt(&mut self, context: &Context, goal: &Goal, splits: u32) -> bool {
        if context.contradiction {
            return true;
        }
        let rebuilt = |engine: &mut Self, polys: &[Poly]| {
            let polys = polys.iter().map(|poly| engine.rebuild(context, poly));
            polys.collect::<Option<Vec<_>>>()
        };
        let Some(at_least_zero) = rebuilt(self, &goal.at_least_zero) else {
            return false;
        };
        self.refutes(context, &Goal { at_least_zero, zero: Vec::new() }, splits)
    }

    /// Cases that cover everything, about something that the goal mentions.
    fn division(&self, context: &Context, goal: &Goal) -> Option<Division> {
        // What is asked about comes before what is known.
        let known = context.zero.iter().chain(&context.at_least_zero);
        let mut ids = self.occurring(goal.at_least_zero.iter());
        let more = self.occurring(known).into_iter().filter(|id| !ids.contains(id));
        let more: Vec<AtomId> = more.collect();
        ids.extend(more);
        let is_extreme = |id: &&AtomId| matches!(self.atoms.at(**id), Atom::Min(_) | Atom::Max(_));
        ids.iter()
            .find(is_extreme)
            .map(|&id| Division::Arguments(id))
            .or_else(|| ids.iter().find_map(|&id| self.divisor_sides(context, id)))
            .or_else(|| self.unequal_sides(context, &ids))
            .or_else(|| ids.iter().find_map(|&id| self.few_values(context, id)))
            .or_else(|| ids.iter().find_map(|&id| self.factor_sign(context, goal, id)))
            .or_else(|| ids.iter().find_map(|&id| self.residues(context, id)))
    }

    /// The atoms in these, at any depth, in rising order.
    fn occurring<'p>(&self, polys: impl Iterator<Item = &'p Poly>) -> Vec<AtomId> {
        let mut ids: Vec<AtomId> = polys
            .flat_map(Poly::atoms)
            .flat_map(|id| self.atoms.inside(id).iter().copied())
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// A divisor of unknown sign is below or above 0; it is not 0, or the quotient had no value.
    fn divisor_sides(&self, context: &Context, id: AtomId) -> Option<Division> {
        let Atom::Div(_, divisor) = self.atoms.at(id) else {
            return None;
        };
        if !self.quickly_nonzero(context, divisor) {
            return None;
        }
        self.sides_of_zero(context, divisor)
    }

    fn unequal_sides(&self, context: &Context, ids: &[AtomId]) -> Option<Division> {
        let concerned = |poly: &&Poly| poly.atoms().iter().all(|id| ids.contains(id));
        let mut polys = context.nonzero.iter().filter(concerned);
        polys.find_map(|poly| self.sides_of_zero(context, poly))
    }

    fn sides_of_zero(&self, context: &Context, poly: &Poly) -> Option<Division> {
        let open = !self.bounds(context).of(poly).excludes_zero();
        open.then(|| Division::Sides(poly.clone()))
    }

    /// An atom with few possible values.
    fn few_values(&self, context: &Context, id: AtomId) -> Option<Division> {
        if context.solved.contains_key(&id) {
            return None;
        }
        let Interval { low, high } = self.bounds(context).of_atom(id);
        let (low, high) = (low?, high?);
        (high.checked_sub(low)? < MAX_VALUES).then_some(Division::Values(id, low, high))
    }

    /// A factor of a nonlinear term is negative or not.
    fn factor_sign(&self, context: &Context, goal: &Goal, id: AtomId) -> Option<Division> {
        let nonlinear = |(mono, _): &(Mono, i128)| mono.degree() > 1 && mono.atoms().contains(&id);
        if !goal.at_least_zero.iter().any(|poly| poly.terms().iter().any(nonlinear)) {
            return None;
        }
        let Interval { low, high } = self.bounds(context).of_atom(id);
        let known = low.is_some_and(|low| low >= 0) || high.is_some_and(|high| high <= 0);
        (!known).then(|| Division::Sign(Poly::atom(id)))
    }

    /// A variable in a quotient by a small number.
    fn residues(&self, context: &Context, id: AtomId) -> Option<Division> {
        let Atom::Div(numerator, divisor) = self.atoms.at(id) else {
            return None;
        };
        let divisor = divisor.as_constant().filter(|value| (2..=MAX_DIVISOR).contains(value))?;
        let variable = numerator.varying().iter().find_map(|(mono, _)| {
            let id = mono.as_atom()?;
            let open = self.atoms.at(id).is_free() && !context.solved.contains_key(&id);
            open.then_some(id)
        })?;
        Some(Division::Residues(variable, divisor))
    }

    /// The cases of a division.
    fn cases(&mut self, division: &Division) -> Option<Vec<Case>> {
        match division {
            Division::Arguments(id) => self.argument_cases(*id),
            Division::Sides(poly) => {
                let above = Case::AtLeastZero(poly.plus(-1)?);
                Some(vec![above, Case::AtLeastZero(poly.subtracted_from(-1)?)])
            }
            Division::Sign(poly) => {
                let below = Case::AtLeastZero(poly.subtracted_from(-1)?);
                Some(vec![Case::AtLeastZero(poly.clone()), below])
            }
            Division::Values(id, low, high) => {
                let case = |value| Case::Is(*id, Poly::constant(value), Vec::new());
                Some((*low..=*high).map(case).collect())
            }
            Division::Residues(id, divisor) => self.residue_cases(*id, *divisor),
        }
    }

    /// A `min` or `max` is one of its arguments.
    fn argument_cases(&self, id: AtomId) -> Option<Vec<Case>> {
        let (args, sign) = match self.atoms.at(id) {
            Atom::Min(args) => (args, 1),
            Atom::Max(args) => (args, -1),
            _ => return None,
        };
        let case = |chosen: &Poly| {
            let differences = args.iter().filter(|arg| *arg != chosen);
            let conditions = differences.map(|arg| arg.sub(chosen)?.scale(sign));
            Some(Case::Is(id, chosen.clone(), conditions.collect::<Option<Vec<_>>>()?))
        };
        args.iter().map(case).collect()
    }

    /// `x` is `divisor * q + r` for one `r` from 0 on.
    fn residue_cases(&mut self, id: AtomId, divisor: i128) -> Option<Vec<Case>> {
        let mut cases = Vec::new();
        for residue in 0..divisor {
            let numerator = Poly::atom(id);
            let multiple = numerator.plus(-residue)?;
            let divisor = Poly::constant(divisor);
            let atom = Atom::Quotient { numerator, divisor: divisor.clone(), multiple };
            let quotient = Poly::atom(self.atoms.intern(atom)?);
            let value = divisor.mul(&quotient)?.plus(residue)?;
            cases.push(Case::Is(id, value, Vec::new()));
        }
        Some(cases)
    }
}
