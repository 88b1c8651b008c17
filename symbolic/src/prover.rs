//! The front: scopes of facts, questions, and counts of what was decided.

use crate::claims::Formula;
use crate::context::Context;
use crate::counterexample::Effort;
use crate::engine::Engine;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Facts};

/// Steps of work for one question.
const FUEL: u32 = 20_000;
/// Steps of work before the first look for a counterexample.
const FIRST_FUEL: u32 = 600;

/// How many questions were asked and how they were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// All questions.
    pub queries: u64,
    /// Those that hold for every assignment.
    pub proved: u64,
    /// Those with a counterexample.
    pub refuted: u64,
    /// Those left to a run-time check.
    pub unknown: u64,
}

/// Decides claims by canonical polynomials, linear reasoning and small counterexamples.
#[derive(Clone, Debug, Default)]
pub struct Prover {
    engine: Engine,
    context: Context,
    /// What was known when a scope was opened, and how many atoms there were.
    outer: Vec<(Context, usize)>,
    statistics: Statistics,
}

impl Prover {
    /// A prover that knows nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What was asked so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Decides a combination of claims.
    pub fn decide_formula(&mut self, formula: &Formula) -> Answer {
        let mark = self.engine.atoms.mark();
        let answer = self.answer(formula);
        self.engine.atoms.forget_from(mark);
        self.statistics.queries += 1;
        match answer {
            Answer::Proved => self.statistics.proved += 1,
            Answer::Refuted(_) => self.statistics.refuted += 1,
            Answer::Unknown => self.statistics.unknown += 1,
        }
        answer
    }

    fn answer(&mut self, formula: &Formula) -> Answer {
        if !formula.is_moderate() {
            return Answer::Unknown;
        }
        let context = &self.context;
        self.engine.fuel = FIRST_FUEL;
        if self.engine.proves_formula(context, formula) {
            return Answer::Proved;
        }
        if let Some(values) = self.engine.counterexample(context, formula, Effort::Glance) {
            return Answer::Refuted(values);
        }
        self.engine.fuel = FUEL;
        if self.engine.proves_formula(context, formula) {
            return Answer::Proved;
        }
        let found = self.engine.counterexample(context, formula, Effort::Full);
        found.map_or(Answer::Unknown, Answer::Refuted)
    }
}

impl Facts for Prover {
    fn assume(&mut self, claim: Claim) {
        self.engine.fuel = FUEL;
        self.engine.assume(&mut self.context, &claim);
    }

    fn push(&mut self) {
        self.outer.push((self.context.clone(), self.engine.atoms.mark()));
    }

    fn pop(&mut self) {
        if let Some((context, mark)) = self.outer.pop() {
            self.context = context;
            self.engine.atoms.forget_from(mark);
        }
    }

    fn decide(&mut self, claim: &Claim) -> Answer {
        self.decide_formula(&Formula::Claim(claim.clone()))
    }

    fn simplify(&mut self, dim: &Dim) -> Dim {
        let mark = self.engine.atoms.mark();
        self.engine.fuel = FUEL;
        let simple = self.engine.simplified(&self.context, dim);
        self.engine.atoms.forget_from(mark);
        simple.unwrap_or_else(|| dim.clone())
    }
}
