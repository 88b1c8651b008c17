//! Tokenizers of language models: texts as token ids, and token ids as text.
//!
//! Byte pair encoding (Sennrich, Haddow and Birch 2016) by the crate `tokenizers`, from Hugging Face's `tokenizer.json`
//! ([`Tokenizer::from_json`]) or from the vocabulary in a GGUF file ([`Tokenizer::from_vocabulary`]). Decoding is written
//! here, so that a stream of tokens gives each character at once, and the text of all tokens.

mod decoding;
mod document;
mod error;
mod parts;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod tests;
mod vocabulary;

pub use decoding::Stream;
pub use error::TokenizerError;
pub use vocabulary::{Vocabulary, VocabularyMetadata};

use decoding::Pieces;
use document::{Checked, Document};
use parts::Ends;
use std::sync::OnceLock;

/// The most bytes of a text.
const MOST_TEXT: usize = 1 << 24;

/// How special tokens are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Special tokens in the text are found; begin and end tokens are added as the vocabulary says.
    Parse,
    /// Special tokens in the text are ordinary characters, as text from outside must be; begin and end tokens are added.
    Plain,
    /// The text is a rendered chat template: special tokens are found, and no begin or end token is added.
    Template,
}

/// A vocabulary, and the steps from text to tokens and back.
#[derive(Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// The same, with special tokens as ordinary characters. Made on first use.
    plain: OnceLock<tokenizers::Tokenizer>,
    ends: Ends,
    pieces: Pieces,
    /// Whether bytes one after the other that are no UTF-8 are replaced all, as the package `tokenizers` does and llama.cpp does not.
    joins_bytes: bool,
}

impl Tokenizer {
    /// Reads `tokenizer.json`. Limits and padding in it are those of training and are left out.
    ///
    /// # Errors
    /// When the JSON is no tokenizer, contradicts itself, or has parts that are not supported.
    pub fn from_json(bytes: &[u8]) -> Result<Self, TokenizerError> {
        let checked = Document::read(bytes)?.check()?;
        let inner = tokenizers::Tokenizer::from_bytes(bytes);
        let mut inner = inner.map_err(|why| TokenizerError::Refused(why.to_string()))?;
        inner.with_truncation(None).map_err(|why| TokenizerError::Refused(why.to_string()))?;
        inner.with_padding(None);
        let Checked { tokens, added, decoding, ends } = checked;
        for token in added {
            match inner.token_to_id(&token.content) {
                Some(expected) if expected != token.id => {
                    let (token, found) = (token.content, token.id);
                    return Err(TokenizerError::AddedId { token, found, expected });
                }
                _ => {}
            }
        }
        let tokens = tokens.iter().map(|(id, (token, kind))| (*id, token.as_str(), *kind));
        let pieces = Pieces::new(decoding, tokens);
        Self { inner, plain: OnceLock::new(), ends: Ends::default(), pieces, joins_bytes: true }
            .with_ends(ends)
    }

    fn with_ends(mut self, ends: Ends) -> Result<Self, TokenizerError> {
        for id in ends.before.iter().chain(&ends.after) {
            self.pieces.check("the begin or end token", *id)?;
        }
        self.ends = ends;
        Ok(self)
    }

    /// # Errors
    /// When the text has more than 16 MiB.
    pub fn encode(&self, text: &str, special: Special) -> Result<Vec<u32>, TokenizerError> {
        if text.len() > MOST_TEXT {
            return Err(TokenizerError::TextLength { found: text.len(), most: MOST_TEXT });
        }
        let inner = match special {
            Special::Parse | Special::Template => &self.inner,
            Special::Plain => self.plain.get_or_init(|| {
                let mut plain = self.inner.clone();
                plain.set_encode_special_tokens(true);
                plain
            }),
        };
        let encoding = inner.encode_fast(text, false);
        let encoding = encoding.map_err(|why| TokenizerError::Refused(why.to_string()))?;
        let ids = encoding.get_ids();
        Ok(match special {
            Special::Template => ids.to_vec(),
            Special::Parse | Special::Plain => [&self.ends.before, ids, &self.ends.after].concat(),
        })
    }

    /// The text of tokens, without special ones. Invalid UTF-8 becomes U+FFFD.
    ///
    /// # Errors
    /// When no token has one of the ids.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        let mut stream = self.stream();
        if self.joins_bytes {
            return stream.join_bytes(ids);
        }
        let mut text = String::new();
        for id in ids {
            text.push_str(&stream.push(*id)?);
        }
        Ok(text + &stream.finish())
    }

    /// Decodes token by token.
    #[must_use]
    pub fn stream(&self) -> Stream<'_> {
        Stream::new(&self.pieces)
    }

    /// The id of a token as the vocabulary spells it, such as `<|eot_id|>`.
    #[must_use]
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// How the vocabulary spells a token.
    #[must_use]
    pub fn spelling(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// The bytes that a token adds to a text, none of a special one; `None` where no token has this id.
    #[must_use]
    pub fn bytes(&self, id: u32) -> Option<&[u8]> {
        self.pieces.bytes(id)
    }

    /// Whether a token controls the model and has no text.
    #[must_use]
    pub fn is_special(&self, id: u32) -> bool {
        self.pieces.is_special(id)
    }

    /// The greatest id plus one.
    #[must_use]
    pub fn size(&self) -> usize {
        self.pieces.size()
    }

    /// Compares with the rows of a model's head. A head may have more rows, as many are padded for speed.
    ///
    /// # Errors
    /// When a token has no row.
    pub fn check_size(&self, vocabulary: usize) -> Result<(), TokenizerError> {
        match self.size() {
            tokenizer if tokenizer > vocabulary => {
                Err(TokenizerError::Size { tokenizer, model: vocabulary })
            }
            _ => Ok(()),
        }
    }
}
