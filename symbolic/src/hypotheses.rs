//! What is known as statements: plain claims become facts, the rest hypotheses of what is asked.

use crate::claims::Formula;
use crate::prover::Prover;
use relax_syntax::facts::Facts;

impl Prover {
    /// Takes statements as known in the innermost scope. Claims, and conjunctions of them, become
    /// facts. Those with other connectives come back: they are hypotheses of what is asked, for
    /// [`Formula::under`].
    pub fn suppose(&mut self, statements: impl IntoIterator<Item = Formula>) -> Vec<Formula> {
        let mut hypotheses = Vec::new();
        let mut pending: Vec<Formula> = statements.into_iter().collect();
        pending.reverse();
        while let Some(statement) = pending.pop() {
            match statement {
                Formula::True => {}
                Formula::Claim(claim) => self.assume(claim),
                Formula::And(parts) => pending.extend(parts.into_iter().rev()),
                other => hypotheses.push(other),
            }
        }
        hypotheses
    }
}

impl Formula {
    /// The statement wherever all of `hypotheses` hold.
    #[must_use]
    pub fn under(self, hypotheses: &[Formula]) -> Self {
        if hypotheses.is_empty() {
            self
        } else {
            Formula::implies(Formula::And(hypotheses.to_vec()), self)
        }
    }
}
