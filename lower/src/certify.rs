//! Certificates of compilations: the prover answers what `relax-validation` asks, with proofs.

use relax_program::frontend::print;
use relax_rewrite::pipeline::{Applied, Watch};
use relax_rewrite::saturation::Report;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Facts};
use relax_syntax::ir::Module;
use relax_validation::answers::Author;
use relax_validation::answers::recording::Recorder;
use relax_validation::certificate::{Certificate, Header, certify};
use relax_validation::derive::Stage;
use relax_validation::used_rules::UsedRule;
use std::sync::Arc;

/// The texts of a run of passes: what was given, and what each pass made of it that changed it.
#[derive(Clone, Debug)]
pub struct Stages {
    texts: Vec<Text>,
}

/// What a pass left, and by which rules.
#[derive(Clone, Debug)]
struct Text {
    pass: &'static str,
    text: String,
    /// By name.
    rules: Vec<(Name, Arc<str>)>,
}

impl Text {
    fn of(pass: &'static str, module: &Module) -> Self {
        Self { pass, text: print(module), rules: Vec::new() }
    }

    fn stage(&self) -> Result<Stage, String> {
        let rules = self.rules.iter().map(|(name, text)| UsedRule::read(name.as_str(), text));
        let rules = rules.collect::<Result<_, _>>()?;
        let mut stage = Stage::read(self.pass, &self.text)?;
        stage.rules = rules;
        Ok(stage)
    }
}

impl Stages {
    /// Before the first pass.
    #[must_use]
    pub fn of(input: &Module) -> Self {
        Self { texts: vec![Text::of("input", input)] }
    }

    /// A pass was run.
    pub fn note(&mut self, applied: &Applied) {
        if applied.changed() {
            let used = applied.rewrites.map(Report::rules_used).unwrap_or_default();
            let rules = used.into_iter().map(|rule| (rule.name.clone(), Arc::clone(&rule.text)));
            let rules = rules.collect();
            self.texts.push(Text { rules, ..Text::of(applied.pass.name, applied.after) });
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
        let stages = self.texts.iter().map(Text::stage).collect::<Result<Vec<_>, _>>()?;
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
        let made = Text::of(what, module);
        if self.texts.last().is_none_or(|last| last.text != made.text) {
            self.texts.push(made);
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
