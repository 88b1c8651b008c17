//! What came of a question, who decided it, and the counts of all questions.

use relax_syntax::facts::Answer;

/// Which part of the prover decided. Each is sound alone; a later one is asked when the earlier
/// ones did not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Canonical polynomials, bounds, linear integer steps, case splits, small counterexamples.
    Polynomial,
    /// Equality saturation by conditional rules.
    EGraph,
    /// The second attempt: the first stage's search with squares and products of facts in its linear systems.
    Thorough,
    /// The SMT solver, within its resource limit.
    Solver,
}

impl Stage {
    /// All, in the order in which they are asked.
    pub const ALL: [Stage; 4] = [Stage::Polynomial, Stage::EGraph, Stage::Thorough, Stage::Solver];

    /// The word that reports use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Stage::Polynomial => "polynomial",
            Stage::EGraph => "egraph",
            Stage::Thorough => "thorough",
            Stage::Solver => "solver",
        }
    }
}

/// An answer and the stage that gave it; for `Unknown`, the last stage that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The answer.
    pub answer: Answer,
    /// Who gave it.
    pub stage: Stage,
}

/// What one stage did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageStatistics {
    /// Questions that reached the stage.
    pub asked: u64,
    /// Those that it proved.
    pub proved: u64,
    /// Those that it refuted.
    pub refuted: u64,
    /// Nanoseconds spent, where the prover was given a clock.
    pub nanoseconds: u64,
}

/// How many questions were asked and how they were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// All questions.
    pub queries: u64,
    /// By stage, in the order of [`Stage::ALL`].
    pub stages: [StageStatistics; Stage::ALL.len()],
}

impl Statistics {
    /// Those that hold for every assignment.
    #[must_use]
    pub fn proved(&self) -> u64 {
        self.stages.iter().map(|stage| stage.proved).sum()
    }

    /// Those with a counterexample.
    #[must_use]
    pub fn refuted(&self) -> u64 {
        self.stages.iter().map(|stage| stage.refuted).sum()
    }

    /// Those left to a run-time check.
    #[must_use]
    pub fn unknown(&self) -> u64 {
        self.queries - self.proved() - self.refuted()
    }

    /// Notes a question that was answered before, by the stages that it reached then.
    pub(crate) fn note_again(&mut self, verdict: &Verdict) {
        for stage in Stage::ALL.into_iter().take_while(|stage| *stage < verdict.stage) {
            self.note(stage, &Answer::Unknown, 0);
        }
        self.note(verdict.stage, &verdict.answer, 0);
    }

    /// Notes what a stage answered.
    pub(crate) fn note(&mut self, stage: Stage, answer: &Answer, nanoseconds: u64) {
        let own = &mut self.stages[stage as usize];
        own.asked += 1;
        own.nanoseconds += nanoseconds;
        match answer {
            Answer::Proved => own.proved += 1,
            Answer::Refuted(_) => own.refuted += 1,
            Answer::Unknown => {}
        }
    }
}
