//! Rewrite rules that a pass used. Each is a theorem on all shapes, which is proved again from its text.
//!
//! Which rules a pass used is what the compiler says. That the functions after the pass mean what they meant before is
//! an obligation of its own, which relies on no rule ([`crate::applications`]).

use crate::answers::Source;
use crate::derive::{Stage, hash};
use crate::obligation::{Kind, Obligation, Outcome};
use relax_theorems::rules::{self, Rule, Status, prove_within, read_rules};

/// Steps that the proof of a rule may take.
const FUEL: u64 = 2_000_000;

/// A rule as it stands in a certificate.
#[derive(Clone, Debug)]
pub struct UsedRule {
    /// Its text, one definition.
    pub text: String,
    pub(crate) rule: Rule,
}

impl UsedRule {
    /// Reads a text, which must define the rule of this name and nothing else.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(name: &str, text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("the text of rule `{name}` is wrong: {why}");
        let mut read = read_rules(name, text).map_err(|found| wrong(&found.join("; ")))?;
        match (read.pop(), read.is_empty()) {
            (Some(rule), true) if rule.name == name => Ok(Self { text: text.to_owned(), rule }),
            _ => Err(wrong("it must define this rule alone")),
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.rule.name.as_str()
    }

    /// SHA-256 of its text.
    pub(crate) fn hash(&self) -> String {
        hash(&self.text)
    }
}

/// That each rule of a stage holds.
pub(crate) fn obligations(stage: &Stage, source: &mut dyn Source) -> Vec<Obligation> {
    let of = |used: &UsedRule| Obligation {
        kind: Kind::Rule,
        function: used.rule.name.clone(),
        place: format!("in `{}`", stage.name),
        what: match used.rule.kind {
            rules::Kind::Exact => "both sides have the same elements and traps",
            rules::Kind::Approximate => "both sides are the same over the reals",
        }
        .to_owned(),
        outcome: outcome(&used.rule, source),
    };
    stage.rules.iter().map(of).collect()
}

fn outcome(rule: &Rule, source: &mut dyn Source) -> Outcome {
    source.was_trusted();
    match prove_within(rule, FUEL, &mut || source.facts()) {
        Status::Proved if source.was_trusted() => Outcome::Trusted,
        Status::Proved => Outcome::Proved,
        Status::ProvedForRanks => Outcome::Unproved("it is proved for few axes only".to_owned()),
        Status::Unproved(why) => Outcome::Unproved(why),
        Status::Tested => Outcome::Unproved(Status::Tested.to_string()),
    }
}
