//! What is known of each class: the canonical polynomial of the first stage, a short dim, and
//! which rule instances it depends on. Sums and products need no rules because of it: classes with
//! the same polynomial are the same class.

use crate::atoms::Atom;
use crate::claims::Formula;
use crate::context::Context;
use crate::counterexample::Effort;
use crate::egraph::language::{Graph, Node};
use crate::engine::Engine;
use crate::polynomial::Poly;
use egg::{Analysis, DidMerge, Id};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Counterexample, Relation};
use std::collections::BTreeMap;

/// Steps of work for one operation on polynomials, and for all.
const OPERATION_FUEL: u32 = 300;
const ALL_OPERATIONS: u32 = 3_000;
/// Steps of work for one condition, and for all.
const CONDITION_FUEL: u32 = 800;
const ALL_CONDITIONS: u32 = 4_000;
/// How many assignments are kept.
const MAX_SAMPLES: usize = 12;
/// How many parts the dim of a class may have: what is merged into itself twice on each level has as many as no memory
/// holds.
const MAX_SIZE: usize = 60;
/// Values that variables of assignments are moved to.
const VALUES: [i64; 7] = [2, 3, 1, 7, 0, 5, -2];

/// The first stage, as the analysis asks it.
pub(super) struct Ring {
    pub(super) engine: Engine,
    context: Context,
    /// The facts without products: enough for most canonical forms, and much quicker.
    plain: Context,
    /// Steps of work that are left for all operations.
    operations: u32,
    /// Steps of work that are left for all conditions.
    conditions: u32,
    /// Conditions that were asked before.
    asked: BTreeMap<Claim, bool>,
    /// Operations that were done before.
    known: BTreeMap<(DimOp, Poly, Poly), Option<Poly>>,
    /// Assignments that satisfy the facts: what fails in one is not proved.
    samples: Vec<Counterexample>,
}

/// What is known of a class.
#[derive(Clone, Debug)]
pub(super) struct Data {
    /// The simplest polynomial found, where one is within the limits.
    pub(super) poly: Option<Poly>,
    /// The shortest dim found and how many parts it has, unless that is more than [`MAX_SIZE`].
    pub(super) dim: Option<(usize, Dim)>,
    /// The instances that the class, or a part of it, was merged by: one bit each.
    pub(super) depends: u64,
}

impl Ring {
    pub(super) fn new(mut engine: Engine, context: Context, question: &Formula) -> Self {
        let samples = samples(&mut engine, &context, question);
        let mut plain = context.clone();
        plain.at_least_zero.retain(|poly| poly.terms().iter().all(|(mono, _)| mono.degree() < 2));
        plain.zero.clear();
        Self {
            engine,
            context,
            plain,
            operations: ALL_OPERATIONS,
            conditions: ALL_CONDITIONS,
            asked: BTreeMap::new(),
            known: BTreeMap::new(),
            samples,
        }
    }

    /// Whether the first stage proves `claim`.
    pub(super) fn proves(&mut self, claim: &Claim) -> bool {
        if let Some(known) = self.asked.get(claim) {
            return *known;
        }
        let fails = self.samples.iter().any(|values| claim.holds(values) == Some(false));
        let context = std::mem::take(&mut self.context);
        let proved = !fails
            && with_fuel(&mut self.engine, &mut self.conditions, CONDITION_FUEL, |engine| {
                engine.proves(&context, claim)
            });
        self.context = context;
        self.asked.insert(claim.clone(), proved);
        proved
    }

    /// Whether the first stage proves that `dim` has a value.
    pub(super) fn defines(&mut self, dim: &Dim) -> bool {
        let claim = Claim::new(dim.clone(), Relation::Equal, 0);
        let context = std::mem::take(&mut self.context);
        let defined = with_fuel(&mut self.engine, &mut self.conditions, CONDITION_FUEL, |engine| {
            engine.proves_defined(&context, &claim)
        });
        self.context = context;
        defined
    }

    /// The polynomial of `dim`, whose variables have these.
    pub(super) fn polynomial(&mut self, dim: &Dim, values: &BTreeMap<Name, Poly>) -> Option<Poly> {
        match dim {
            Dim::Int(value) => Some(Poly::constant(i128::from(*value))),
            Dim::Var(name) => values.get(name).cloned(),
            Dim::Op(op, operands) => {
                let a = self.polynomial(&operands.0, values)?;
                let b = self.polynomial(&operands.1, values)?;
                self.operation(*op, &a, &b)
            }
        }
    }

    fn leaf(&mut self, node: &Node) -> Option<Poly> {
        match node {
            Node::Int(value) => Some(Poly::constant(i128::from(*value))),
            Node::Var(name) => {
                let id = self.engine.atoms.intern(Atom::Var(name.clone()))?;
                Some(self.engine.value_of(&self.plain, id))
            }
            Node::Op(..) => None,
        }
    }

