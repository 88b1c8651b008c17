//! The author of a certificate: proves, with steps that the checker knows, what the engine concluded.

use super::facts::Branch;
use super::lines::{Case, End, Fact, Id, Line, Multiples, Part, Proof, Relation, Step};
use crate::atoms::Atom;
use crate::engine::Engine;
use crate::polynomial::{AtomId, Poly};
use crate::problem::{Infeasibility, Reason};
use crate::proof::Goal;
use relax_syntax::Name;
use std::collections::{BTreeMap, BTreeSet};

/// How deep lemmas may nest.
const MAX_LEMMAS: u32 = 4;
/// How many case splits the proof of a lemma may nest.
const LEMMA_SPLITS: u32 = 4;
/// Steps of the engine for one lemma.
const LEMMA_FUEL: u32 = 4000;

/// Writes proofs with the help of the engine.
pub(crate) struct Author<'e> {
    pub(crate) engine: &'e mut Engine,
    pub(crate) branch: Branch,
    /// What was derived in the block that is being written.
    pub(crate) lines: Vec<Line>,
    pub(crate) translations: BTreeMap<AtomId, AtomId>,
    /// Operations of the statements that were read last, inner ones first.
    pub(crate) as_read: Vec<AtomId>,
    /// What the variables of a rule stand for while its text is read.
    pub(crate) meaning: BTreeMap<Name, Poly>,
    /// Atoms of which it is being proved what they are.
    pub(crate) begun: BTreeSet<AtomId>,
    next: Id,
    /// How many lemmas are around the place where is written.
    lemmas: u32,
    /// Steps that are left.
    pub(crate) fuel: u32,
    pub(crate) way: Way,
}

/// How a proof is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By the arguments of `min` and `max` as they are read: short proofs, without what the engine does to put operations into a
    /// canonical form.
    Arguments,
    /// As the engine concludes it.
    Engine,
}

impl<'e> Author<'e> {
    /// With so many steps of the engine for all lemmas, or of a search by arguments.
    pub(crate) fn new(engine: &'e mut Engine, way: Way, fuel: u32) -> Self {
        Self {
            engine,
            branch: Branch::default(),
            lines: Vec::new(),
            translations: BTreeMap::new(),
            as_read: Vec::new(),
            meaning: BTreeMap::new(),
            begun: BTreeSet::new(),
            next: 0,
            lemmas: 0,
            fuel,
            way,
        }
    }

    /// A number that was not used.
    pub(crate) fn fresh(&mut self) -> Id {
        self.next += 1;
        self.next - 1
    }

    /// Writes a derivation and takes what it gives into the branch.
    pub(crate) fn derive(&mut self, step: Step, poly: Poly, relation: Relation) -> Id {
        let id = self.fresh();
        let fact = Fact { poly, relation };
        self.lines.push(Line::Derived(id, step, fact.clone()));
        self.learn(id, &fact);
        id
    }

    /// Writes a block with facts of its own. Nothing of it is known afterwards.
    pub(crate) fn block(
        &mut self,
        facts: &[Fact],
        work: impl FnOnce(&mut Self, &[Id]) -> Option<End>,
    ) -> Option<Case> {
        let branch = self.branch.clone();
        let lines = std::mem::take(&mut self.lines);
        let ids: Vec<Id> = facts.iter().map(|_| self.fresh()).collect();
        for (id, fact) in ids.iter().zip(facts) {
            self.learn(*id, fact);
        }
        let end = match self.branch.absurd {
            Some(id) => Some(End::Closed(id)),
            None => work(self, &ids),
        };
        let lines = std::mem::replace(&mut self.lines, lines);
        self.branch = branch;
        end.map(|end| Case { ids, proof: Proof { lines, end } })
    }

    /// A fact that says `poly >= 0`, derived where it is not there yet.
    pub(crate) fn at_least_zero(&mut self, poly: &Poly) -> Option<Id> {
        // What a product is rewritten to may have its bounds from those of the product.
        let rewritten = self.branch.context.ideal.rewrites(poly);
        let known = if rewritten { Self::given_at_least_zero } else { Self::known_at_least_zero };
        if let Some(id) = known(self, poly) {
            return Some(id);
        }
        if let [(mono, _)] = poly.varying()
            && mono.degree() > 1
            && self.bounds_of_product(mono).is_some()
            && let Some(id) = known(self, poly)
        {
            return Some(id);
        }
        if rewritten && let Some(id) = self.known_at_least_zero(poly) {
            return Some(id);
        }
        self.lemma(poly)
    }

