//! The front: scopes of facts, questions, and counts of what was decided.

use crate::asked;
use crate::certificate::{self, Keep};
use crate::claims::Formula;
use crate::context::Context;
use crate::counterexample::Effort;
use crate::egraph;
use crate::engine::Engine;
use crate::lemmas::Stamp;
use crate::memory::{Assumed, Known, Memory};
use crate::missing;
use crate::solver::Trusted;
#[cfg(feature = "z3")]
use crate::solver::{self, Decision};
use crate::verdict::{Stage, Statistics, Verdict};
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Facts};

/// Steps of work for one question.
const FUEL: u32 = 20_000;
/// Steps of work before the first look for a counterexample.
const FIRST_FUEL: u32 = 600;

/// How often a question is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Attempts {
    #[default]
    One,
    Two,
}

/// Decides claims by canonical polynomials, linear reasoning and small counterexamples.
#[derive(Clone, Debug, Default)]
pub struct Prover {
    pub(crate) engine: Engine,
    pub(crate) context: Context,
    /// Which facts these are.
    known: Known,
    /// What was known when a scope was opened, and how many atoms there were.
    outer: Vec<(Context, Known, usize)>,
    memory: Memory,
    statistics: Statistics,
    /// Nanoseconds since some start; only for the statistics.
    clock: Option<fn() -> u64>,
    /// Whether questions that the first steps and the e-graph leave open are asked once more.
    attempts: Attempts,
    /// The solver's steps for one question; it is not asked where this is absent.
    solver: Option<u32>,
    /// What the last proof rests on, where the solver gave it.
    trusted: Option<Trusted>,
}

impl Prover {
    /// A prover that knows nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A prover that asks the solver what is not decided otherwise, with a limit of steps for each
    /// question (1,000,000 take about half a second). A compiler asks many questions whose answer is
    /// unknown, and each would take that long: this is for questions that people ask. In a build
    /// without the solver it is like [`Prover::new`].
    #[must_use]
    pub fn with_solver(rlimit: u32) -> Self {
        Self { solver: Some(rlimit), ..Self::default() }
    }

    /// The same prover with a second attempt at what the first steps and the e-graph leave open, before the solver: further rows
    /// in linear systems, squares and products of facts above all. It costs milliseconds where it fails. A compiler asks
    /// many questions that stay open, so this is for questions that people ask, too.
    #[must_use]
    pub fn with_second_attempt(self) -> Self {
        let mut prover = Self { attempts: Attempts::Two, ..self };
        // What is remembered was answered without.
        prover.memory.forget();
        prover
    }

    /// Sets the solver's limit of steps; `None` switches it off.
    pub fn limit_solver(&mut self, rlimit: Option<u32>) {
        self.solver = rlimit;
    }

    /// What the proof of the last question rests on, where the solver gave it.
    #[must_use]
    pub fn trusted(&self) -> Option<&Trusted> {
        self.trusted.as_ref()
    }

    /// What was asked so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// A prover that notes how long its stages take, by a clock that counts nanoseconds.
    #[must_use]
    pub fn timed(clock: fn() -> u64) -> Self {
        Self { clock: Some(clock), ..Self::default() }
    }

    /// Decides a combination of claims.
    pub fn decide_formula(&mut self, formula: &Formula) -> Answer {
        self.judge(formula).answer
    }

    /// Decides a combination of claims and says which stage did.
    pub fn judge(&mut self, formula: &Formula) -> Verdict {
        self.statistics.queries += 1;
        self.trusted = None;
        if !formula.is_moderate() {
            return Verdict { answer: Answer::Unknown, stage: Stage::Polynomial };
        }
        // What the solver proves rests on the text and the limit of that very question.
        if self.solver.is_some() {
            return self.judge_anew(formula);
        }
        let key = (self.known, formula.clone());
        if let Some(verdict) = self.memory.verdict(&key) {
            self.statistics.note_again(verdict);
            return verdict.clone();
        }
        let verdict = self.judge_anew(formula);
        self.memory.keep(key, verdict.clone());
        verdict
    }

    fn judge_anew(&mut self, formula: &Formula) -> Verdict {
        let mut verdict = Verdict { answer: Answer::Unknown, stage: Stage::Polynomial };
        for stage in Stage::ALL {
            let start = self.clock.map(|clock| clock());
            let Some(answer) = self.ask(stage, formula) else { continue };
            let elapsed = self.clock.zip(start).map_or(0, |(clock, start)| clock() - start);
            self.statistics.note(stage, &answer, elapsed);
            verdict = Verdict { answer, stage };
            if verdict.answer != Answer::Unknown {
                break;
            }
        }
        asked::note(&self.context.claims, formula, &verdict.answer);
        verdict
    }

    /// A certificate that the facts imply `formula`, in the form that `docs/CERTIFICATES.md` defines;
    /// `None` where that is not proved, or none is found. What only the solver proves is trusted, not
    /// shown.
    pub fn certificate(&mut self, formula: &Formula) -> Option<String> {
        self.certified(formula, Keep::All).1
    }

