//! Answers questions by a certificate alone: a claim is proved where the certificate has a proof of it whose
//! hypotheses are all assumed at that place, and that the checker of proofs accepted.

use super::{Answers, Assumed, Source, values_back};
use crate::names::Spelling;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Facts};
use std::cell::Cell;
use std::rc::Rc;

/// Hands out the answers of a certificate.
pub struct Replayer {
    answers: Rc<Answers>,
    trusted: Rc<Cell<bool>>,
}

impl Replayer {
    /// The answers must come from [`crate::certificate::read`], which has every proof checked.
    pub(crate) fn new(answers: Answers) -> Self {
        Self { answers: Rc::new(answers), trusted: Rc::default() }
    }
}

impl Source for Replayer {
    fn facts(&mut self) -> Box<dyn Facts> {
        let (answers, trusted) = (self.answers.clone(), self.trusted.clone());
        let (spelling, assumed) = (Spelling::default(), Assumed::default());
        Box::new(Replaying { answers, trusted, spelling, assumed })
    }

    fn was_trusted(&mut self) -> bool {
        self.trusted.take()
    }
}

struct Replaying {
    answers: Rc<Answers>,
    trusted: Rc<Cell<bool>>,
    spelling: Spelling,
    assumed: Assumed,
}

impl Facts for Replaying {
    fn assume(&mut self, claim: Claim) {
        let claim = self.spelling.claim(&claim);
        self.assumed.assume(claim);
    }

    fn push(&mut self) {
        self.assumed.push();
    }

    fn pop(&mut self) {
        self.assumed.pop();
    }

    fn decide(&mut self, claim: &Claim) -> Answer {
        let claim = self.spelling.claim(claim);
        let text = claim.to_string();
        if self.assumed.include(std::slice::from_ref(&text)) {
            return Answer::Proved;
        }
        if let Some(proof) = self.answers.find(&text, &self.assumed) {
            if proof.trusted {
                self.trusted.set(true);
            }
            return Answer::Proved;
        }
        let known = self.answers.refuted.get(&text).into_iter().flatten();
        let mut values = known.filter(|values| self.assumed.refute(&claim, values));
        values.next().map_or(Answer::Unknown, |values| {
            Answer::Refuted(values_back(values, &|name| self.spelling.name_of(name)))
        })
    }

    fn simplify(&mut self, dim: &Dim) -> Dim {
        let spelled = self.spelling.dim(dim);
        let simple = self.answers.simple(&spelled, &self.assumed);
        // What a certificate brings in may only speak of what is spelled here.
        simple.map_or_else(|| dim.clone(), |simple| self.spelling.back(&simple))
    }
}
