//! Calls of operators that stay with the reference library, and why: as the pass that decides it says.

use relax_semantics::check::codes;
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::span::Span;
use std::fmt;

/// A call that is interpreted at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The function it stands in.
    pub function: Name,
    /// The place.
    pub span: Span,
    /// The operator, by its short name.
    pub operator: &'static str,
    /// Why.
    pub reason: Reason,
}

impl Fallback {
    /// The call as an error; a warning where it is allowed.
    #[must_use]
    pub fn diagnostic(&self) -> Diagnostic {
        let Self { function, span, operator, reason } = self;
        let message = format!("`{operator}` stays with the reference library: {reason}");
        Diagnostic::error(codes::FALLBACK, *span, message)
            .with_note(format!("in the function `{function}`"))
    }
}

/// Why a call of an operator gets no tensor program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The operator has none.
    NoProgram(&'static str),
    /// There is no library function of this name.
    NoLibrary(Name),
    /// The builder of its program does not take this case.
    Case,
    /// The dims or the dtype of an operand are not known: the parameter that it is for.
    Operand(&'static str),
    /// The dims or the dtype of the result are not known.
    Result,
    /// Evaluating a dim of the result could overflow where the operator has a value.
    Overflow(Dim),
    /// A constraint that is left to run time is not about dims.
    Constraint(String),
    /// An operand may have elements that nothing has written, which only operators move.
    Uninitialized,
    /// A later call in place writes to what the call gives.
    WrittenLater,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NoProgram(why) => write!(f, "no tensor program stands for it: {why}"),
            Reason::NoLibrary(name) => write!(f, "there is no library function `{name}`"),
            Reason::Case => f.write_str("its tensor program does not cover these attributes"),
            Reason::Operand(param) => {
                write!(f, "the dims or the dtype of operand `{param}` are not known")
            }
            Reason::Result => f.write_str("the dims or the dtype of its result are not known"),
            Reason::Overflow(dim) => {
                write!(f, "evaluating the dim `{dim}` of its result could leave i64")
            }
            Reason::Constraint(text) => write!(f, "`{text}` is left to run time"),
            Reason::WrittenLater => f.write_str("a later call in place writes to its result"),
            Reason::Uninitialized => f.write_str("an operand may have uninitialized elements"),
        }
    }
}
