//! The second stage: equality saturation by the rules of `rules/dims.rules`.
//!
//! The e-graph only looks for instances of rules. What counts is decided by the first stage: a
//! question is proved when the first stage proves it with the equations of these instances as
//! further facts. So an answer is right if the rules are, and the instances are its record.

mod language;
mod ring;
mod rules;
mod search;
mod views;

#[cfg(test)]
mod tests;

use crate::claims::Formula;
use crate::context::Context;
use crate::egraph::ring::Ring;
use crate::egraph::rules::Rule;
use crate::egraph::search::{Search, Stop};
use crate::engine::{Engine, is_moderate};
use crate::ideal::Ideal;
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};
use std::collections::BTreeMap;

/// Steps of work for a proof with the equations.
const PROOF_FUEL: u32 = 5_000;
/// How many parts the dims of a question may have together.
const MAX_SIZE: usize = 600;
/// How many parts a dim may have where all divisors are numbers: the first stage is good at these.
const MAX_PLAIN_SIZE: usize = 50;
/// How often an equation may lead to further facts.
const CASCADE: u32 = 6;

/// A rule with dims for its variables: its conditions hold, so `left == right` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Instance {
    /// The rule's name in the file.
    pub(crate) rule: &'static str,
    /// What the rule's variables stand for.
    pub(crate) with: BTreeMap<Name, Dim>,
    /// The rule's conditions for these; the first stage proves each.
    pub(crate) conditions: Vec<Claim>,
    /// The rule's left side for these.
    pub(crate) left: Dim,
    /// The rule's right side for these.
    pub(crate) right: Dim,
}

impl Instance {
    fn new(rule: &Rule, with: BTreeMap<Name, Dim>) -> Self {
        Self {
            rule: rule.name,
            conditions: rule.conditions.iter().map(|claim| claim.substitute(&with)).collect(),
            left: rule.left.substitute(&with),
            right: rule.right.substitute(&with),
            with,
        }
    }

    /// Adds `left - right == 0`. The right side is read first: what it is made of is then known
    /// when the left side is read, which is the one that is replaced. That the divisors are not 0
    /// is not added.
    pub(crate) fn add_to(&self, engine: &mut Engine, context: &mut Context) {
        let equation = Claim::new(self.right.clone(), Relation::Equal, self.left.clone());
        let poly = engine.claimed(context, &equation).map(|(poly, _)| poly);
        if let Some(poly) = poly.and_then(|poly| engine.rebuild(context, &poly)) {
            engine.add_zero(context, poly, CASCADE);
        }
    }
}

/// Why the second stage proves a question.
#[derive(Clone, Debug)]
pub(crate) struct Evidence {
    /// The instances, in the order in which they were found.
    pub(crate) instances: Vec<Instance>,
    /// The facts that were used, and the hypotheses of the question if it is an implication.
    pub(crate) context: Context,
}

impl Evidence {
    /// Adds the equations of the instances to the facts.
    pub(crate) fn facts(&self, engine: &mut Engine) -> Context {
        let mut context = self.context.clone();
        for instance in &self.instances {
            instance.add_to(engine, &mut context);
        }
        context
    }
}

/// The rule of this name.
pub(crate) fn rule(name: &str) -> Option<&'static Rule> {
    rules::all().iter().find(|rule| rule.name == name)
}

/// Whether the first stage with equations of rule instances proves `formula`.
pub(crate) fn proves(engine: &mut Engine, context: &Context, formula: &Formula) -> bool {
    let question = Question::new(engine, context, formula);
    question.is_some_and(|question| question.search(engine).is_some())
}

/// A few instances whose equations, as further facts, make the first stage prove `formula`. For
/// `implies(hypothesis, conclusion)` they hold under the hypothesis, and prove the conclusion.
pub(crate) fn instances(
    engine: &mut Engine,
    context: &Context,
    formula: &Formula,
) -> Option<Evidence> {
    let question = Question::new(engine, context, formula)?;
    let mut evidence = question.search(engine)?;
    for index in (0..evidence.instances.len()).rev() {
        let without = evidence.instances.remove(index);
        if !question.follows(engine, &evidence) {
            evidence.instances.insert(index, without);
        }
    }
    Some(evidence)
}

/// What is asked, with the hypotheses of an implication among the facts.
struct Question<'a> {
    context: Context,
    formula: &'a Formula,
}

