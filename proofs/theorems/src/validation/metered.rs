//! Answers on dims that cost fuel, and are unknown when none is left.

use crate::denotation::fuel;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Facts};

/// Steps that a question counts as.
const QUESTION: usize = 10;

/// Asks another one.
pub(crate) struct Metered(pub(crate) Box<dyn Facts>);

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

#[cfg(test)]
mod tests {
    use super::*;
    use relax_syntax::facts::Relation;

    /// Answers everything.
    struct Willing;

    impl Facts for Willing {
        fn assume(&mut self, _: Claim) {}

        fn push(&mut self) {}

        fn pop(&mut self) {}

        fn decide(&mut self, _: &Claim) -> Answer {
            Answer::Proved
        }

        fn simplify(&mut self, _: &Dim) -> Dim {
            Dim::Int(7)
        }
    }

    /// The steps of some questions.
    fn cost(work: impl FnOnce(&mut Metered)) -> u64 {
        fuel::limited(100, || work(&mut Metered(Box::new(Willing)))).1
    }

    #[test]
    fn questions_cost_what_they_count_as() {
        let claim = || Claim::new(Dim::var("n"), Relation::AtMost, 3);
        assert_eq!(cost(|facts| facts.assume(claim())), 1);
        assert_eq!(cost(|facts| assert_eq!(facts.decide(&claim()), Answer::Proved)), 10);
        assert_eq!(cost(|facts| assert_eq!(facts.simplify(&Dim::var("n")), Dim::Int(7))), 10);
        assert_eq!(cost(|facts| assert_eq!(facts.simplify(&Dim::Int(5)), Dim::Int(5))), 0);
        assert_eq!(cost(|facts| (facts.push(), facts.pop()).0), 0);
    }

    #[test]
    fn nothing_is_answered_when_nothing_is_left() {
        let claim = Claim::new(Dim::var("n"), Relation::AtMost, 3);
        let (answers, spent) = fuel::limited(10, || {
            let mut facts = Metered(Box::new(Willing));
            (facts.decide(&claim), facts.simplify(&Dim::var("n")))
        });
        assert_eq!((answers, spent), ((Answer::Unknown, Dim::var("n")), 10));
    }
}
