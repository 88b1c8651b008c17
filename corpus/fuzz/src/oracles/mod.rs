//! Oracles: properties that every program must have, one file each.

mod checker;
mod claims;
mod inputs;
mod machine;
mod passes;
mod pipeline;
mod printing;
mod ranks;
mod reorder;
mod specialize;
mod twins;

use crate::case::{Case, Finding};
use crate::session::Statistics;
use relax_generate::{bytes, module, placed};
use relax_rewrite::pass::Device;
use relax_semantics::random::Random;
use std::fmt;
use std::str::FromStr;

/// Bytes of choices for one program, at the most.
const LONGEST: usize = 260;

/// A property of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Oracle {
    /// Text and program are inverse, and one layout is kept.
    Print,
    /// What the checker accepts runs without a panic, and what it deduced is true of the run.
    Check,
    /// Every pass, and the pipeline, keep values, traps and annotations.
    Passes,
    /// The whole pipeline keeps what one call of each function gives: less of each program, of more programs.
    Pipeline,
    /// The virtual machine does what the interpreter does.
    Vm,
    /// Renamed, reordered and specialized programs do the same.
    Twins,
    /// Dims told at compile time, and claims proved, hold in runs.
    Static,
    /// All ranks of a mesh give on their shards what one device gives. It has programs of its own.
    Ranks,
}

impl Oracle {
    /// All of them.
    pub const ALL: [Oracle; 8] = [
        Oracle::Print,
        Oracle::Check,
        Oracle::Passes,
        Oracle::Pipeline,
        Oracle::Vm,
        Oracle::Twins,
        Oracle::Static,
        Oracle::Ranks,
    ];

    /// As the command names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Oracle::Print => "print",
            Oracle::Check => "check",
            Oracle::Passes => "passes",
            Oracle::Pipeline => "pipeline",
            Oracle::Vm => "vm",
            Oracle::Twins => "twins",
            Oracle::Static => "static",
            Oracle::Ranks => "ranks",
        }
    }

    /// The text of its program of a seed.
    #[must_use]
    pub fn program(self, seed: u64) -> String {
        let longest = Random::new(seed, "length").int(&(20..=260));
        let bytes = bytes(seed, usize::try_from(longest).unwrap_or(LONGEST));
        if self.is_of_meshes() { placed(&bytes) } else { module(&bytes) }
    }

    /// Whether its programs are those over a mesh.
    #[must_use]
    pub fn is_of_meshes(self) -> bool {
        self == Oracle::Ranks
    }

    /// Holds it against a program.
    ///
    /// # Errors
    /// What does not hold.
    pub fn hold(
        self,
        case: &Case,
        backend: Device,
        statistics: &mut Statistics,
    ) -> Result<(), Finding> {
        match self {
            Oracle::Print => printing::hold(case, statistics),
            Oracle::Check => checker::hold(case, statistics),
            Oracle::Passes => passes::hold(case, statistics),
            Oracle::Pipeline => pipeline::hold(case, statistics),
            Oracle::Vm => machine::hold(case, backend, statistics),
            Oracle::Twins => twins::hold(case, statistics),
            Oracle::Static => claims::hold(case, statistics),
            Oracle::Ranks => ranks::hold(case, statistics),
        }
    }
}

impl fmt::Display for Oracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Oracle {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Oracle::ALL.into_iter().find(|oracle| oracle.name() == text);
        found.ok_or_else(|| {
            let names: Vec<&str> = Oracle::ALL.iter().map(|oracle| oracle.name()).collect();
            format!("there is no oracle `{text}`; there are {}", names.join(", "))
        })
    }
}
