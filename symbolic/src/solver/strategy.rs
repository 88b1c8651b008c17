//! In which order what is asked, and how many steps each may take: a proof by either encoding,
//! shortly, then counterexamples in small boxes, then both with what is left of the budget.

use super::encoding::{Encoding, Goal, text};
use super::library::{Outcome, Run, run, version};
use super::question::Question;
use super::{Trusted, text_hash};
use crate::claims::Formula;
use relax_syntax::facts::{Claim, Counterexample};

/// How far from 0 the variables of a counterexample may be, in the order in which this is tried.
const BOXES: [Option<i64>; 9] = [
    Some(1),
    Some(3),
    Some(8),
    Some(32),
    Some(256),
    Some(1 << 14),
    Some(1 << 31),
    Some(1 << 46),
    None,
];
/// How many boxes are tried when it is not known that a counterexample exists.
const SMALL_BOXES: usize = 4;

/// What the solver found.
pub(crate) enum Decision {
    /// The formula holds wherever the facts do.
    Proved(Trusted),
    /// It fails here, and the facts that are connected with it hold; this was evaluated.
    Refuted(Counterexample),
    /// Nothing within the limit.
    Unknown,
}

/// A question and the steps that are left for it.
struct Attempt<'a> {
    question: Question<'a>,
    left: u32,
}

/// Decides a formula under the facts that are connected with it, within `rlimit` steps by z3's count.
pub(crate) fn decide(facts: &[Claim], formula: &Formula, rlimit: u32) -> Decision {
    let Some(question) = Question::new(facts.iter(), formula) else { return Decision::Unknown };
    let mut attempt = Attempt { question, left: rlimit };
    for share in [8, 2] {
        for encoding in Encoding::ALL {
            let limit = attempt.left / share;
            match attempt.prove(encoding, limit) {
                Outcome::Unsatisfiable => {
                    return attempt.trusted(encoding, limit);
                }
                // There is a counterexample, or it has no value somewhere.
                Outcome::Satisfiable(_) => return attempt.refute(&BOXES),
                Outcome::Unknown => {}
            }
        }
        if share == 8 {
            let found = attempt.refute(&BOXES[..SMALL_BOXES]);
            if !matches!(found, Decision::Unknown) {
                return found;
            }
        }
    }
    Decision::Unknown
}

/// An assignment that satisfies all of `facts`, evaluated.
pub(crate) fn witness(facts: &[&Claim], rlimit: u32) -> Option<Counterexample> {
    let question = Question::of_facts(facts)?;
    match (Attempt { question, left: rlimit }).refute(&BOXES) {
        Decision::Refuted(values) => Some(values),
        Decision::Proved(_) | Decision::Unknown => None,
    }
}

impl Attempt<'_> {
    fn ask(&mut self, encoding: Encoding, goal: Goal, limit: u32) -> Outcome {
        // z3 takes 0 for no limit.
        if limit == 0 {
            return Outcome::Unknown;
        }
        let Some(text) = text(&self.question, encoding, goal) else { return Outcome::Unknown };
        let Run { outcome, used } = run(&text, self.question.variables.len(), limit);
        self.left = self.left.saturating_sub(used);
        outcome
    }

    fn prove(&mut self, encoding: Encoding, limit: u32) -> Outcome {
        self.ask(encoding, Goal::Refused, limit)
    }

    fn trusted(&self, encoding: Encoding, rlimit: u32) -> Decision {
        let text = text(&self.question, encoding, Goal::Refused);
        let question = text.as_deref().map(text_hash);
        question.map_or(Decision::Unknown, |question| {
            Decision::Proved(Trusted { version: version(), encoding, rlimit, question })
        })
    }

    fn refute(&mut self, boxes: &[Option<i64>]) -> Decision {
        for (index, bound) in boxes.iter().enumerate() {
            let limit = self.left / u32::try_from(boxes.len() - index + 1).expect("few boxes");
            let goal = Goal::Fails(*bound);
            let Outcome::Satisfiable(Some(values)) =
                self.ask(Encoding::QuotientRemainder, goal, limit)
            else {
                continue;
            };
            let names = self.question.variables.iter().cloned();
            let values: Counterexample = names.zip(values).collect();
            if self.is_counterexample(&values) {
                return Decision::Refuted(self.shrunk(values));
            }
        }
        Decision::Unknown
    }

    /// By the meaning of dims, which knows nothing of the solver.
    fn is_counterexample(&self, values: &Counterexample) -> bool {
        self.question.facts.iter().all(|fact| fact.holds(values) == Some(true))
            && self.question.formula.holds(values) == Some(false)
    }

    /// Brings single variables closer to 0 as long as it stays a counterexample.
    fn shrunk(&self, mut values: Counterexample) -> Counterexample {
        for name in &self.question.variables {
            let old = values[name];
            for value in candidates(old) {
                values.insert(name.clone(), value);
                if self.is_counterexample(&values) {
                    break;
                }
                values.insert(name.clone(), old);
            }
        }
        values
    }
}

/// Values closer to 0 than `value`, the closest first.
fn candidates(value: i64) -> impl Iterator<Item = i64> {
    let near = (0..=16_i64).flat_map(|near| [near, -near]);
    let halves = (1..62).rev().map(move |shift| value / (1_i64 << shift));
    near.chain(halves).filter(move |near| near.unsigned_abs() < value.unsigned_abs())
}
