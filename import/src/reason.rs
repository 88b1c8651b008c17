//! Why a model, or a part of it, does not become a program.

use std::fmt;
use thiserror::Error;

/// Why one node is not imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The model is fine, but the language or this import lacks something.
    Unsupported(String),
    /// The elements of this graph input decide what is computed: they must be given.
    Needs(String),
    /// The model does not say the type of this graph input: it must be given.
    Untyped(String),
    /// The model breaks the rules of ONNX.
    Invalid(String),
    /// It takes more memory than the limit allows.
    Limit(String),
}

impl Reason {
    /// The sentence.
    pub(crate) fn text(self) -> String {
        match self {
            Reason::Unsupported(why) | Reason::Invalid(why) | Reason::Limit(why) => why,
            Reason::Needs(input) => format!("the elements of `{input}` must be known"),
            Reason::Untyped(input) => format!("the type of `{input}` must be known"),
        }
    }

    /// The sentence about a node of a program whose shapes are known from the start.
    pub(crate) fn text_of_node(self) -> String {
        match self {
            Reason::Needs(input) | Reason::Untyped(input) => {
                format!("the elements of the input `{input}` decide a shape or an axis")
            }
            other => other.text(),
        }
    }
}

/// Of a whole model, outside of its nodes.
impl From<Reason> for ImportError {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Limit(why) => ImportError::Limit(why),
            other => ImportError::Malformed(other.text()),
        }
    }
}

pub(crate) type Done<T> = Result<T, Reason>;

/// `Err(unsupported("…"))`
pub(crate) fn unsupported<T>(what: impl Into<String>) -> Done<T> {
    Err(Reason::Unsupported(what.into()))
}

/// `Err(invalid("…"))`
pub(crate) fn invalid<T>(what: impl Into<String>) -> Done<T> {
    Err(Reason::Invalid(what.into()))
}

/// An operator of a model that is not imported, or not in this use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Missing {
    /// `Resize`, or `domain.Name`.
    pub operator: String,
    /// What about it.
    pub why: String,
    /// The nodes, by name or by their first output.
    pub nodes: Vec<String>,
    /// Whether the model breaks the rules of its format there.
    pub is_invalid: bool,
}

/// Why a model does not become a program.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImportError {
    /// It is damaged, or breaks the rules of its format.
    #[error("{0}")]
    Malformed(String),
    /// What is not supported, all of it.
    #[error("not supported:{}", .0.iter().map(|missing| format!("\n  {missing}")).collect::<String>())]
    Unsupported(Vec<Missing>),
    /// The elements of these inputs decide shapes or axes: they must be given to the import.
    #[error("the elements of {} decide shapes or axes of the program: give them with --bind", .0.join(", "))]
    Needs(Vec<String>),
    /// These inputs are lists, optionals, or of unknown rank: their types must be given to the import.
    #[error("the model does not say how long or of what rank {} are: give their types with --type", .0.join(", "))]
    Untyped(Vec<String>),
    /// It takes more memory than [`Options::max_bytes`](crate::Options::max_bytes) allows, or than there is.
    #[error("{0}")]
    Limit(String),
    /// A bound is given of what is no symbolic dim of an input.
    #[error("{0}")]
    Bound(String),
}

impl ImportError {
    /// Whether the model is fine, and all that it lacks is support here.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(self, ImportError::Unsupported(missing) if missing.iter().all(|m| !m.is_invalid))
    }
}

/// How many nodes are named in a message.
const NAMED: usize = 5;

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.nodes.len();
        write!(f, "{count} × {}: {} (", self.operator, self.why)?;
        f.write_str(&self.nodes[..count.min(NAMED)].join(", "))?;
        f.write_str(if count > NAMED { ", …)" } else { ")" })
    }
}