impl<'a> Question<'a> {
    /// `None` where there is nothing for rules to work on, or a hypothesis may have no value.
    fn new(engine: &mut Engine, context: &Context, formula: &'a Formula) -> Option<Self> {
        let mut question = Self { context: context.clone(), formula };
        while let Formula::Implies(parts) = question.formula {
            let mut claims = Vec::new();
            if !conjuncts(&parts.0, &mut claims) {
                break;
            }
            engine.fuel = PROOF_FUEL;
            let defined = Formula::implies(parts.0.clone(), Formula::True);
            if !engine.proves_formula(&question.context, &defined) {
                return None;
            }
            for claim in claims {
                engine.assume(&mut question.context, claim);
            }
            question.formula = &parts.1;
        }
        question.concerns_rules().then_some(question)
    }

    /// Whether an operation that is no sum or product is involved, with a divisor that is no number
    /// or in small dims.
    fn concerns_rules(&self) -> bool {
        let mut dims = Vec::new();
        self.formula.visit_dims(&mut |dim| dims.push(dim));
        if dims.iter().map(|dim| dim.size()).sum::<usize>() > MAX_SIZE {
            return false;
        }
        let asked = dims.len();
        let known = self.context.claims.iter().flat_map(|claim| [&claim.left, &claim.right]);
        dims.extend(known.filter(|dim| is_moderate(dim)));
        let symbolic = |op, divisor: &Dim| is_division(op) && divisor.as_int().is_none();
        let small = || dims[..asked].iter().all(|dim| dim.size() <= MAX_PLAIN_SIZE);
        dims.iter().any(|dim| has_operation(dim, &|op, _| !is_ring(op)))
            && (small() || dims.iter().any(|dim| has_operation(dim, &symbolic)))
    }

    /// Looks for instances and asks the first stage with them: when the sides of an equation have
    /// met, and when nothing more is found.
    fn search(&self, engine: &mut Engine) -> Option<Evidence> {
        let mut claims = Vec::new();
        self.formula.visit_claims(&mut |claim| claims.push(claim));
        let ring = Ring::new(engine.clone(), self.context.clone(), self.formula);
        let mut search = Search::new(ring, &claims);
        loop {
            let stop = search.run();
            let instances = search.used();
            let evidence = self.evidence(engine, instances);
            if evidence.is_some() || stop == Stop::Exhausted {
                return evidence;
            }
        }
    }

    /// Whether the instances suffice: first with the facts on single variables alone, which is
    /// enough for most equations and much quicker, then with all facts.
    fn evidence(&self, engine: &mut Engine, instances: Vec<Instance>) -> Option<Evidence> {
        if instances.is_empty() {
            return None;
        }
        let mut context = self.context.clone();
        context.at_least_zero.clear();
        context.zero.clear();
        context.ideal = Ideal::default();
        let mut evidence = Evidence { instances, context };
        if self.follows(engine, &evidence) {
            return Some(evidence);
        }
        evidence.context = self.context.clone();
        self.follows(engine, &evidence).then_some(evidence)
    }

    fn follows(&self, engine: &mut Engine, evidence: &Evidence) -> bool {
        let mark = engine.atoms.mark();
        engine.fuel = PROOF_FUEL;
        let context = evidence.facts(engine);
        let proved = engine.proves_formula(&context, self.formula);
        engine.forget_from(&context, mark);
        proved
    }
}

/// The claims of a conjunction; false where there is something else in it.
fn conjuncts<'a>(formula: &'a Formula, claims: &mut Vec<&'a Claim>) -> bool {
    match formula {
        Formula::True => true,
        Formula::Claim(claim) => {
            claims.push(claim);
            true
        }
        Formula::And(parts) => parts.iter().all(|part| conjuncts(part, claims)),
        _ => false,
    }
}

fn is_ring(op: DimOp) -> bool {
    matches!(op, DimOp::Add | DimOp::Sub | DimOp::Mul)
}

fn is_division(op: DimOp) -> bool {
    matches!(op, DimOp::FloorDiv | DimOp::FloorMod | DimOp::CeilDiv)
}

/// Whether an operation in `dim` is `wanted`, which is given its second operand.
fn has_operation(dim: &Dim, wanted: &dyn Fn(DimOp, &Dim) -> bool) -> bool {
    match dim {
        Dim::Int(_) | Dim::Var(_) => false,
        Dim::Op(op, operands) => {
            wanted(*op, &operands.1)
                || has_operation(&operands.0, wanted)
                || has_operation(&operands.1, wanted)
        }
    }
}
