//! Verification: the obligations are derived from the texts again, and answered by the certificate alone.

use crate::answers::replaying::Replayer;
use crate::certificate::{Header, Said, read};
use crate::derive::{EQUIVALENCE, Stage, hash, obligations_of};
use crate::obligation::{Kind, Obligation, Outcome};
use relax_semantics::check::Phase;

/// A certificate that was accepted.
#[derive(Clone, Debug)]
pub struct Verified {
    /// What the compilation was.
    pub header: Header,
    /// Every obligation, and how far it is known.
    pub obligations: Vec<Obligation>,
    /// How many claims on dims were proved.
    pub claims: usize,
    /// The text that was given.
    pub input: String,
    /// The text that was made.
    pub output: String,
}

/// Whether a text is a certificate of a compilation.
#[must_use]
pub fn is_compilation(text: &str) -> bool {
    let first = text.lines().next().unwrap_or("");
    serde_json::from_str::<serde_json::Value>(first)
        .is_ok_and(|line| line["relax"] == "compilation")
}

/// Verifies a certificate; with a program, that it is the one that was made.
///
/// # Errors
/// Why it is refused.
pub fn verify(certificate: &str, program: Option<&str>) -> Result<Verified, String> {
    let read = read(certificate)?;
    let text = |stage: Option<&Stage>| stage.map(|stage| stage.text.clone()).unwrap_or_default();
    let (input, output) = (text(read.stages.first()), text(read.stages.last()));
    if program.is_some_and(|program| hash(program) != hash(&output)) {
        return Err("the program is not the one that the certificate is about".to_owned());
    }
    if read.header.route != EQUIVALENCE {
        in_order(&read.stages)?;
    }
    let (claims, _) = read.answers.counts();
    let mut replayer = Replayer::new(read.answers);
    let obligations = obligations_of(&read.header.route, &read.stages, &mut replayer);
    if let Some(refuted) = obligations.iter().find(|each| each.refuses()) {
        let why = refuted.why();
        return Err(format!("{refuted} is refuted: {why}"));
    }
    let derived = Said::of(&obligations);
    if let Some((open, _)) = derived.open.iter().find(|open| !read.said.open.contains(open)) {
        return Err(format!("{open} is not proved, and the certificate does not say so"));
    }
    if derived != read.said {
        return Err("the certificate does not say of its obligations what is derived".to_owned());
    }
    Ok(Verified { header: read.header, obligations, claims, input, output })
}

/// Compilation goes from phase to phase, and never back. That stages mean the same does not tell in which order they were made.
fn in_order(stages: &[Stage]) -> Result<(), String> {
    let mut last = Phase::Surface;
    for stage in stages {
        let name = &stage.name;
        let phase = Phase::of_module(&stage.module).map_err(|phase| {
            format!("the stage `{name}` has the phase {phase}, which there is not")
        })?;
        if phase < last {
            return Err(format!(
                "the stage `{name}` is of an earlier phase than the one before it"
            ));
        }
        last = phase;
    }
    Ok(())
}

impl Obligation {
    /// Whether no certificate holds with it: it is refuted, and it is no access of a kernel. Such an access is a trap of the program,
    /// which every kernel keeps.
    #[must_use]
    pub fn refuses(&self) -> bool {
        matches!(self.outcome, Outcome::Refuted(_)) && self.kind != Kind::Kernel
    }

    /// The reason of an outcome that is no proof.
    #[must_use]
    pub fn why(&self) -> &str {
        match &self.outcome {
            Outcome::Proved | Outcome::Trusted => "",
            Outcome::Unproved(why) | Outcome::Refuted(why) => why,
        }
    }
}
