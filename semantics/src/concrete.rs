//! Facts at run time: every dim is a number, so every claim is decided by evaluating it.

use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Counterexample, Facts};

/// Decides claims without variables; one with a variable is unknown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Concrete;

impl Facts for Concrete {
    fn assume(&mut self, _claim: Claim) {}

    fn push(&mut self) {}

    fn pop(&mut self) {}

    fn decide(&mut self, claim: &Claim) -> Answer {
        match claim.holds(&Counterexample::new()) {
            Some(true) => Answer::Proved,
            Some(false) => Answer::Refuted(Counterexample::new()),
            None => Answer::Unknown,
        }
    }

    fn simplify(&mut self, dim: &Dim) -> Dim {
        dim.eval(&|_| None).map_or_else(|_| dim.clone(), Dim::Int)
    }
}