    /// The answer to a claim; with a certificate, whose hypotheses are only those facts that its proof needs,
    /// where it is proved and one is found.
    pub fn decide_certified(&mut self, claim: &Claim) -> (Answer, Option<String>) {
        self.certified(&Formula::Claim(claim.clone()), Keep::Needed)
    }

    fn certified(&mut self, formula: &Formula, keep: Keep) -> (Answer, Option<String>) {
        let Verdict { answer, stage } = self.judge(formula);
        if answer != Answer::Proved {
            return (answer, None);
        }
        let facts = &self.context.claims;
        let certificate = match stage {
            Stage::Polynomial => certificate::written(facts, formula, keep),
            Stage::EGraph => certificate::written_with_rules(facts, formula, keep),
            Stage::Thorough => certificate::written_thoroughly(facts, formula, keep),
            Stage::Solver => {
                self.trusted.as_ref().map(|trusted| certificate::trusting(facts, formula, trusted))
            }
        };
        (answer, certificate)
    }

    /// The answer of one stage; `None` where it is not there.
    fn ask(&mut self, stage: Stage, formula: &Formula) -> Option<Answer> {
        let mark = self.engine.atoms.mark();
        let proved = |is_proved| if is_proved { Answer::Proved } else { Answer::Unknown };
        let answer = match stage {
            Stage::Polynomial => self.answer(formula),
            Stage::EGraph => proved(egraph::proves(&mut self.engine, &self.context, formula)),
            Stage::Thorough if self.attempts == Attempts::One => return None,
            Stage::Thorough => proved(self.engine.proves_thoroughly(&self.context, formula)),
            Stage::Solver => return self.solver.and_then(|rlimit| self.solve(formula, rlimit)),
        };
        self.engine.forget_from(&self.context, mark);
        Some(answer)
    }

    #[cfg(feature = "z3")]
    fn solve(&mut self, formula: &Formula, rlimit: u32) -> Option<Answer> {
        Some(match solver::decide(&self.context.claims, formula, rlimit) {
            Decision::Proved(trusted) => {
                self.trusted = Some(trusted);
                Answer::Proved
            }
            Decision::Refuted(values) => {
                let rest = |facts: &[&Claim]| solver::witness(facts, rlimit);
                let values = self.engine.completed(&self.context, formula, values, rest);
                values.map_or(Answer::Unknown, Answer::Refuted)
            }
            Decision::Unknown => Answer::Unknown,
        })
    }

    #[cfg(not(feature = "z3"))]
    fn solve(&mut self, _: &Formula, _: u32) -> Option<Answer> {
        None
    }

    fn answer(&mut self, formula: &Formula) -> Answer {
        let context = &self.context;
        for (fuel, effort) in [(FIRST_FUEL, Effort::Glance), (FUEL, Effort::Full)] {
            self.engine.fuel = fuel;
            if self.engine.proves_formula(context, formula) {
                return Answer::Proved;
            }
            if let Some(values) = self.engine.counterexample(context, formula, effort) {
                return Answer::Refuted(values);
            }
        }
        Answer::Unknown
    }
}

impl Facts for Prover {
    fn assume(&mut self, claim: Claim) {
        let (known, mark) = (self.known, self.engine.atoms.mark());
        let key = (known, claim);
        match self.memory.assumed(&key, mark) {
            Some(assumed) => {
                assumed.atoms.iter().for_each(|atom| _ = self.engine.atoms.intern(atom.clone()));
                self.context = assumed.context.clone();
            }
            None => {
                self.engine.fuel = FUEL;
                self.engine.assume(&mut self.context, &key.1);
                // After other facts than this one, these numbers are those of other atoms.
                self.engine.lemmas.forget_from(known, mark);
                let atoms = self.engine.atoms.since(mark).to_vec();
                let context = self.context.clone();
                self.memory.keep_assumed(key.clone(), Assumed { context, mark, atoms });
            }
        }
        self.known = self.memory.with(key);
        self.context.stamp = Stamp(Some(self.known));
    }

    fn push(&mut self) {
        self.outer.push((self.context.clone(), self.known, self.engine.atoms.mark()));
    }

    fn pop(&mut self) {
        if let Some((context, known, mark)) = self.outer.pop() {
            (self.context, self.known) = (context, known);
            self.context.stamp = Stamp(Some(known));
            self.engine.atoms.forget_from(mark);
        }
    }

    fn decide(&mut self, claim: &Claim) -> Answer {
        self.decide_formula(&Formula::Claim(claim.clone()))
    }

    fn missing(&mut self, claim: &Claim) -> Vec<Claim> {
        missing::deciding(self, claim)
    }

    fn simplify(&mut self, dim: &Dim) -> Dim {
        let key = (self.known, dim.clone());
        if let Some(simple) = self.memory.simple(&key) {
            return simple.clone();
        }
        let mark = self.engine.atoms.mark();
        self.engine.fuel = FUEL;
        let simple = self.engine.simplified(&self.context, dim);
        self.engine.forget_from(&self.context, mark);
        let simple = simple.unwrap_or_else(|| dim.clone());
        self.memory.keep_simple(key, simple.clone());
        simple
    }
}
