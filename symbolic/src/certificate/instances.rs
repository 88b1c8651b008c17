//! Instances of named rules, which the e-graph found, as lines of a certificate.

use super::lines::{Case, Fact, Id, Line, Relation, RuleStep, Step};
use super::prove::Author;
use super::statements::Pending;
use crate::egraph::{Instance, rule};
use crate::tableau::opposite;
use relax_syntax::facts::{Claim, Relation as Compare};
use std::collections::BTreeMap;

/// Steps of the engine to read an equation.
const FUEL: u32 = 5000;

impl Author<'_> {
    /// Writes the equations of the instances whose conditions follow; keeps the others for later.
    pub(crate) fn use_rules(&mut self, pending: &mut Pending<'_>) {
        for instance in std::mem::take(&mut pending.instances) {
            if self.use_rule(pending, &instance).is_none() {
                pending.instances.push(instance);
            }
        }
    }

    fn use_rule(&mut self, pending: &mut Pending<'_>, instance: &Instance) -> Option<()> {
        let rule = rule(instance.rule)?;
        let mut meaning = BTreeMap::new();
        for (name, dim) in &instance.with {
            meaning.insert(name.clone(), self.read(dim, &mut Vec::new())?);
        }
        let outer = std::mem::replace(&mut self.meaning, meaning);
        let equation = Claim::new(rule.left.clone(), Compare::Equal, rule.right.clone());
        let equation = self.compared(&equation);
        let conditions: Option<Vec<Fact>> =
            rule.conditions.iter().map(|claim| self.compared(claim)).collect();
        self.meaning = outer;
        let conditions = conditions?.into_iter().zip(&instance.conditions);
        let mut facts = Vec::new();
        for (fact, claim) in conditions {
            facts.push(self.condition(pending, &fact, claim)?);
        }
        let with = instance.with.iter().map(|(name, dim)| (name.to_string(), dim.to_string()));
        let step = RuleStep { name: instance.rule, with: with.collect(), conditions: facts };
        let (id, fact) = (self.fresh(), equation?);
        self.lines.push(Line::Derived(id, Step::Rule(step), fact.clone()));
        self.learn(id, &fact);
        self.engine.fuel = FUEL;
        let context = &mut pending.context;
        let ((), events) = self.engine.observed(|engine| instance.add_to(engine, context));
        self.replay(&events);
        self.link_as_read();
        Some(())
    }

    /// A comparison as a polynomial and its relation to 0.
    fn compared(&mut self, claim: &Claim) -> Option<Fact> {
        let left = self.read(&claim.left, &mut Vec::new())?;
        let right = self.read(&claim.right, &mut Vec::new())?;
        let (poly, relation) = match claim.relation {
            Compare::Equal => (left.sub(&right)?, Relation::Equal),
            Compare::NotEqual => (left.sub(&right)?, Relation::NotEqual),
            Compare::AtMost => (right.sub(&left)?, Relation::AtLeast),
            Compare::Less => (right.sub(&left)?.plus(-1)?, Relation::AtLeast),
            Compare::Divides => return None,
        };
        Some(Fact { poly, relation })
    }

    /// A fact that says what the claim says.
    fn condition(&mut self, pending: &Pending<'_>, fact: &Fact, claim: &Claim) -> Option<Id> {
        match fact.relation {
            Relation::AtLeast => self.inequality(pending, fact, claim),
            Relation::Equal => self.zero(&fact.poly),
            Relation::NotEqual => {
                if let Some(id) = self.nonzero(&fact.poly) {
                    return Some(id);
                }
                let (a, b) = (&claim.left, &claim.right);
                let side = |poly| Fact { poly, relation: Relation::AtLeast };
                let greater = Claim::new(b.clone(), Compare::Less, a.clone());
                let above = self.inequality(pending, &side(fact.poly.plus(-1)?), &greater);
                if let Some(id) = above {
                    return Some(self.derive(Step::Apart(id), fact.poly.clone(), fact.relation));
                }
                let less = Claim::new(a.clone(), Compare::Less, b.clone());
                let below = fact.poly.subtracted_from(-1)?;
                let id = self.inequality(pending, &side(below), &less)?;
                let opposite = fact.poly.scale(-1)?;
                let id = self.derive(Step::Apart(id), opposite, fact.relation);
                Some(self.derive(Step::Negate(id), fact.poly.clone(), fact.relation))
            }
        }
    }

    fn inequality(&mut self, pending: &Pending<'_>, fact: &Fact, claim: &Claim) -> Option<Id> {
        if let Some(id) = self.known_at_least_zero(&fact.poly) {
            return Some(id);
        }
        let assumed = Fact { poly: fact.poly.subtracted_from(-1)?, relation: Relation::AtLeast };
        let alone = Pending::new(pending.context.clone(), Vec::new());
        let Case { ids, proof } = self.told(&alone, &[assumed], &[opposite(claim)])?;
        let step = Step::Lemma(ids[0], Box::new(proof));
        Some(self.derive(step, fact.poly.clone(), Relation::AtLeast))
    }
}
