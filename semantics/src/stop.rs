//! The ways a run ends without a value. They are never mixed: a trap is part of the meaning,
//! running out of a resource is inconclusive, and a limit of ours says that it is one.

use relax_syntax::Name;
use relax_syntax::span::Span;
use thiserror::Error;

/// Why a run stopped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Stop {
    /// A run-time check failed; every correct compilation of the program stops too.
    #[error("{0}")]
    Trap(Box<Trap>),
    /// Fuel or memory ran out before there was an answer.
    #[error("out of {resource}: {detail}")]
    Exhausted {
        /// What ran out: `memory`, `steps`, `call depth`.
        resource: &'static str,
        /// How much was asked for, and the limit.
        detail: String,
    },
    /// A part of the language that this evaluator does not run.
    #[error("not supported: {0}")]
    Unsupported(String),
}

/// A failed run-time check.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("[{id}] {message}")]
pub struct Trap {
    /// `match_cast/dim`, `matmul/C2`, `tir/out_of_bounds`, …
    pub id: String,
    /// What was expected and what was found.
    pub message: String,
    /// The statement that failed; filled in by the interpreter.
    pub span: Span,
    /// The function it stands in; filled in by the interpreter.
    pub function: Option<Name>,
    /// Values of symbolic variables and other facts worth knowing.
    pub notes: Vec<String>,
    /// Other places: where a variable was bound, …
    pub places: Vec<(Span, String)>,
}

impl Stop {
    /// A trap without a place yet.
    #[must_use]
    pub fn trap(id: impl Into<String>, message: impl Into<String>) -> Self {
        Stop::Trap(Box::new(Trap {
            id: id.into(),
            message: message.into(),
            span: Span::default(),
            function: None,
            notes: Vec::new(),
            places: Vec::new(),
        }))
    }
}
