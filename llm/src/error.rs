//! Errors of configurations and checkpoints: each names the key or the tensor, what is there and what is expected.

use std::fmt;

/// Why there is no text of a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The configuration is no JSON object.
    #[error("the configuration is no JSON object: {0}")]
    NotJson(String),
    /// A required key is absent.
    #[error("the configuration lacks `{key}`: expected {expected}")]
    MissingKey {
        /// With its prefix, such as `llama.block_count`.
        key: String,
        /// The accepted values in words.
        expected: String,
    },
    /// A key has a value that is refused.
    #[error("the configuration has `{key}` = {found}: expected {expected}")]
    Setting {
        /// With its prefix.
        key: String,
        /// The value, texts in quotes.
        found: String,
        /// The accepted values in words.
        expected: String,
    },
    /// A key whose meaning is not known.
    #[error(
        "the configuration has `{key}` = {found}, which is not supported: remove the key if it does not change results"
    )]
    UnknownKey {
        /// With its prefix.
        key: String,
        /// The value, texts in quotes.
        found: String,
    },
    /// The checkpoint lacks a tensor.
    #[error("the checkpoint lacks the tensor `{name}`: expected the shape {}", Shape(.expected))]
    MissingTensor {
        /// As the checkpoint would have it.
        name: String,
        /// Extents, rows first.
        expected: Vec<usize>,
    },
    /// A tensor has another shape than the configuration says.
    #[error("the tensor `{name}` has the shape {}: expected {}", Shape(.found), Shape(.expected))]
    TensorShape {
        /// The name that the checkpoint has.
        name: String,
        /// Extents, rows first.
        found: Vec<usize>,
        /// Extents, rows first.
        expected: Vec<usize>,
    },
    /// A tensor is stored in a format that cannot be read at its place.
    #[error("the tensor `{name}` is stored as {found}: expected {expected}")]
    TensorFormat {
        /// The name that the checkpoint has.
        name: String,
        /// The name of the format.
        found: String,
        /// The accepted values in words.
        expected: String,
    },
    /// Tensors of the checkpoint that the model does not use.
    #[error("the model does not use the tensors {} of the checkpoint", Listed(.names))]
    UnusedTensors {
        /// Sorted by name, all of them.
        names: Vec<String>,
    },
    /// A template that does not render, or renders text that does not parse: a bug in the template.
    #[error("the template `{template}` is wrong: {why}")]
    Template {
        /// The file in `corpus/models/llm`.
        template: String,
        /// Place and cause.
        why: String,
    },
}

impl Error {
    pub(crate) fn setting(
        key: &str,
        found: impl fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Self::Setting { key: key.to_owned(), found: found.to_string(), expected: expected.into() }
    }
}

/// A shape in brackets.
struct Shape<'s>(&'s [usize]);

impl fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// The most names that a message lists.
const MOST_NAMES: usize = 8;

/// The first names of a list, and how many more there are.
struct Listed<'n>(&'n [String]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<String> =
            self.0.iter().take(MOST_NAMES).map(|name| format!("`{name}`")).collect();
        write!(f, "{}", shown.join(", "))?;
        match self.0.len().saturating_sub(MOST_NAMES) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
