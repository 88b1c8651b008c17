//! The ways a call ends without a value. A trap is part of what the program means; running out of a
//! resource says nothing about it; and what is not supported, or not there, is told as such.

use crate::value::Value;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A half-open byte range of the source text in the module; `0..0` where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// Whether nothing in the text is meant.
    #[must_use]
    pub fn is_synthetic(self) -> bool {
        self == Span::default()
    }
}

/// Why a call stopped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Stop {
    /// A check of the program failed.
    #[error("{0}")]
    Trap(Box<Trap>),
    /// A limit was reached before there was an answer.
    #[error("out of {resource}: {detail}")]
    Exhausted {
        /// `memory`, `call depth`, `steps`
        resource: &'static str,
        /// How much was asked for, and the limit.
        detail: String,
    },
    /// What this machine does not do, or does not have.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// The caller asked for something that is not there: a function, an argument.
    #[error("{0}")]
    Misuse(String),
}

/// A call that stopped, and what it gives back ([`Callable::call_returning`](crate::Callable::call_returning)).
#[derive(Clone, Debug, Error)]
#[error("{stop}")]
pub struct Stopped {
    /// Why the call stopped.
    pub stop: Stop,
    /// The donated tensors.
    pub donated: Vec<Value>,
}

/// A failed check.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("[{id}] {message}")]
pub struct Trap {
    /// `match_cast/dim`, `boundary/rank`, …
    pub id: String,
    /// What was expected and what was found.
    pub message: String,
    /// The statement that failed.
    pub span: Span,
    /// The function it stands in.
    pub function: Option<String>,
    /// Further facts.
    pub notes: Vec<String>,
    /// Other places, such as that of a call.
    pub places: Vec<(Span, String)>,
}

impl Stop {
    /// A trap without a place; the machine fills it in.
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

/// Places beyond this many say little more, and a deep recursion has thousands.
const MOST_PLACES: usize = 6;

/// Fills in where a trap happened; one that has its place already learns where it was called from.
pub(crate) fn place(stop: Stop, function: &str, header: Span, span: Span) -> Stop {
    let Stop::Trap(mut trap) = stop else { return stop };
    match &trap.function {
        None => {
            trap.function = Some(function.to_owned());
            if trap.span.is_synthetic() {
                trap.span = span;
            }
        }
        Some(within) if within != function && trap.places.len() < MOST_PLACES => {
            let already = trap.places.iter().any(|(known, _)| *known == span);
            if !already && span != header {
                trap.places.push((span, format!("called from `{function}`")));
            }
        }
        Some(_) => {}
    }
    Stop::Trap(trap)
}