    pub(crate) fn known_at_least_zero(&mut self, poly: &Poly) -> Option<Id> {
        self.given_at_least_zero(poly).or_else(|| self.normal_at_least_zero(poly))
    }

    /// The same without rewriting.
    pub(crate) fn given_at_least_zero(&mut self, poly: &Poly) -> Option<Id> {
        if let Some(id) = self.branch.at_least_zero.get(poly) {
            return Some(*id);
        }
        let lin = |author: &mut Self, facts, plus| {
            Some(author.derive(Step::Lin(facts, plus), poly.clone(), Relation::AtLeast))
        };
        if let Some(value) = poly.as_constant() {
            return if value >= 0 { lin(self, Vec::new(), value) } else { None };
        }
        if let Some((id, factor)) = self.signed_zero(poly) {
            return lin(self, vec![(id, Poly::constant(factor))], 0);
        }
        let content = poly.content();
        let stronger = self.branch.at_least_zero.iter().find_map(|(fact, id)| {
            // poly = times * fact + plus
            let own = fact.content();
            let times = if own != 0 && content % own == 0 { content / own } else { return None };
            let plus = poly.add_scaled(fact, -times)?.as_constant()?;
            (plus >= 0).then_some((*id, times, plus))
        });
        if let Some((id, times, plus)) = stronger {
            return lin(self, vec![(id, Poly::constant(times))], plus);
        }
        None
    }

    fn normal_at_least_zero(&mut self, poly: &Poly) -> Option<Id> {
        let (normal, with) = self.normal(poly)?;
        // What is below 0 is shown by what shows that `poly` is not.
        if with.is_empty() || normal.as_constant().is_some_and(|value| value < 0) {
            return None;
        }
        let id = self.at_least_zero(&normal)?;
        let back = with.into_iter().map(|(id, factor)| Some((id, factor.scale(-1)?)));
        let back = back.collect::<Option<Multiples>>()?;
        Some(self.derive(Step::Rewrite(id, back), poly.clone(), Relation::AtLeast))
    }

    /// An equation that says `poly == 0` or `-poly == 0`, and the sign.
    fn signed_zero(&self, poly: &Poly) -> Option<(Id, i128)> {
        let zero = &self.branch.zero;
        let plain = zero.get(poly).map(|id| (*id, 1));
        plain.or_else(|| zero.get(&poly.scale(-1)?).map(|id| (*id, -1)))
    }

    /// `poly >= 0` because `poly <= -1` is absurd.
    fn lemma(&mut self, poly: &Poly) -> Option<Id> {
        if self.lemmas >= MAX_LEMMAS || self.fuel == 0 {
            return None;
        }
        let assumed = Fact { poly: poly.subtracted_from(-1)?, relation: Relation::AtLeast };
        self.lemmas += 1;
        let case = self.block(std::slice::from_ref(&assumed), |author, _| {
            author.refuted(std::slice::from_ref(&assumed.poly))
        });
        self.lemmas -= 1;
        let Case { ids, proof } = case?;
        let step = Step::Lemma(ids[0], Box::new(proof));
        Some(self.derive(step, poly.clone(), Relation::AtLeast))
    }

    /// `poly >= 0` because each case of a `min` or `max` makes `poly <= -1` absurd.
    pub(crate) fn lemma_by_argument(&mut self, poly: &Poly, id: AtomId) -> Option<Id> {
        if let Some(id) = self.known_at_least_zero(poly) {
            return Some(id);
        }
        let (Atom::Min(args) | Atom::Max(args)) = self.engine.atoms.at(id).clone() else {
            return None;
        };
        let assumed = Fact { poly: poly.subtracted_from(-1)?, relation: Relation::AtLeast };
        let case = self.block(std::slice::from_ref(&assumed), |author, _| {
            let cases = args.iter().map(|arg| {
                let equal = Fact { poly: Poly::atom(id).sub(arg)?, relation: Relation::Equal };
                author.block(&[equal], |author, _| {
                    author.equate(id, arg);
                    author.refuted(std::slice::from_ref(&assumed.poly))
                })
            });
            Some(End::Choose(id, cases.collect::<Option<Vec<Case>>>()?))
        });
        let Case { ids, proof } = case?;
        let step = Step::Lemma(ids[0], Box::new(proof));
        Some(self.derive(step, poly.clone(), Relation::AtLeast))
    }

