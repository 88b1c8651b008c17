//! From the engine's journal to a proof. What an entry says is derived where that succeeds; an entry
//! that is not understood is left out, and may turn out not to be needed.

use super::lines::{Case, End, Fact, Id, Relation, Step};
use super::prove::Author;
use crate::atoms::Atom;
use crate::journal::{Division, Event};
use crate::polynomial::{AtomId, Poly};
use crate::problem::{Infeasibility, Reason};

impl Author<'_> {
    /// Follows the entries until the branch is absurd.
    pub(crate) fn replay(&mut self, events: &[Event]) -> Option<End> {
        let mut at = 0;
        while let Some(event) = events.get(at) {
            at += 1;
            if let Event::Divide(division, count) = event {
                let (cases, length) = cases_of(&events[at..], *count);
                at += length;
                if let Some(end) = self.divided(division, &cases) {
                    return Some(end);
                }
            } else if let Some(end) = self.follow(event) {
                return Some(end);
            }
            if let Some(id) = self.branch.absurd {
                return Some(End::Closed(id));
            }
        }
        self.branch.absurd.map(End::Closed)
    }

    fn follow(&mut self, event: &Event) -> Option<End> {
        match event {
            Event::Value(atom, value) => _ = self.value(atom.clone(), value),
            Event::Solved(id, value) => _ = self.solved(*id, value),
            Event::AtLeastZero(poly) => {
                let poly = self.translated(poly)?;
                self.at_least_zero(&poly);
            }
            Event::Zero(poly) => {
                let poly = self.translated(poly)?;
                self.zero(&poly);
            }
            Event::NonZero(poly) => {
                let poly = self.translated(poly)?;
                self.nonzero(&poly);
            }
            Event::Absurd(polys) => {
                let polys = self.all_translated(polys)?;
                return self.infeasible(&polys, &[]);
            }
            Event::Infeasible(at_least_zero, zero, rows) => {
                if let Some(end) = self.by_rows(rows) {
                    return Some(end);
                }
                let polys = self.all_translated(at_least_zero)?;
                let equations = self.all_translated(zero)?;
                return self.infeasible(&polys, &equations);
            }
            Event::Follows(poly, rows) => _ = self.follows(poly, rows),
            Event::Divide(..) | Event::End => {}
        }
        None
    }

    /// Why the branch is absurd, by the rows that the engine used.
    fn by_rows(&mut self, rows: &Infeasibility) -> Option<End> {
        let rows = self.translated_rows(rows)?;
        self.closed(&rows)
    }

    fn follows(&mut self, poly: &Poly, rows: &Infeasibility) -> Option<()> {
        let poly = self.translated(poly)?;
        if self.branch.at_least_zero.contains_key(&poly) {
            return None;
        }
        let rows = self.translated_rows(rows)?;
        let assumed = Fact { poly: poly.subtracted_from(-1)?, relation: Relation::AtLeast };
        let Case { ids, proof } = self.block(&[assumed], |author, _| author.closed(&rows))?;
        let step = Step::Lemma(ids[0], Box::new(proof));
        self.derive(step, poly, Relation::AtLeast);
        Some(())
    }

    fn translated_rows(&mut self, rows: &Infeasibility) -> Option<Infeasibility> {
        let known = rows.at_least_zero.iter().map(|(poly, reason)| {
            let pair = |author: &mut Self, pair: &(Poly, Poly)| {
                Some(Box::new((author.translated(&pair.0)?, author.translated(&pair.1)?)))
            };
            let reason = match reason {
                Reason::Given => Reason::Given,
                Reason::ProductBound => Reason::ProductBound,
                Reason::RowProduct(a, b) => Reason::RowProduct(*a, *b),
                Reason::Square(root) => Reason::Square(Box::new(self.translated(root)?)),
                Reason::Definition(id, part) => {
                    Reason::Definition(self.translated_atom(*id)?, *part)
                }
                Reason::Product(factors) => Reason::Product(pair(self, factors)?),
                Reason::WithoutFactor(parts) => Reason::WithoutFactor(pair(self, parts)?),
                Reason::Multiple(row, by) => Reason::Multiple(*row, Box::new(self.translated(by)?)),
            };
            Some((self.translated(poly)?, reason))
        });
        let at_least_zero = known.collect::<Option<Vec<_>>>()?;
        let zero = self.all_translated(&rows.zero)?;
        Some(Infeasibility { zero, at_least_zero, refutation: rows.refutation.clone() })
    }

    /// The operation has this value: an equation to rewrite with.
    fn value(&mut self, atom: Atom, value: &Poly) -> Option<()> {
        let id = self.translated_operation(atom)?;
        let value = self.translated(value)?;
        self.define(id);
        self.equate(id, &value)
    }

    fn solved(&mut self, id: AtomId, value: &Poly) -> Option<()> {
        let id = self.translated_atom(id)?;
        let value = self.translated(value)?;
        self.define(id);
        self.equate(id, &value)
    }

    /// Links the operations that were read since the last time.
    pub(crate) fn link_as_read(&mut self) {
        for id in std::mem::take(&mut self.as_read) {
            self.link(id);
        }
    }

    /// Proves that an operation is the same operation of operands that are rewritten, and rewrites it
    /// to what that is.
    fn link(&mut self, id: AtomId) -> Option<()> {
        let own = self.engine.atoms.at(id).clone();
        let normal = |author: &Self, poly: &Poly| Some(author.normal(poly)?.0);
        let all = |author: &Self, args: &[Poly]| {
            args.iter().map(|arg| normal(author, arg)).collect::<Option<Vec<Poly>>>()
        };
        let atom = match &own {
            Atom::Var(_) | Atom::Quotient { .. } => return None,
            Atom::Div(a, b) => Atom::Div(normal(self, a)?, normal(self, b)?),
            Atom::Min(args) => Atom::Min(all(self, args)?),
            Atom::Max(args) => Atom::Max(all(self, args)?),
        };
        if atom == own {
            return Some(());
        }
        let same = self.engine.atoms.intern(atom)?;
        self.define(id);
        self.define(same);
        self.equate(id, &Poly::atom(same))
    }

    /// Proves that the atom is `value`, and rewrites it from now on.
    pub(crate) fn equate(&mut self, id: AtomId, value: &Poly) -> Option<()> {
        let (value, _) = self.normal(value)?;
        let (own, _) = self.normal(&Poly::atom(id))?;
        let difference = value.sub(&own)?;
        let target = match own.terms() {
            [(mono, 1)] => mono.as_atom(),
            _ => None,
        };
        if difference.is_zero() {
            return Some(());
        }
        let target = target.filter(|target| !value.atoms().contains(target))?;
        // The proof may meet the same question again, in a case: it is not begun twice.
        if !self.begun.insert(target) {
            return None;
        }
        let equation = self.equation(target, &value, &difference);
        self.begun.remove(&target);
        self.rewrite(target, value, equation?);
        Some(())
    }

    /// A fact that says `value - atom == 0`.
    fn equation(&mut self, atom: AtomId, value: &Poly, difference: &Poly) -> Option<Id> {
        let above = difference.clone();
        let below = difference.scale(-1)?;
        // The one side follows from any argument of the atom, the other from any of the value.
        let (own, other) = match self.engine.atoms.at(atom) {
            Atom::Min(_) => (below, above),
            Atom::Max(_) => (above, below),
            _ => return self.zero(difference),
        };
        let is_extreme =
            |id: &AtomId| matches!(self.engine.atoms.at(*id), Atom::Min(_) | Atom::Max(_));
        let inner = value.atoms().into_iter().find(is_extreme);
        self.lemma_by_argument(&own, atom).or_else(|| self.at_least_zero(&own))?;
        match inner {
            Some(inner) => {
                self.lemma_by_argument(&other, inner).or_else(|| self.at_least_zero(&other))?
            }
            None => self.at_least_zero(&other)?,
        };
        self.zero(difference)
    }

    fn divided(&mut self, division: &Division, cases: &[&[Event]]) -> Option<End> {
        match division {
            Division::Arguments(id) => self.by_argument(*id, cases),
            Division::Sides(poly) => {
                let poly = self.translated(poly)?;
                let polys = [poly.plus(-1)?, poly.subtracted_from(-1)?];
                let fact = self.nonzero(&poly)?;
                let cases = self.two_cases(polys, cases)?;
                Some(End::Sides(fact, cases))
            }
            Division::Sign(poly) => {
                let poly = self.translated(poly)?;
                let polys = [poly.clone(), poly.subtracted_from(-1)?];
                let cases = self.two_cases(polys, cases)?;
                Some(End::Split(poly, cases))
            }
            Division::Values(id, low, high) => {
                let poly = Poly::atom(self.translated_atom(*id)?);
                self.at_least_zero(&poly.plus(low.checked_neg()?)?)?;
                self.at_least_zero(&poly.subtracted_from(*high)?)?;
                self.by_value(&poly, *low, cases)
            }
            Division::Residues(id, divisor) => {
                let own = Poly::atom(self.translated_atom(*id)?);
                let divisor = Poly::constant(*divisor);
                let atom = Atom::Div(own.clone(), divisor.clone());
                let quotient = self.engine.atoms.intern(atom)?;
                self.define(quotient);
                let rest = own.sub(&divisor.mul(&Poly::atom(quotient))?)?;
                self.by_value(&rest, 0, cases)
            }
        }
    }

    fn two_cases(&mut self, polys: [Poly; 2], cases: &[&[Event]]) -> Option<Vec<Case>> {
        let pairs = polys.into_iter().zip(cases);
        let cases = pairs.map(|(poly, events)| {
            let fact = Fact { poly, relation: Relation::AtLeast };
            self.block(&[fact], |author, _| author.replay(events))
        });
        cases.collect()
    }

    fn by_argument(&mut self, id: AtomId, cases: &[&[Event]]) -> Option<End> {
        let id = self.translated_atom(id)?;
        let (Atom::Min(args) | Atom::Max(args)) = self.engine.atoms.at(id).clone() else {
            return None;
        };
        self.define(id);
        let cases = args.iter().zip(cases).map(|(arg, events)| {
            let poly = Poly::atom(id).sub(arg)?;
            let fact = Fact { poly, relation: Relation::Equal };
            self.block(&[fact], |author, _| {
                author.equate(id, arg);
                author.replay(events)
            })
        });
        Some(End::Choose(id, cases.collect::<Option<Vec<Case>>>()?))
    }

    /// `poly`, which is at least `value` and at most `value` plus the number of further cases, is
    /// one of these.
    fn by_value(&mut self, poly: &Poly, value: i128, cases: &[&[Event]]) -> Option<End> {
        let (first, rest) = cases.split_first()?;
        if rest.is_empty() {
            return self.with_value(poly, value, first);
        }
        let above = poly.plus(value.checked_neg()?)?.plus(-1)?;
        let facts = [above.clone(), above.subtracted_from(-1)?];
        let facts = facts.map(|poly| Fact { poly, relation: Relation::AtLeast });
        let [high, low] = facts;
        let high = self.block(&[high], |author, _| author.by_value(poly, value + 1, rest))?;
        let low = self.block(&[low], |author, _| author.with_value(poly, value, first))?;
        Some(End::Split(above, vec![high, low]))
    }

    fn with_value(&mut self, poly: &Poly, value: i128, events: &[Event]) -> Option<End> {
        let difference = poly.plus(value.checked_neg()?)?;
        self.zero(&difference)?;
        self.replay(events)
    }
}

/// The entries of each of `count` cases, and the length of all.
fn cases_of(events: &[Event], count: usize) -> (Vec<&[Event]>, usize) {
    let (mut cases, mut start, mut at) = (Vec::new(), 0, 0);
    while cases.len() < count && at < events.len() {
        match &events[at] {
            Event::End => {
                cases.push(&events[start..at]);
                start = at + 1;
            }
            Event::Divide(_, count) => at += cases_of(&events[at + 1..], *count).1,
            _ => {}
        }
        at += 1;
    }
    (cases, at)
}
