//! The parts of `tokenizer.json`, checked before the crate `tokenizers` reads them.
//!
//! That crate drops characters without a token, takes the last of duplicate tokens, and panics at some damaged merges. Here
//! these are errors, and so is each part whose decoding is not known.

use crate::tokenizer::decoding::{Decoding, Kind, Spelling, spelled_character};
use crate::tokenizer::error::TokenizerError;
use crate::tokenizer::parts::{Ends, check_steps, decoding, ends};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

#[derive(Deserialize)]
pub(super) struct Document {
    model: Model,
    #[serde(default)]
    added_tokens: Vec<Added>,
    normalizer: Option<Value>,
    pre_tokenizer: Option<Value>,
    post_processor: Option<Value>,
    decoder: Option<Value>,
}

#[derive(Deserialize)]
struct Model {
    #[serde(rename = "type")]
    kind: Option<String>,
    vocab: Tokens,
    #[serde(default)]
    merges: Vec<Merge>,
    dropout: Option<f64>,
    unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    byte_fallback: bool,
    /// The token of unknown characters of Unigram.
    unk_id: Option<usize>,
    /// Of Unigram: sampling among segmentations.
    alpha: Option<f64>,
}

#[derive(Deserialize)]
pub(super) struct Added {
    pub(super) id: u32,
    pub(super) content: String,
    #[serde(default)]
    special: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Pair([String; 2]),
    Line(String),
}

/// Tokens and ids in the order of the file, duplicates too.
struct Tokens {
    ids: Vec<(String, u32)>,
    /// Of Unigram, one a token.
    scores: Option<Vec<f64>>,
}

impl<'de> Deserialize<'de> for Tokens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Tokens;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object from token to id, or a list of tokens with scores")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tokens, A::Error> {
                let mut tokens = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    tokens.push(pair);
                }
                Ok(Tokens { ids: tokens, scores: None })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tokens, A::Error> {
                let (mut ids, mut scores) = (Vec::new(), Vec::new());
                while let Some((token, score)) = list.next_element::<(String, f64)>()? {
                    ids.push((token, u32::try_from(ids.len()).map_err(A::Error::custom)?));
                    scores.push(score);
                }
                Ok(Tokens { ids, scores: Some(scores) })
            }
        }
        deserializer.deserialize_any(Pairs)
    }
}

/// What decoding and encoding need beside the crate.
pub(super) struct Checked {
    pub(super) tokens: BTreeMap<u32, (String, Kind)>,
    pub(super) added: Vec<Added>,
    pub(super) decoding: Decoding,
    pub(super) ends: Ends,
}

impl Document {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, TokenizerError> {
        serde_json::from_slice(bytes).map_err(|error| TokenizerError::NotJson(error.to_string()))
    }

    pub(super) fn check(self) -> Result<Checked, TokenizerError> {
        self.model.check_switches()?;
        check_steps(self.normalizer.as_ref(), self.pre_tokenizer.as_ref())?;
        let decoding = decoding(self.decoder.as_ref())?;
        let ends = ends(self.post_processor.as_ref())?;
        let vocabulary = self.model.vocabulary()?;
        self.model.check_merges(&vocabulary)?;
        self.model.check_coverage(&vocabulary, decoding)?;
        let mut tokens = BTreeMap::new();
        for (token, id) in &self.model.vocab.ids {
            if let Some((first, _)) = tokens.insert(*id, (token.clone(), Kind::Normal)) {
                let second = token.clone();
                return Err(TokenizerError::DuplicateId { id: *id, first, second });
            }
        }
        add(&self.added_tokens, &vocabulary, &mut tokens)?;
        Ok(Checked { tokens, added: self.added_tokens, decoding, ends })
    }
}