    /// Why the branch is absurd, where these, which are facts, are at least 0.
    pub(crate) fn refuted(&mut self, goals: &[Poly]) -> Option<End> {
        let goals = goals.iter().map(|goal| Some(self.normal(goal)?.0));
        let goals = goals.collect::<Option<Vec<Poly>>>()?;
        let goal = Goal { at_least_zero: goals, zero: Vec::new() };
        let context = self.branch.context.clone();
        let (refuted, events) = self.limited(|engine| {
            engine.observed(|engine| engine.refutes(&context, &goal, LEMMA_SPLITS))
        });
        if refuted { self.replay(&events) } else { None }
    }

    /// Lets the engine work within what is left.
    fn limited<T>(&mut self, work: impl FnOnce(&mut Engine) -> T) -> T {
        let given = self.fuel.min(LEMMA_FUEL);
        self.engine.fuel = given;
        let result = work(self.engine);
        // Even a lemma that fails at once is no gift.
        let spent = given - self.engine.fuel.min(given) + 50;
        self.fuel = self.fuel.saturating_sub(spent);
        result
    }

    /// A fact that says `poly == 0`, derived where it is not there yet.
    pub(crate) fn zero(&mut self, poly: &Poly) -> Option<Id> {
        if let Some((id, sign)) = self.signed_zero(poly) {
            return Some(match sign {
                1 => id,
                _ => self.derive(Step::Negate(id), poly.clone(), Relation::Equal),
            });
        }
        let (normal, with) = self.normal(poly)?;
        if normal.is_zero() {
            // 0 = poly + with, so poly is the sum of the negated multiples.
            let from = with.into_iter().map(|(id, factor)| Some((id, factor.scale(-1)?)));
            let from = from.collect::<Option<Multiples>>()?;
            return Some(self.derive(Step::Equation(from), poly.clone(), Relation::Equal));
        }
        if let Some(id) = self.zero_by_equalities(poly) {
            return Some(id);
        }
        let low = self.at_least_zero(poly)?;
        let high = self.at_least_zero(&poly.scale(-1)?)?;
        Some(self.derive(Step::Both(low, high), poly.clone(), Relation::Equal))
    }

    /// A fact that says `poly != 0`, where it is there but for its form.
    pub(crate) fn nonzero(&mut self, poly: &Poly) -> Option<Id> {
        if let Some(id) = self.branch.nonzero.get(poly) {
            return Some(*id);
        }
        let opposite = poly.scale(-1)?;
        if let Some(id) = self.branch.nonzero.get(&opposite).copied() {
            return Some(self.derive(Step::Negate(id), poly.clone(), Relation::NotEqual));
        }
        let (normal, with) = self.normal(poly)?;
        if with.is_empty() {
            return None;
        }
        let id = self.nonzero(&normal)?;
        let back = with.into_iter().map(|(id, factor)| Some((id, factor.scale(-1)?)));
        let back = back.collect::<Option<Multiples>>()?;
        Some(self.derive(Step::Rewrite(id, back), poly.clone(), Relation::NotEqual))
    }

    /// Why the branch is absurd by linear reasoning, where these hold.
    pub(crate) fn infeasible(&mut self, at_least_zero: &[Poly], zero: &[Poly]) -> Option<End> {
        let normals = |author: &mut Self, polys: &[Poly]| {
            let normal = polys.iter().map(|poly| Some(author.normal(poly)?.0));
            normal.collect::<Option<Vec<Poly>>>()
        };
        let (goals, equations) = (normals(self, at_least_zero)?, normals(self, zero)?);
        for goal in &goals {
            self.at_least_zero(goal)?;
        }
        for equation in &equations {
            self.zero(equation)?;
        }
        if let Some(id) = self.branch.absurd {
            return Some(End::Closed(id));
        }
        let context = self.branch.context.clone();
        let found = self.limited(|engine| engine.infeasibility(&context, &goals, &equations));
        let infeasibility = found?;
        self.closed(&infeasibility)
    }

