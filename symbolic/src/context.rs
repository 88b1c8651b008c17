//! What is known in one scope: the facts as given, and what they say on atoms.

use crate::atoms::Atom;
use crate::engine::Engine;
use crate::ideal::Ideal;
use crate::intervals::Interval;
use crate::journal::Event;
use crate::lemmas::Stamp;
use crate::polynomial::{AtomId, Mono, Poly, floor_div, gcd};
use crate::problem::distances;
use relax_syntax::facts::{Claim, Counterexample, Relation};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How often facts may lead to further facts.
const CASCADE: u32 = 6;

/// The facts of a scope and of those around it.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// The facts as given: a counterexample satisfies these.
    pub(crate) claims: Arc<Vec<Claim>>,
    /// An assignment that satisfies all of them, as long as one is found.
    pub(crate) model: Option<Arc<Counterexample>>,
    /// Atoms that an equation determines; no value mentions a solved atom.
    pub(crate) solved: BTreeMap<AtomId, Poly>,
    /// Bounds of single atoms.
    pub(crate) bounds: BTreeMap<AtomId, Interval>,
    /// Polynomials that are at least 0.
    pub(crate) at_least_zero: Vec<Poly>,
    /// Polynomials that are 0.
    pub(crate) zero: Vec<Poly>,
    /// What these are as rules, by which all that is known is rewritten.
    pub(crate) ideal: Ideal,
    /// Polynomials that are not 0.
    pub(crate) nonzero: Vec<Poly>,
    /// Whether no assignment satisfies the facts.
    pub(crate) contradiction: bool,
    /// Which facts these are.
    pub(crate) stamp: Stamp,
}

/// `divisor * quotient == numerator + rest`, where the quotient is that of the numerator.
struct Remainder {
    quotient: AtomId,
    numerator: Poly,
    divisor: Poly,
    rest: Poly,
}

/// Nothing is known, and the empty assignment satisfies it.
impl Default for Context {
    fn default() -> Self {
        Self {
            claims: Arc::default(),
            model: Some(Arc::default()),
            solved: BTreeMap::new(),
            bounds: BTreeMap::new(),
            at_least_zero: Vec::new(),
            zero: Vec::new(),
            ideal: Ideal::default(),
            nonzero: Vec::new(),
            contradiction: false,
            stamp: Stamp::default(),
        }
    }
}

impl Engine {
    /// Adds a fact to a context. What cannot be expressed within the limits stays only in `claims`.
    pub(crate) fn assume(&mut self, context: &mut Context, claim: &Claim) {
        Arc::make_mut(&mut context.claims).push(claim.clone());
        self.assert(context, claim);
        let model = context.model.take();
        context.model = model.and_then(|model| self.model_with(context, claim, model));
    }

    /// Adds what `claim` says, without listing it. A claim that holds has a value, so its divisors
    /// are not 0.
    pub(crate) fn assert(&mut self, context: &mut Context, claim: &Claim) {
        let claimed = self.claimed(context, claim);
        context.stamp = Stamp::default();
        let Some((poly, divisors)) = claimed else { return };
        for divisor in divisors {
            self.add_nonzero(context, divisor);
        }
        let Some(poly) = self.rebuild(context, &poly) else {
            return;
        };
        match claim.relation {
            Relation::Equal | Relation::Divides => self.add_zero(context, poly, CASCADE),
            Relation::NotEqual => self.add_nonzero(context, poly),
            Relation::AtMost | Relation::Less => self.add_at_least_zero(context, poly, CASCADE),
        }
    }

    /// Adds `poly >= 0`.
    pub(crate) fn add_at_least_zero(&mut self, context: &mut Context, poly: Poly, depth: u32) {
        self.note(|| Event::AtLeastZero(poly.clone()));
        let content = poly.content();
        if content == 0 {
            context.contradiction |= poly.constant_term() < 0;
            return;
        }
        let Some(poly) = tightened(&poly, content) else {
            return;
        };
        let single = match poly.varying() {
            [(mono, coefficient)] => mono.as_atom().map(|id| (id, *coefficient)),
            _ => None,
        };
        match single {
            Some((id, 1)) => {
                let low = poly.constant_term().checked_neg();
                self.narrow(context, id, Interval { low, high: None }, depth);
            }
            Some((id, -1)) => {
                let high = Some(poly.constant_term());
                self.narrow(context, id, Interval { low: None, high }, depth);
            }
            _ if context.at_least_zero.contains(&poly) => return,
            _ => {
                let opposite = poly.scale(-1);
                let equal = opposite.as_ref().is_some_and(|p| context.at_least_zero.contains(p));
                context.at_least_zero.push(poly.clone());
                if equal && depth > 0 {
                    self.add_zero(context, poly, depth - 1);
                }
            }
        }
        self.sharpen_nonzero(context, depth);
    }