    fn operation(&mut self, op: DimOp, a: &Poly, b: &Poly) -> Option<Poly> {
        let key = (op, a.clone(), b.clone());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        self.operations = self.operations.checked_sub(1)?;
        let context = std::mem::take(&mut self.plain);
        let ask = |engine: &mut Engine| engine.combined(&context, op, a, b);
        let result = with_fuel(&mut self.engine, &mut self.operations, OPERATION_FUEL, ask);
        self.plain = context;
        self.known.insert(key, result.clone());
        result
    }

    /// How simple a polynomial is: less is simpler. There is no endless fall, not even where facts
    /// that exclude each other make a class one more than itself.
    fn weight(&self, poly: &Poly) -> (usize, usize, u128) {
        let inside = poly.atoms().into_iter().map(|id| self.engine.atoms.inside(id).len()).sum();
        let sizes = poly.terms().iter().map(|(_, coefficient)| coefficient.unsigned_abs());
        (inside, poly.terms().len(), sizes.fold(0, u128::saturating_add))
    }

    fn is_simpler(&self, new: Option<&Poly>, old: Option<&Poly>) -> bool {
        match (new, old) {
            (Some(new), Some(old)) => self.weight(new) < self.weight(old),
            (new, _) => new.is_some(),
        }
    }
}

impl Analysis<Node> for Ring {
    type Data = Data;

    fn make(graph: &mut Graph, node: &Node, _: Id) -> Data {
        let Node::Op(op, [a, b]) = node else {
            let poly = graph.analysis.leaf(node);
            let dim = match node {
                Node::Int(value) => Dim::Int(*value),
                Node::Var(name) => Dim::Var(name.clone()),
                Node::Op(..) => Dim::Int(0),
            };
            return Data { poly, dim: Some((1, dim)), depends: 0 };
        };
        let (a, b) = (graph[*a].data.clone(), graph[*b].data.clone());
        let polys = a.poly.zip(b.poly);
        let poly = polys.and_then(|(a, b)| graph.analysis.operation(*op, &a, &b));
        let dims = a.dim.zip(b.dim).map(|((left, a), (right, b))| (left + right + 1, a, b));
        let short = dims.filter(|(size, ..)| *size <= MAX_SIZE);
        let dim = short.map(|(size, a, b)| (size, Dim::Op(*op, Box::new((a, b)))));
        Data { poly, dim, depends: a.depends | b.depends }
    }

    fn merge(&mut self, old: &mut Data, new: Data) -> DidMerge {
        let depends = old.depends | new.depends;
        let mut changed = DidMerge(depends != old.depends, depends != new.depends);
        old.depends = depends;
        if old.poly != new.poly {
            if self.is_simpler(new.poly.as_ref(), old.poly.as_ref()) {
                old.poly = new.poly;
                changed.0 = true;
            } else {
                changed.1 = true;
            }
        }
        if old.dim != new.dim {
            if new.dim.is_some() && (old.dim.is_none() || new.dim < old.dim) {
                old.dim = new.dim;
                changed.0 = true;
            } else {
                changed.1 = true;
            }
        }
        changed
    }
}

/// Runs `ask` with at most `share` steps of the budget.
fn with_fuel<T>(
    engine: &mut Engine,
    budget: &mut u32,
    share: u32,
    ask: impl FnOnce(&mut Engine) -> T,
) -> T {
    let share = share.min(*budget);
    engine.fuel = share;
    let answer = ask(engine);
    *budget -= share - engine.fuel.min(share);
    answer
}

/// A few assignments of the variables that satisfy the facts: one, and a walk from it.
fn samples(engine: &mut Engine, context: &Context, question: &Formula) -> Vec<Counterexample> {
    // Never holds, and mentions the variables of the question.
    let never = Formula::And(vec![question.clone(), Formula::False]);
    let first = engine
        .counterexample(context, &never, Effort::Glance)
        .or_else(|| engine.counterexample(context, &never, Effort::Full));
    let Some(mut values) = first else { return Vec::new() };
    let names: Vec<Name> = values.keys().cloned().collect();
    let mut samples = vec![values.clone()];
    for step in 0..names.len() * VALUES.len() {
        let name = &names[step % names.len()];
        let mut next = values.clone();
        next.insert(name.clone(), VALUES[(step * 3 + step / names.len()) % VALUES.len()]);
        let holds = |claim: &Claim| claim.holds(&next) == Some(true);
        if next != values && context.claims.iter().all(holds) {
            values.clone_from(&next);
            samples.push(next);
        }
        if samples.len() >= MAX_SAMPLES {
            break;
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_a_step_and_is_done_once() {
        let mut ring = Ring::new(Engine::default(), Context::default(), &Formula::True);
        let [two, three] = [2, 3].map(Poly::constant);
        for _ in 0..2 {
            let sum = ring.operation(DimOp::Add, &two, &three);
            assert_eq!((sum, ring.operations), (Some(Poly::constant(5)), ALL_OPERATIONS - 1));
        }
        ring.operations = 0;
        assert_eq!(ring.operation(DimOp::Mul, &two, &three), None);
        assert_eq!(ring.operation(DimOp::Add, &two, &three), Some(Poly::constant(5)));
    }
}
