//! A question in canonical order, so that the same question always becomes the same text: variables
//! by number in the order in which they occur, facts sorted, and only those that can matter.

use crate::claims::Formula;
use crate::engine::is_moderate;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::Claim;
use std::collections::{BTreeMap, BTreeSet};

/// How many parts of dims a question may have.
const MAX_SIZE: usize = 4000;

/// What holds, what is asked, and the variables by number.
pub(crate) struct Question<'a> {
    /// Facts that are connected with the formula through variables.
    pub(crate) facts: Vec<&'a Claim>,
    pub(crate) formula: &'a Formula,
    /// All variables, in order of occurrence: first those of the formula.
    pub(crate) variables: Vec<Name>,
    pub(crate) numbers: BTreeMap<Name, usize>,
}

impl<'a> Question<'a> {
    /// The question whether `formula` holds, with the facts that are connected with it: leaving out
    /// others proves less, and nothing wrong. `None` where it is too big.
    pub(crate) fn new(
        facts: impl Iterator<Item = &'a Claim>,
        formula: &'a Formula,
    ) -> Option<Self> {
        let (variables, numbers) = (Vec::new(), BTreeMap::new());
        let mut question = Self { facts: Vec::new(), formula, variables, numbers };
        if !formula.is_moderate() {
            return None;
        }
        formula.visit_dims(&mut |dim| question.number(dim));
        let moderate = |fact: &&Claim| is_moderate(&fact.left) && is_moderate(&fact.right);
        let mut left: Vec<&Claim> = facts.filter(moderate).collect();
        while question.take_layer(&mut left) {}
        question.is_small().then_some(question)
    }

    /// The question whether an assignment satisfies all of `facts`; the formula is `False`.
    #[cfg(feature = "z3")]
    pub(crate) fn of_facts(facts: &[&'a Claim]) -> Option<Self> {
        let mut left = facts.to_vec();
        let mut question = Self::new([].into_iter(), &Formula::False)?;
        while let Some(first) = left.first() {
            question.number(&first.left);
            question.number(&first.right);
            if !question.take_layer(&mut left) {
                question.facts.push(left.remove(0));
            }
        }
        question.is_small().then_some(question)
    }

    fn number(&mut self, dim: &Dim) {
        dim.visit_vars(&mut |name| {
            if !self.numbers.contains_key(name) {
                self.numbers.insert(name.clone(), self.variables.len());
                self.variables.push(name.clone());
            }
        });
    }

    /// Takes the facts that share a variable with what is there; false if there are none.
    fn take_layer(&mut self, left: &mut Vec<&'a Claim>) -> bool {
        let is_near = |fact: &Claim| {
            let foreign = |name: &Name| !self.numbers.contains_key(name);
            !(fact.left.vars_all(&foreign) && fact.right.vars_all(&foreign))
        };
        let (mut near, far): (Vec<&Claim>, Vec<&Claim>) =
            std::mem::take(left).into_iter().partition(|fact| is_near(fact));
        near.sort_by_cached_key(|fact| self.key(fact));
        near.dedup();
        for fact in &near {
            self.number(&fact.left);
            self.number(&fact.right);
        }
        *left = far;
        let found = !near.is_empty();
        self.facts.append(&mut near);
        found
    }

    /// The text of a fact with numbers for variables; new ones get numbers of its own.
    fn key(&self, fact: &Claim) -> String {
        let mut map = BTreeMap::new();
        let mut fresh = BTreeSet::new();
        for dim in [&fact.left, &fact.right] {
            dim.visit_vars(&mut |name| {
                let number = self.numbers.get(name).map(|number| format!("v{number}"));
                if number.is_none() && fresh.insert(name.clone()) {
                    map.insert(name.clone(), Dim::var(format!("w{}", fresh.len())));
                }
                number.into_iter().for_each(|v| _ = map.insert(name.clone(), Dim::var(v)));
            });
        }
        Formula::Claim(fact.substitute(&map)).to_string()
    }

    fn is_small(&self) -> bool {
        let mut size = 0;
        self.formula.visit_dims(&mut |dim| size += dim.size());
        size += self.facts.iter().map(|fact| fact.left.size() + fact.right.size()).sum::<usize>();
        size <= MAX_SIZE
    }
}