    fn narrow(&mut self, context: &mut Context, id: AtomId, with: Interval, depth: u32) {
        let entry = context.bounds.entry(id).or_default();
        let interval = entry.meet(with);
        *entry = interval;
        if let Interval { low: Some(low), high: Some(high) } = interval {
            context.contradiction |= low > high;
            if low > high {
                self.note(|| Event::Absurd(distances(id, interval)));
            }
            if low == high && depth > 0 {
                self.solve(context, id, Poly::constant(low), depth - 1);
            }
        }
    }

    /// Adds `poly != 0`.
    pub(crate) fn add_nonzero(&mut self, context: &mut Context, poly: Poly) {
        self.note(|| Event::NonZero(poly.clone()));
        if let Some(value) = poly.as_constant() {
            context.contradiction |= value == 0;
            return;
        }
        if !context.nonzero.contains(&poly) {
            context.nonzero.push(poly);
        }
        self.sharpen_nonzero(context, 1);
    }

    /// Where a polynomial is at least 0 and not 0, it is at least 1; and the mirror image.
    fn sharpen_nonzero(&mut self, context: &mut Context, depth: u32) {
        if depth == 0 {
            return;
        }
        // The list may change on the way: a new bound can determine an atom.
        let mut index = 0;
        while let Some(poly) = context.nonzero.get(index).cloned() {
            index += 1;
            let known = self.bounds(context).of(&poly);
            let sharper = match known {
                Interval { low: Some(0), .. } => poly.plus(-1),
                Interval { high: Some(0), .. } => poly.scale(-1).and_then(|p| p.plus(-1)),
                _ => None,
            };
            if let Some(sharper) = sharper {
                self.add_at_least_zero(context, sharper, depth - 1);
            }
        }
    }

    /// Adds `poly == 0`: solved for an atom where possible, kept as an equation else.
    pub(crate) fn add_zero(&mut self, context: &mut Context, poly: Poly, depth: u32) {
        self.note(|| Event::Zero(poly.clone()));
        let content = poly.content();
        if content == 0 {
            context.contradiction |= !poly.is_zero();
            return;
        }
        if poly.constant_term() % content != 0 {
            context.contradiction = true;
            return;
        }
        let poly = poly.exact_quotient(content);
        if depth > 0 {
            if let Some((id, value)) = self.solution(&poly) {
                self.solve(context, id, value, depth - 1);
                return;
            }
            if self.add_remainder(context, &poly, depth) {
                return;
            }
        }
        if !context.zero.contains(&poly) {
            context.zero.push(poly.clone());
            self.extend_ideal(context, &poly, depth);
        }
    }

    /// An atom with coefficient 1 or -1 that occurs nowhere else in the equation, and its value.
    fn solution(&self, poly: &Poly) -> Option<(AtomId, Poly)> {
        let mut best: Option<(bool, AtomId, i128)> = None;
        for (mono, coefficient) in poly.terms() {
            let Some(id) = mono.as_atom().filter(|_| coefficient.abs() == 1) else {
                continue;
            };
            let free = self.atoms.at(id).is_free();
            if best.is_none_or(|(best_free, ..)| free && !best_free) && self.occurs_once(poly, id) {
                best = Some((free, id, *coefficient));
            }
        }
        let (_, id, coefficient) = best?;
        let rest = poly.sub(&Poly::term(Mono::atom(id), coefficient))?;
        Some((id, rest.scale(-coefficient)?))
    }

    fn occurs_once(&self, poly: &Poly, id: AtomId) -> bool {
        let ids = poly.terms().iter().flat_map(|(mono, _)| mono.atoms());
        ids.filter(|&&other| self.atoms.atom_mentions(other, id)).count() == 1
    }

