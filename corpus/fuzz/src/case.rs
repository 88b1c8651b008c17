//! Test cases and findings: one program under test, and the property that it violates.

use relax_program::frontend::Program;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;

/// A program that the checker accepts.
pub struct Case {
    /// Its text.
    pub source: Source,
    /// As written, without what was deduced.
    pub raw: Module,
    /// In normal form, with what was deduced.
    pub checked: Module,
    /// Of random dims and inputs.
    pub seed: u64,
}

/// What does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of thing it is: shrinking keeps it. A pass, or a word.
    pub kind: String,
    /// What was expected and found.
    pub why: String,
    /// The arguments of `relax` that show it, with `FILE` for the program.
    pub command: String,
}

impl Case {
    /// Reads and checks a text; `None` when it is not well-formed.
    #[must_use]
    pub fn read(text: &str, seed: u64) -> Option<Self> {
        let source = Source::new("generated", text);
        let (program, raw) = Program::load_with_raw(source);
        if program.has_errors() {
            return None;
        }
        Some(Self { source: program.source, raw, checked: program.module, seed })
    }
}

impl Finding {
    /// A finding that a command of the house reproduces.
    pub fn new(
        kind: impl Into<String>,
        why: impl Into<String>,
        command: impl Into<String>,
    ) -> Self {
        Self { kind: kind.into(), why: why.into(), command: command.into() }
    }
}
