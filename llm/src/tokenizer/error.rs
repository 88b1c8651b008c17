//! Errors of tokenizers: each names the token, the list or the part of the file, and what is expected.

use crate::error::Error;

/// Why there is no tokenizer, or why a text or a token has no meaning in one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenizerError {
    /// Damaged JSON, or JSON without the parts of a tokenizer.
    #[error("this is no tokenizer.json: {0}")]
    NotJson(String),
    /// A part of the file that would not be computed as its author meant it.
    #[error("the tokenizer has the {part} {found:?}, which is not supported: expected {expected}")]
    Unsupported {
        /// Such as `decoder`.
        part: &'static str,
        /// Its type or value.
        found: String,
        /// What is supported, in words.
        expected: &'static str,
    },
    /// A vocabulary without tokens.
    #[error("the vocabulary has no tokens")]
    Empty,
    /// Two ids for one token.
    #[error("the vocabulary has the token {token:?} twice, with the ids {first} and {second}")]
    DuplicateToken {
        /// The text of both.
        token: String,
        /// The id that was read first.
        first: u32,
        /// The id that was read then.
        second: u32,
    },
    /// Two tokens for one id.
    #[error("the vocabulary has the id {id} twice, for the tokens {first:?} and {second:?}")]
    DuplicateId {
        /// The id of both.
        id: u32,
        /// The token that was read first.
        first: String,
        /// The token that was read then.
        second: String,
    },
    /// Lists that should have an element for each token.
    #[error("`{list}` has {found} elements: expected one for each of the {tokens} tokens")]
    Length {
        /// The key of the list.
        list: &'static str,
        /// The number of its elements.
        found: usize,
        /// The number of tokens.
        tokens: usize,
    },
    /// A merge that is not two tokens with one space between them.
    #[error("merge {place} is {merge:?}: expected two tokens with a space between them")]
    BadMerge {
        /// Counted from 0.
        place: usize,
        /// As the file has it.
        merge: String,
    },
    /// A merge of tokens, or to a token, that the vocabulary lacks.
    #[error("merge {place} names {token:?}, which is not in the vocabulary")]
    MergeToken {
        /// Counted from 0.
        place: usize,
        /// A part of the merge, or both parts in one.
        token: String,
    },
    /// A token that encoding depends on.
    #[error("the vocabulary lacks {token:?}, {role}")]
    MissingToken {
        /// The text of the token.
        token: String,
        /// What it is needed for.
        role: &'static str,
    },
    /// An added token whose id is not the one that the crate gives it.
    #[error("the added token {token:?} has the id {found}, but {expected} in the vocabulary")]
    AddedId {
        /// The text of the token.
        token: String,
        /// The id that the file has.
        found: u32,
        /// The id of the same token, or the next free one.
        expected: u32,
    },
    /// An id without a token.
    #[error("{role} {id} is no token of the vocabulary, whose ids end before {size}")]
    NoToken {
        /// What the id is, such as `token id`.
        role: &'static str,
        /// The id that has none.
        id: u32,
        /// The greatest id plus one.
        size: usize,
    },
    /// A token whose score or type cannot be used.
    #[error("token {id} has the {what} {found}: expected {expected}")]
    TokenValue {
        /// Its place in the list.
        id: usize,
        /// `score`, `type` or `length`.
        what: &'static str,
        /// The value, with its unit.
        found: String,
        /// The admitted values.
        expected: &'static str,
    },
    /// More tokens than the model has logits and embeddings for.
    #[error(
        "the tokenizer has {tokenizer} ids, but the model's vocabulary has {model}: they belong to different models"
    )]
    Size {
        /// The greatest id plus one.
        tokenizer: usize,
        /// Rows of the model's head.
        model: usize,
    },
    /// A text beyond the limit.
    #[error("the text has {found} bytes: expected at most {most}")]
    TextLength {
        /// Bytes of UTF-8.
        found: usize,
        /// The limit in bytes.
        most: usize,
    },
    /// Metadata with a missing or wrong key.
    #[error(transparent)]
    Metadata(#[from] Error),
    /// What the crate `tokenizers` reports.
    #[error("the tokenizer cannot be used: {0}")]
    Refused(String),
}
