//! Answers on dims that cost fuel, and are unknown when none is left.

use crate::denotation::fuel;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Facts};

/// Steps that a question counts as.
const QUESTION: usize = 10;

/// Asks another one.
pub(super) struct Metered(pub(super) Box<dyn Facts>);

impl Facts for Metered {
    fn assume(&mut self, claim: Claim) {
        fuel::burn(1);
        self.0.assume(claim);
    }

    fn push(&mut self) {
        self.0.push();
    }

    fn pop(&mut self) {
        self.0.pop();
    }

    fn decide(&mut self, claim: &Claim) -> Answer {
        fuel::burn(QUESTION);
        if fuel::is_spent() { Answer::Unknown } else { self.0.decide(claim) }
    }

    fn simplify(&mut self, dim: &Dim) -> Dim {
        if matches!(dim, Dim::Int(_)) {
            return dim.clone();
        }
        fuel::burn(QUESTION);
        if fuel::is_spent() { dim.clone() } else { self.0.simplify(dim) }
    }
}