    /// The absurd fact that follows from the rows.
    pub(crate) fn closed(&mut self, infeasibility: &Infeasibility) -> Option<End> {
        let rows = Rows { infeasibility, known: BTreeMap::new() };
        rows.absurd(self).map(End::Closed)
    }

    /// What a quotient or an extreme is, one part.
    pub(crate) fn definition(&mut self, id: AtomId, part: usize, poly: &Poly) -> Option<Id> {
        let step = match self.engine.atoms.at(id).clone() {
            Atom::Min(_) | Atom::Max(_) => Step::Extreme(id, part),
            Atom::Div(_, divisor) => {
                let sign = if divisor.as_constant().is_some() {
                    None
                } else {
                    Some(self.sign_fact(&divisor)?)
                };
                Step::Quotient(id, if part == 0 { Part::Low } else { Part::High }, sign)
            }
            Atom::Var(_) | Atom::Quotient { .. } => return None,
        };
        Some(self.derive(step, poly.clone(), Relation::AtLeast))
    }

    /// `divisor - 1 >= 0` or `-divisor - 1 >= 0`.
    fn sign_fact(&mut self, divisor: &Poly) -> Option<Id> {
        if self.sign(divisor)? > 0 {
            return self.at_least_zero(&divisor.plus(-1)?);
        }
        self.at_least_zero(&divisor.subtracted_from(-1)?)
    }

    /// 1 for what is above 0, -1 for what is below, by bounds of what it is rewritten to.
    fn sign(&self, divisor: &Poly) -> Option<i128> {
        let (normal, _) = self.normal(divisor)?;
        let bounds = self.engine.bounds(&self.branch.context).of(&normal);
        if bounds.low.is_some_and(|low| low > 0) {
            return Some(1);
        }
        bounds.high.is_some_and(|high| high < 0).then_some(-1)
    }

    /// Derives what an atom is, as far as that is known, so that rewriting reaches it.
    pub(crate) fn define(&mut self, id: AtomId) {
        let parts = match self.engine.atoms.at(id) {
            Atom::Div(numerator, divisor) => {
                self.sign(divisor).and_then(|sign| halves(id, numerator, divisor, sign))
            }
            _ => Some(self.engine.definition(&self.branch.context, id)),
        };
        for (part, poly) in parts.unwrap_or_default().into_iter().enumerate() {
            if !self.branch.at_least_zero.contains_key(&poly) {
                self.definition(id, part, &poly);
            }
        }
    }
}

/// What a quotient by a divisor of known sign is: its remainder is between 0 and the divisor.
fn halves(id: AtomId, numerator: &Poly, divisor: &Poly, sign: i128) -> Option<Vec<Poly>> {
    let remainder = numerator.sub(&divisor.mul(&Poly::atom(id))?)?.scale(sign)?;
    let room = divisor.scale(sign)?.sub(&remainder)?.plus(-1)?;
    Some(vec![remainder, room])
}

/// The rows of a refutation as facts, derived when they are needed.
struct Rows<'r> {
    infeasibility: &'r Infeasibility,
    known: BTreeMap<usize, (Id, Poly)>,
}