    /// Recognizes `x - divisor * (numerator // divisor) == r`, where `x` occurs in the numerator:
    /// solves it for `x` with the quotient as a new variable. True if it did.
    fn add_remainder(&mut self, context: &mut Context, poly: &Poly, depth: u32) -> bool {
        let Some(remainder) = self.as_remainder(poly) else {
            return false;
        };
        let Some((id, sign)) = self.dividend(&remainder) else {
            return false;
        };
        let Remainder { quotient, numerator, divisor, rest } = remainder;
        let mut solve = || {
            let multiple = numerator.add(&rest)?;
            let atom = Atom::Quotient {
                numerator: numerator.clone(),
                divisor: divisor.clone(),
                multiple: multiple.clone(),
            };
            let fresh = self.atoms.intern(atom)?;
            let others = multiple.sub(&Poly::term(Mono::atom(id), sign))?;
            let value = divisor.mul(&Poly::atom(fresh))?.sub(&others)?.scale(sign)?;
            Some((fresh, value))
        };
        let Some((fresh, value)) = solve() else {
            return false;
        };
        let definition = Poly::atom(quotient).sub(&Poly::atom(fresh));
        self.solve(context, id, value, depth - 1);
        // The old quotient, rewritten, is the new variable.
        let rewritten = definition.and_then(|poly| self.rebuild(context, &poly));
        if let Some(rewritten) = rewritten {
            self.add_zero(context, rewritten, 0);
        }
        true
    }

    /// A variable of the numerator, once in the equation, and its coefficient, which is 1 or -1.
    fn dividend(&self, remainder: &Remainder) -> Option<(AtomId, i128)> {
        let Remainder { numerator, divisor, rest, .. } = remainder;
        numerator.terms().iter().find_map(|(mono, coefficient)| {
            let id = mono.as_atom().filter(|_| coefficient.abs() == 1)?;
            let once = matches!(self.atoms.at(id), Atom::Var(_))
                && self.occurs_once(numerator, id)
                && !self.atoms.mentions(divisor, id)
                && !self.atoms.mentions(rest, id);
            once.then_some((id, *coefficient))
        })
    }

    /// Whether `poly == 0` is solved for an atom, so that it becomes no rule of the ideal.
    pub(crate) fn determines(&self, poly: &Poly) -> bool {
        let remainder = || self.as_remainder(poly).and_then(|it| self.dividend(&it));
        self.solution(poly).is_some() || remainder().is_some()
    }

    fn as_remainder(&self, poly: &Poly) -> Option<Remainder> {
        for id in poly.atoms() {
            let Atom::Div(numerator, divisor) = self.atoms.at(id) else {
                continue;
            };
            let base = numerator.sub(&divisor.mul(&Poly::atom(id))?)?;
            for sign in [1, -1] {
                // poly == sign * base + rest == 0, so base == -sign * rest.
                let rest = poly.add_scaled(&base, -sign)?.scale(sign)?;
                if !self.atoms.mentions(&rest, id) {
                    let (numerator, divisor) = (numerator.clone(), divisor.clone());
                    return Some(Remainder { quotient: id, numerator, divisor, rest });
                }
            }
        }
        None
    }

    /// Adds that the atom has this value.
    pub(crate) fn add_solved(
        &mut self,
        context: &mut Context,
        id: AtomId,
        value: Poly,
        depth: u32,
    ) {
        let Some(value) = self.rebuild(context, &value) else {
            return;
        };
        if context.solved.contains_key(&id) || self.atoms.mentions(&value, id) {
            let equation = self.value_of(context, id).sub(&value);
            equation.into_iter().for_each(|poly| self.add_zero(context, poly, depth));
        } else {
            self.solve(context, id, value, depth);
        }
    }

