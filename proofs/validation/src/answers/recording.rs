//! Notes the answers of a prover: each claim with its proof, once for all places where what it follows from is
//! assumed. What has no certificate is not answered, so that whoever checks can follow.

use super::{Answers, Assumed, Author, Proof, Simple, Source, equation, values_back};
use crate::names::Spelling;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Facts};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Notes what its provers answer.
pub struct Recorder {
    make: Box<dyn FnMut() -> Box<dyn Author>>,
    log: Rc<RefCell<Log>>,
}

#[derive(Default)]
struct Log {
    answers: Answers,
    trusted: bool,
    /// Claims that were proved without a certificate, with what was assumed then: the search for one is long, and
    /// is not repeated.
    lost: BTreeMap<String, Vec<Assumed>>,
}

impl Recorder {
    /// With a maker of provers that know nothing.
    #[must_use]
    pub fn new(make: Box<dyn FnMut() -> Box<dyn Author>>) -> Self {
        Self { make, log: Rc::default() }
    }

    /// What was answered so far.
    #[must_use]
    pub fn answers(&self) -> Answers {
        self.log.borrow().answers.clone()
    }

    /// Claims that were proved, but for which no certificate was found: they count as not decided.
    #[must_use]
    pub fn lost(&self) -> usize {
        self.log.borrow().lost.values().map(Vec::len).sum()
    }
}

impl Source for Recorder {
    fn facts(&mut self) -> Box<dyn Facts> {
        let (spelling, assumed) = (Spelling::default(), Assumed::default());
        Box::new(Recording { inner: (self.make)(), log: self.log.clone(), spelling, assumed })
    }

    fn was_trusted(&mut self) -> bool {
        std::mem::take(&mut self.log.borrow_mut().trusted)
    }
}

struct Recording {
    inner: Box<dyn Author>,
    log: Rc<RefCell<Log>>,
    spelling: Spelling,
    assumed: Assumed,
}

impl Recording {
    /// Whether a claim in spelled names is proved and noted.
    fn proves(&mut self, claim: &Claim) -> Answer {
        let text = claim.to_string();
        if self.assumed.include(std::slice::from_ref(&text)) {
            return Answer::Proved;
        }
        let mut log = self.log.borrow_mut();
        if let Some(proof) = log.answers.find(&text, &self.assumed) {
            let trusted = proof.trusted;
            log.trusted |= trusted;
            return Answer::Proved;
        }
        let lost = log.lost.get(&text).into_iter().flatten();
        if lost.into_iter().any(|assumed| assumed.claims == self.assumed.claims) {
            return Answer::Unknown;
        }
        let (answer, certificate) = self.inner.decide_certified(claim);
        if answer != Answer::Proved {
            return answer;
        }
        let proof = certificate.and_then(|text| read(text, &claim.to_string()));
        let Some(proof) = proof.filter(|proof| self.assumed.include(&proof.hypotheses)) else {
            log.lost.entry(text).or_default().push(self.assumed.clone());
            return Answer::Unknown;
        };
        log.trusted |= proof.trusted;
        log.answers.proved.entry(text).or_default().push(proof);
        Answer::Proved
    }
}

/// A certificate as it is kept; `None` where it is not one of this claim.
fn read(text: String, claim: &str) -> Option<Proof> {
    let mut lines = text.lines();
    let header: Value = serde_json::from_str(lines.next()?).ok()?;
    let second: Value = serde_json::from_str(lines.next()?).ok()?;
    let hypotheses = header["hypotheses"].as_array()?.iter();
    let hypotheses: Option<Vec<String>> =
        hypotheses.map(|each| each.as_str().map(str::to_owned)).collect();
    let mut hypotheses = hypotheses?;
    hypotheses.sort();
    let trusted = second.get("trust").is_some();
    (header["goal"].as_str()? == claim).then_some(Proof { hypotheses, text, trusted })
}

impl Facts for Recording {
    fn assume(&mut self, claim: Claim) {
        let claim = self.spelling.claim(&claim);
        self.assumed.assume(claim.clone());
        self.inner.assume(claim);
    }

    fn push(&mut self) {
        self.assumed.push();
        self.inner.push();
    }

    fn pop(&mut self) {
        self.assumed.pop();
        self.inner.pop();
    }

    fn decide(&mut self, claim: &Claim) -> Answer {
        let claim = self.spelling.claim(claim);
        match self.proves(&claim) {
            Answer::Refuted(values) if self.assumed.refute(&claim, &values) => {
                let mut log = self.log.borrow_mut();
                let known = log.answers.refuted.entry(claim.to_string()).or_default();
                if !known.contains(&values) {
                    known.push(values.clone());
                }
                // Whoever replays takes the first one that fits: what comes of it must be the same here.
                let first = known.iter().find(|values| self.assumed.refute(&claim, values));
                let values = first.unwrap_or(&values);
                Answer::Refuted(values_back(values, &|name| self.spelling.name_of(name)))
            }
            Answer::Refuted(_) | Answer::Unknown => Answer::Unknown,
            Answer::Proved => Answer::Proved,
        }
    }

    fn simplify(&mut self, dim: &Dim) -> Dim {
        let spelled = self.spelling.dim(dim);
        if let Some(simple) = self.log.borrow().answers.simple(&spelled, &self.assumed) {
            return self.spelling.back(&simple);
        }
        let simple = self.inner.simplify(&spelled);
        let equation = equation(&spelled, &simple);
        if simple == spelled || self.proves(&equation) != Answer::Proved {
            return dim.clone();
        }
        let mut log = self.log.borrow_mut();
        let proof = log.answers.find(&equation.to_string(), &self.assumed);
        // Without a proof it is assumed itself.
        let given = proof.map_or_else(|| vec![equation.to_string()], |p| p.hypotheses.clone());
        let known = log.answers.equal.entry(spelled.to_string()).or_default();
        known.push(Simple { dim: simple.clone(), given });
        self.spelling.back(&simple)
    }
}
