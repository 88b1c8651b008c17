//! Test cases and findings: one program under test, and the property that it violates.

use relax_program::frontend::Program;
use relax_rewrite::pass::Exactness;
use relax_symbolic::Prover;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

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
    /// Answers the passes' questions on dims, and keeps the answers for all that is made of the program. No answer depends
    /// on earlier questions.
    prover: RefCell<Prover>,
    /// The program at the end of the exact pipeline for processors, which several oracles compare.
    pub(crate) lowered: OnceCell<Result<Rc<Lowered>, Finding>>,
}

/// A module at the end of a pipeline, and how exactly the passes that changed it keep values.
pub(crate) struct Lowered {
    pub(crate) module: Module,
    pub(crate) exactness: Exactness,
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
        let (source, checked) = (program.source, program.module);
        Some(Self {
            source,
            raw,
            checked,
            seed,
            prover: RefCell::default(),
            lowered: OnceCell::new(),
        })
    }

    /// Work that asks the prover. It is a new one after work that fails or panics, which may leave facts in its scope.
    pub(crate) fn ask<T, E>(&self, work: impl FnOnce(&mut Prover) -> Result<T, E>) -> Result<T, E> {
        let mut prover = self.prover.take();
        let done = work(&mut prover)?;
        self.prover.replace(prover);
        Ok(done)
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
