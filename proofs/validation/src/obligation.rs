//! What must be shown of a compilation, and how that ended.

use relax_syntax::Name;
use std::fmt;

/// Something that must hold for all dims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obligation {
    /// Of which kind.
    pub kind: Kind,
    /// The function or tensor program that it is about.
    pub function: Name,
    /// Where in it.
    pub place: String,
    /// What is to be shown.
    pub what: String,
    /// How far that is known.
    pub outcome: Outcome,
}

/// Kinds of obligations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Of the plan of memory.
    Memory,
    /// Of a tensor program.
    Kernel,
    /// Of a pass that changed the module.
    Pass,
    /// Of a rewrite rule that a pass used.
    Rule,
    /// Of the program that every rank of a mesh runs.
    Rank,
}

/// How an obligation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its proofs replay.
    Proved,
    /// Some of its proofs only say that a solver decided.
    Trusted,
    /// There is no proof, for this reason.
    Unproved(String),
    /// Shown to be wrong, by this.
    Refuted(String),
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] = [Kind::Memory, Kind::Kernel, Kind::Pass, Kind::Rule, Kind::Rank];

    /// As certificates write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Memory => "memory",
            Kind::Kernel => "kernel",
            Kind::Pass => "pass",
            Kind::Rule => "rule",
            Kind::Rank => "rank",
        }
    }
}

/// What a person reads: `main: \`y\`: lies inside its storage`.
impl fmt::Display for Obligation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Obligation { kind, function, place, what, .. } = self;
        let between = if place.is_empty() { "" } else { ": " };
        write!(f, "{}: {function}{between}{place}: {what}", kind.name())
    }
}