    /// Replaces `id` by `value`, which does not mention it, in everything that is known.
    fn solve(&mut self, context: &mut Context, id: AtomId, value: Poly, depth: u32) {
        if context.solved.contains_key(&id) {
            return;
        }
        self.note(|| Event::Solved(id, value.clone()));
        let definition = self.definition(context, id);
        let before = context.clone();
        context.solved.insert(id, value.clone());
        for (&other, old) in &before.solved {
            if let Some(new) = self.rebuild(context, old) {
                context.solved.insert(other, new);
            }
        }
        let old_bounds = before.bounds.get(&id).copied().unwrap_or_default();
        let lists = [&mut context.at_least_zero, &mut context.zero, &mut context.nonzero];
        lists.into_iter().for_each(Vec::clear);
        context.ideal = Ideal::default();
        let low = old_bounds.low.and_then(|low| value.plus(-low));
        let high = old_bounds.high.and_then(|high| value.subtracted_from(high));
        let inequalities = before.at_least_zero.into_iter().chain(definition);
        for poly in inequalities.chain(low).chain(high) {
            let poly = self.rebuild(context, &poly).unwrap_or(poly);
            self.add_at_least_zero(context, poly, depth);
        }
        for poly in before.zero {
            let poly = self.rebuild(context, &poly).unwrap_or(poly);
            self.add_zero(context, poly, depth);
        }
        for poly in before.nonzero {
            let poly = self.rebuild(context, &poly).unwrap_or(poly);
            self.add_nonzero(context, poly);
        }
        let with = |ids: Vec<AtomId>| -> Vec<AtomId> {
            ids.into_iter().filter(|&other| self.atoms.atom_mentions(other, id)).collect()
        };
        let bounded = with(before.bounds.keys().copied().filter(|&other| other != id).collect());
        let determined = with(before.solved.keys().copied().collect());
        self.rebuild_bounds(context, &before.bounds, &bounded, depth);
        // Only where it is a number: cases of a proof set atoms equal to others, and what would follow there costs more
        // than it shows.
        if value.as_constant().is_some() {
            self.rebuild_solved(context, &determined, depth);
        }
    }

    /// Bounds of composite atoms hold for their rewritten form too.
    pub(crate) fn rebuild_bounds(
        &mut self,
        context: &mut Context,
        bounds: &BTreeMap<AtomId, Interval>,
        ids: &[AtomId],
        depth: u32,
    ) {
        for &other in ids {
            let Some(interval) = bounds.get(&other) else { continue };
            let Some(new) = self.rebuild(context, &Poly::atom(other)) else {
                continue;
            };
            let low = interval.low.and_then(|low| new.plus(-low));
            let high = interval.high.and_then(|high| new.subtracted_from(high));
            for poly in low.into_iter().chain(high) {
                self.add_at_least_zero(context, poly, depth);
            }
        }
    }

    /// A composite atom with a known value has another form where what it mentions is rewritten, of the same value:
    /// from `max(n, m) == 1` and `n == 0` follows `m == 1`.
    pub(crate) fn rebuild_solved(&mut self, context: &mut Context, ids: &[AtomId], depth: u32) {
        for &other in ids {
            let mut others = context.clone();
            let Some(value) = others.solved.remove(&other) else {
                continue;
            };
            let Some(form) = self.rebuild(&others, &Poly::atom(other)) else {
                continue;
            };
            let equation = form.sub(&value).and_then(|poly| self.rebuild(context, &poly));
            equation.into_iter().for_each(|poly| self.add_zero(context, poly, depth));
        }
    }

    /// Whether `poly` is not 0 by a quick look: bounds, a listed fact, or a product of such.
    pub(crate) fn quickly_nonzero(&self, context: &Context, poly: &Poly) -> bool {
        if self.bounds(context).of(poly).excludes_zero() {
            return true;
        }
        let listed = |poly: &Poly| {
            context.nonzero.contains(poly)
                || poly.scale(-1).is_some_and(|poly| context.nonzero.contains(&poly))
        };
        let factor = |id: &AtomId| {
            listed(&Poly::atom(*id)) || self.bounds(context).of_atom(*id).excludes_zero()
        };
        match poly.terms() {
            [(mono, _)] => listed(poly) || mono.atoms().iter().all(factor),
            _ => listed(poly),
        }
    }
}

/// `poly >= 0` divided by its content, the constant rounded down: the variables are integers.
pub(crate) fn tightened(poly: &Poly, content: i128) -> Option<Poly> {
    if gcd(content, 0) <= 1 {
        return Some(poly.clone());
    }
    let constant = poly.constant_term();
    let rest = poly.plus(constant.checked_neg()?)?;
    rest.exact_quotient(content).plus(floor_div(constant, content))
}