/// Marks added tokens, and inserts those that are not in the vocabulary of the model.
fn add(
    added: &[Added],
    vocabulary: &HashMap<&str, u32>,
    tokens: &mut BTreeMap<u32, (String, Kind)>,
) -> Result<(), TokenizerError> {
    let mut seen: HashMap<&str, u32> = HashMap::new();
    for Added { id, content, special } in added {
        if content.is_empty() || *id >= MOST_IDS {
            return Err(unsupported(
                "added token",
                format!("{content}` of id `{id}"),
                "a text of at least one character, and an id below 100,000,000",
            ));
        }
        if let Some(first) = seen.insert(content, *id) {
            let token = content.clone();
            return Err(TokenizerError::DuplicateToken { token, first, second: *id });
        }
        if let Some(&expected) = vocabulary.get(content.as_str()).filter(|expected| *expected != id)
        {
            return Err(TokenizerError::AddedId { token: content.clone(), found: *id, expected });
        }
        let kind = if *special { Kind::Special } else { Kind::Added };
        match tokens.insert(*id, (content.clone(), kind)) {
            Some((first, _)) if first != *content => {
                let second = content.clone();
                return Err(TokenizerError::DuplicateId { id: *id, first, second });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Ids are smaller than this, as vocabularies are.
const MOST_IDS: u32 = 100_000_000;

impl Model {
    fn check_switches(&self) -> Result<(), TokenizerError> {
        let kind = self.kind.as_deref().unwrap_or("BPE");
        match (kind, &self.vocab.scores) {
            ("BPE", None) | ("Unigram", Some(_)) => {}
            ("BPE", Some(_)) => {
                return Err(unsupported(
                    "vocab",
                    "a list".to_owned(),
                    "an object from token to id",
                ));
            }
            ("Unigram", None) => {
                let expected = "a list of tokens with scores";
                return Err(unsupported("vocab", "an object".to_owned(), expected));
            }
            _ => return Err(unsupported("model", kind.to_owned(), "BPE or Unigram")),
        }
        if let Some(alpha) = self.alpha {
            return Err(unsupported("alpha", alpha.to_string(), "none, as it is random"));
        }
        if let Some(dropout) = self.dropout.filter(|dropout| *dropout != 0.0) {
            return Err(unsupported("dropout", dropout.to_string(), "none, as it is random"));
        }
        let affixes = [
            ("continuing_subword_prefix", &self.continuing_subword_prefix),
            ("end_of_word_suffix", &self.end_of_word_suffix),
        ];
        for (part, affix) in affixes {
            if let Some(affix) = affix.as_ref().filter(|affix| !affix.is_empty()) {
                return Err(unsupported(part, affix.clone(), "none"));
            }
        }
        Ok(())
    }

    /// The id of each token.
    fn vocabulary(&self) -> Result<HashMap<&str, u32>, TokenizerError> {
        if self.vocab.ids.is_empty() {
            return Err(TokenizerError::Empty);
        }
        let mut ids = HashMap::new();
        for (token, id) in &self.vocab.ids {
            if *id >= MOST_IDS {
                return Err(unsupported("id", id.to_string(), "ids below 100,000,000"));
            }
            if let Some(first) = ids.insert(token.as_str(), *id) {
                let token = token.clone();
                return Err(TokenizerError::DuplicateToken { token, first, second: *id });
            }
        }
        Ok(ids)
    }

    fn check_merges(&self, vocabulary: &HashMap<&str, u32>) -> Result<(), TokenizerError> {
        let mut both = String::new();
        for (place, merge) in self.merges.iter().enumerate() {
            let (left, right) = match merge {
                Merge::Pair([left, right]) => (left.as_str(), right.as_str()),
                Merge::Line(line) => parts(place, line)?,
            };
            both.clear();
            both.push_str(left);
            both.push_str(right);
            for token in [left, right, both.as_str()] {
                if !vocabulary.contains_key(token) {
                    let token = token.to_owned();
                    return Err(TokenizerError::MergeToken { place, token });
                }
            }
        }
        Ok(())
    }

    /// Each character needs tokens, as the crate drops it otherwise.
    fn check_coverage(
        &self,
        vocabulary: &HashMap<&str, u32>,
        decoding: Decoding,
    ) -> Result<(), TokenizerError> {
        if let Some(scores) = &self.vocab.scores {
            // The crate needs it for each character without a token of its own.
            return match self.unk_id {
                Some(id) if id < scores.len() => Ok(()),
                Some(id) => Err(unsupported("unk_id", id.to_string(), "the id of a token")),
                None => Err(missing("<unk>".to_owned(), "the token of unknown characters")),
            };
        }
        if let Some(unknown) = &self.unk_token {
            return match vocabulary.contains_key(unknown.as_str()) {
                true => Ok(()),
                false => Err(missing(unknown.clone(), "the token of unknown characters")),
            };
        }
        let spelling = |byte: u8| match decoding.spelling {
            Spelling::Bytes => Some(spelled_character(byte).to_string()),
            _ => self.byte_fallback.then(|| format!("<0x{byte:02X}>")),
        };
        // The other bytes stand in no UTF-8.
        for byte in (0..=0xf4).filter(|byte| !matches!(byte, 0xc0 | 0xc1)) {
            let Some(token) = spelling(byte) else {
                return Err(missing("<unk>".to_owned(), "the token of unknown characters"));
            };

            if !vocabulary.contains_key(token.as_str()) {
                return Err(missing(
                    token,
                    "the token of a byte, and has none of unknown characters",
                ));
            }
        }
        Ok(())
    }
}

/// Both tokens of a merge in one line.
pub(super) fn parts(place: usize, line: &str) -> Result<(&str, &str), TokenizerError> {
    let parts = line
        .split_once(' ')
        .filter(|(left, right)| !left.is_empty() && !right.is_empty() && !right.contains(' '));
    parts.ok_or_else(|| TokenizerError::BadMerge { place, merge: line.to_owned() })
}

pub(super) fn unsupported(
    part: &'static str,
    found: String,
    expected: &'static str,
) -> TokenizerError {
    TokenizerError::Unsupported { part, found, expected }
}

fn missing(token: String, role: &'static str) -> TokenizerError {
    TokenizerError::MissingToken { token, role }
}