impl Rows<'_> {
    fn absurd(mut self, author: &mut Author<'_>) -> Option<Id> {
        let row = self.infeasibility.refutation.absurd;
        let (id, _) = self.row(author, row)?;
        Some(id)
    }

    fn given(&self) -> usize {
        self.infeasibility.zero.len() + self.infeasibility.at_least_zero.len()
    }

    fn is_equation(&self, row: usize) -> bool {
        use crate::linear::Derived;
        if row < self.given() {
            return row < self.infeasibility.zero.len();
        }
        match &self.infeasibility.refutation.derived[row - self.given()] {
            Derived::Sum(parts) => parts.iter().all(|part| self.is_equation(part.0)),
            Derived::Divided(..) => false,
        }
    }

    fn row(&mut self, author: &mut Author<'_>, row: usize) -> Option<(Id, Poly)> {
        if let Some(known) = self.known.get(&row) {
            return Some(known.clone());
        }
        let made = self.made(author, row)?;
        self.known.insert(row, made.clone());
        Some(made)
    }

    fn made(&mut self, author: &mut Author<'_>, row: usize) -> Option<(Id, Poly)> {
        use crate::linear::Derived;
        let zero = &self.infeasibility.zero;
        if let Some(poly) = zero.get(row) {
            return Some((author.zero(poly)?, poly.clone()));
        }
        if row < self.given() {
            let (poly, reason) = &self.infeasibility.at_least_zero[row - zero.len()];
            return Some((self.reasoned(author, poly, reason)?, poly.clone()));
        }
        match self.infeasibility.refutation.derived[row - self.given()] {
            Derived::Sum(_) => self.sum(author, row),
            Derived::Divided(row, by) => {
                let (id, poly) = self.row(author, row)?;
                let tight = crate::context::tightened(&poly, by)?;
                // The fact may have been divided when it was learned.
                let known = author.branch.at_least_zero.get(&tight).copied();
                let id = known.unwrap_or_else(|| {
                    author.derive(Step::Divide(id, by), tight.clone(), Relation::AtLeast)
                });
                Some((id, tight))
            }
        }
    }

    /// A sum of sums is one sum of what is not a sum.
    fn sum(&mut self, author: &mut Author<'_>, row: usize) -> Option<(Id, Poly)> {
        let mut factors = BTreeMap::new();
        self.collect(row, 1, &mut factors)?;
        let mut sum = Poly::default();
        let mut from = Multiples::new();
        for (part, factor) in factors {
            let (id, poly) = self.row(author, part)?;
            sum = sum.add_scaled(&poly, factor)?;
            from.push((id, Poly::constant(factor)));
        }
        let (step, relation) = if self.is_equation(row) {
            (Step::Equation(from), Relation::Equal)
        } else {
            (Step::Lin(from, 0), Relation::AtLeast)
        };
        Some((author.derive(step, sum.clone(), relation), sum))
    }

    fn collect(&self, row: usize, factor: i128, into: &mut BTreeMap<usize, i128>) -> Option<()> {
        use crate::linear::Derived;
        if row >= self.given()
            && let Derived::Sum(parts) = self.infeasibility.refutation.derived[row - self.given()]
        {
            for (part, own) in parts {
                self.collect(part, factor.checked_mul(own)?, into)?;
            }
            return Some(());
        }
        let entry = into.entry(row).or_default();
        *entry = entry.checked_add(factor)?;
        Some(())
    }

    fn reasoned(&mut self, author: &mut Author<'_>, poly: &Poly, reason: &Reason) -> Option<Id> {
        match reason {
            Reason::Given => author.at_least_zero(poly),
            Reason::Definition(id, part) => author.definition(*id, *part, poly),
            Reason::ProductBound => author.at_least_zero(poly),
            Reason::Product(factors) => {
                let a = author.at_least_zero(&factors.0)?;
                let b = author.at_least_zero(&factors.1)?;
                Some(author.derive(Step::Times(a, b), poly.clone(), Relation::AtLeast))
            }
            Reason::Multiple(row, factor) => {
                let (id, _) = self.row(author, self.infeasibility.zero.len() + row)?;
                let by = author.at_least_zero(factor)?;
                Some(author.derive(Step::Times(id, by), poly.clone(), Relation::AtLeast))
            }
            Reason::RowProduct(first, second) => {
                let given = self.infeasibility.zero.len();
                let (a, _) = self.row(author, given + first)?;
                let (b, _) = self.row(author, given + second)?;
                Some(author.derive(Step::Times(a, b), poly.clone(), Relation::AtLeast))
            }
            Reason::Square(root) => {
                let step = Step::Square(root.as_ref().clone());
                Some(author.derive(step, poly.clone(), Relation::AtLeast))
            }
            Reason::WithoutFactor(parts) => author.without_factor(poly, &parts.0, &parts.1),
        }
    }
}
