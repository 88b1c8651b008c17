//! The file: a header, the texts of the stages and of the rules that their passes used, what is not proved, and the answers with their proofs
//! (`docs/CERTIFICATES.md`).

mod lines;
mod reader;

pub use reader::read;

use crate::answers::Answers;
use crate::answers::replaying::Replayer;
use crate::answers::{Source, recording::Recorder};
use crate::derive::{Counts, Stage, obligations_of};
use crate::obligation::{Obligation, Outcome};
use serde_json::{Value, json};
use std::fmt::Write;

/// What a compilation was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The phase that was asked for, or the passes.
    pub route: String,
    /// What code is made for.
    pub target: String,
    /// In how many runs, of functions on random dims and inputs, the interpreter saw no difference between the input
    /// and what a pass made of it; 0 where that was not tried.
    pub tested: u64,
}

/// A certificate, read or about to be written.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// What the compilation was.
    pub header: Header,
    /// The input, then the module after each pass that changed it.
    pub stages: Vec<Stage>,
    /// Every obligation with its outcome.
    pub obligations: Vec<Obligation>,
    pub(crate) answers: Answers,
}

/// What a certificate says of its obligations: those that are not proved by rules, and counts of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) open: Vec<(String, String)>,
    pub(crate) summary: Value,
}

impl Said {
    pub(crate) fn of(obligations: &[Obligation]) -> Self {
        let open = obligations.iter().filter(|obligation| obligation.outcome != Outcome::Proved);
        let open = open.map(|each| (each.to_string(), each.outcome.word().to_owned())).collect();
        let counts = Counts::of(obligations);
        let mut summary = serde_json::Map::new();
        for kind in counts.kinds() {
            let of_kind: serde_json::Map<String, Value> = Outcome::WORDS
                .iter()
                .map(|word| ((*word).to_owned(), json!(counts.count(kind, word))))
                .collect();
            summary.insert(kind.name().to_owned(), Value::Object(of_kind));
        }
        Self { open, summary: Value::Object(summary) }
    }
}

/// Derives the obligations of a compilation with a prover that notes its answers. What the notes do not answer
/// again counts as not proved.
pub fn certify(header: Header, stages: Vec<Stage>, recorder: &mut Recorder) -> Certificate {
    let first = obligations_of(&header.route, &stages, recorder);
    recorder.was_trusted();
    let answers = recorder.answers();
    let mut replayer = Replayer::new(answers.clone());
    let mut again = obligations_of(&header.route, &stages, &mut replayer);
    for (noted, replayed) in first.into_iter().zip(&mut again) {
        if noted.refuses() {
            replayed.outcome = noted.outcome;
        }
    }
    Certificate { header, stages, obligations: again, answers }
}

impl Certificate {
    /// The text of the file.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("invariant: a string takes everything");
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let Header { route, target, tested } = &self.header;
        let hash = |stage: Option<&Stage>| stage.map_or_else(String::new, Stage::hash);
        let (input, output) = (hash(self.stages.first()), hash(self.stages.last()));
        writeln!(
            text,
            "{{\"relax\": \"compilation\", \"version\": 1, \"route\": {}, \"target\": {}, \"tested\": {tested}, \
             \"input\": \"{input}\", \"output\": \"{output}\"}}",
            json!(route),
            json!(target)
        )?;
        // Stages that mean the same could change places: each names the one before it.
        let mut after = String::new();
        for stage in &self.stages {
            let (name, hash, body) = (json!(stage.name), stage.hash(), json!(stage.text));
            writeln!(
                text,
                "{{\"stage\": {name}, \"after\": \"{after}\", \"sha256\": \"{hash}\", \"text\": {body}}}"
            )?;
            after = hash;
            for used in &stage.rules {
                let (name, hash, body) = (json!(used.name()), used.hash(), json!(used.text));
                writeln!(text, "{{\"rule\": {name}, \"sha256\": \"{hash}\", \"text\": {body}}}")?;
            }
        }
        let said = Said::of(&self.obligations);
        for (obligation, outcome) in &said.open {
            let obligation = json!(obligation);
            writeln!(text, "{{\"obligation\": {obligation}, \"outcome\": \"{outcome}\"}}")?;
        }
        writeln!(text, "{{\"summary\": {}}}", said.summary)?;
        lines::write(text, &self.answers)
    }
}
