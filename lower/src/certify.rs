//! Certificates of compilations: the prover answers what `relax-validation` asks, with proofs.

use relax_program::frontend::print;
use relax_rewrite::pipeline::{Applied, Watch};
use relax_symbolic::Prover;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Facts};
use relax_syntax::ir::Module;
use relax_validation::answers::Author;
use relax_validation::answers::recording::Recorder;
use relax_validation::certificate::{Certificate, Header, certify};
use relax_validation::derive::Stage;

/// The texts of a run of passes: what was given, and what each pass made of it that changed it.
#[derive(Clone, Debug)]
pub struct Stages {
    texts: Vec<(&'static str, String)>,
}

impl Stages {
    /// Before the first pass.
    #[must_use]
    pub fn of(input: &Module) -> Self {
        Self { texts: vec![("input", print(input))] }
    }

    /// A pass was run.
    pub fn note(&mut self, applied: &Applied) {
        if applied.changed() {
            self.texts.push((applied.pass.name, print(applied.after)));
        }
    }

    /// The end of the run. What the pipeline records beside the passes, the phase, is a stage as well.
    pub fn end(&mut self, output: &Module) {
        self.made("phase", output);
    }

    /// The certificate of the run.
    ///
    /// # Errors
    /// A text that does not read back.
    pub fn certified(&self, header: Header) -> Result<Certificate, String> {
        let stages = self.texts.iter().map(|(name, text)| Stage::read(name, text));
        let stages = stages.collect::<Result<Vec<_>, _>>()?;
        Ok(certified(header, stages))
    }
}

/// The certificate of stages that were read.
#[must_use]
pub fn certified(header: Header, stages: Vec<Stage>) -> Certificate {
    let mut recorder = Recorder::new(Box::new(|| Box::new(Proving(Prover::new()))));
    certify(header, stages, &mut recorder)
}

impl Watch for Stages {
    fn after(&mut self, applied: &Applied) -> Result<(), String> {
        self.note(applied);
        Ok(())
    }

    fn made(&mut self, what: &'static str, module: &Module) {
        let text = print(module);
        if self.texts.last().is_none_or(|(_, last)| *last != text) {
            self.texts.push((what, text));
        }
    }
}

/// The prover as one who proves.
struct Proving(Prover);

impl Facts for Proving {
    fn assume(&mut self, claim: Claim) {
        self.0.assume(claim);
    }

    fn push(&mut self) {
        self.0.push();
    }

    fn pop(&mut self) {
        self.0.pop();
    }

    fn decide(&mut self, claim: &Claim) -> Answer {
        self.0.decide(claim)
    }

    fn simplify(&mut self, dim: &Dim) -> Dim {
        self.0.simplify(dim)
    }
}

impl Author for Proving {
    fn decide_certified(&mut self, claim: &Claim) -> (Answer, Option<String>) {
        self.0.decide_certified(claim)
    }
}
