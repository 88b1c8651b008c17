//! Vocabularies in the metadata of GGUF files, written as `tokenizer.json`.

use crate::metadata::{Keys, Metadata};
use crate::tokenizer::Tokenizer;
use crate::tokenizer::document::{parts, unsupported};
use crate::tokenizer::error::TokenizerError;
use crate::tokenizer::parts::Ends;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

/// Metadata with arrays of numbers.
pub trait VocabularyMetadata: Metadata {
    /// An array of integers or floats; `None` when the key is absent or has a value of another type.
    fn numbers(&self, key: &str) -> Option<Vec<f64>>;
}

/// A vocabulary, by the keys of GGUF's `tokenizer.ggml`. Flags that are absent have the defaults of llama.cpp.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vocabulary {
    /// `llama` for BPE in the manner of SentencePiece, `gpt2` for byte-level BPE.
    pub model: String,
    /// How a byte-level vocabulary splits texts before BPE: `default`, `gpt-2`, `llama-bpe` or `qwen2`.
    pub pre: Option<String>,
    /// The token of each id.
    pub tokens: Vec<String>,
    /// For `llama`: tokens of greater score are merged first.
    pub scores: Vec<f32>,
    /// 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte.
    pub token_types: Vec<i32>,
    /// Both tokens of a merge with a space between them, the first merge first.
    pub merges: Vec<String>,
    /// Whether the begin token is added.
    pub add_bos: Option<bool>,
    /// Whether the end token is added.
    pub add_eos: Option<bool>,
    /// For `llama`: whether a space is added before texts.
    pub add_space_prefix: Option<bool>,
    /// The begin token.
    pub bos: Option<u32>,
    /// The end token.
    pub eos: Option<u32>,
    /// The token of unknown characters.
    pub unknown: Option<u32>,
}

const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER: i32 = 4;
const BYTE: i32 = 6;

/// Words as GPT-2, Llama 3 and Qwen 2 split them. The first is built into the crate.
const LLAMA: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// How llama.cpp splits where a file names no rule, or `default`: each regex splits the pieces of those before.
const DEFAULT: [&str; 4] = [
    r"[\p{P}\$\+<=>\^~\|]+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"\p{N}+",
    "[0-9][0-9][0-9]",
];

/// The most bytes of a token whose splits become merges.
const LONGEST: usize = 512;

impl Vocabulary {
    /// Reads the keys of `tokenizer.ggml`.
    ///
    /// # Errors
    /// When the model or the tokens are missing, or a value has the wrong type.
    pub fn from_metadata(metadata: &dyn VocabularyMetadata) -> Result<Self, TokenizerError> {
        let keys = Keys::new(metadata, "tokenizer.ggml.");
        let numbers = |key| match (keys.length(key)?, metadata.numbers(&keys.full(key))) {
            (None, _) => Ok(Vec::new()),
            (Some(_), Some(numbers)) => Ok(numbers),
            (Some(_), None) => Err(keys.refused(key, "a list of numbers")),
        };
        let present = metadata.keys();
        let id = |key| {
            let full = keys.full(key);
            if !present.contains(&full) {
                return Ok(None);
            }
            let id = metadata.number(&full).and_then(whole).and_then(|id| u32::try_from(id).ok());
            id.map(Some).ok_or_else(|| keys.refused(key, "a token id"))
        };
        let types = numbers("token_type")?
            .into_iter()
            .map(|kind| whole(kind).and_then(|kind| i32::try_from(kind).ok()).unwrap_or(i32::MAX));
        #[expect(clippy::cast_possible_truncation, reason = "scores are stored as f32")]
        let scores = numbers("scores")?.into_iter().map(|score| score as f32);
        Ok(Self {
            model: keys.text("model")?.ok_or_else(|| keys.missing("model", "`llama` or `gpt2`"))?,
            pre: keys.text("pre")?,
            tokens: keys.texts("tokens")?.ok_or_else(|| keys.missing("tokens", "a list"))?,
            scores: scores.collect(),
            token_types: types.collect(),
            merges: keys.texts("merges")?.unwrap_or_default(),
            add_bos: keys.flag("add_bos_token")?,
            add_eos: keys.flag("add_eos_token")?,
            add_space_prefix: keys.flag("add_space_prefix")?,
            bos: id("bos_token_id")?,
            eos: id("eos_token_id")?,
            unknown: id("unknown_token_id")?,
        })
    }

    fn is_pieces(&self) -> bool {
        self.model == "llama"
    }

    fn check(&self) -> Result<(), TokenizerError> {
        if !["llama", "gpt2"].contains(&self.model.as_str()) {
            return Err(unsupported("model", self.model.clone(), "`llama` or `gpt2`"));
        }
        if self.tokens.is_empty() {
            return Err(TokenizerError::Empty);
        }
        let tokens = self.tokens.len();
        let lists = [
            ("tokenizer.ggml.token_type", self.token_types.len(), true),
            (
                "tokenizer.ggml.scores",
                self.scores.len(),
                self.is_pieces() && self.merges.is_empty(),
            ),
        ];
        for (list, found, is_needed) in lists {
            if found != tokens && (is_needed || found != 0) {
                return Err(TokenizerError::Length { list, found, tokens });
            }
        }
        for (id, kind) in self.token_types.iter().enumerate() {
            if !(1..=6).contains(kind) {
                return Err(bad(id, "type", kind.to_string(), "an integer from 1 to 6"));
            }
        }
        for (id, score) in self.scores.iter().enumerate() {
            if !score.is_finite() {
                return Err(bad(id, "score", score.to_string(), "a finite number"));
            }
        }
        self.unknown.map_or(Ok(()), |id| self.token("the unknown token", id).map(|_| ()))
    }

    fn token(&self, role: &'static str, id: u32) -> Result<&String, TokenizerError> {
        let token = usize::try_from(id).ok().and_then(|id| self.tokens.get(id));
        token.ok_or(TokenizerError::NoToken { role, id, size: self.tokens.len() })
    }

    /// Tokens with their types. Files store user-defined tokens of `llama` with spaces or with `▁`.
    fn typed(&self) -> Vec<(String, i32)> {
        let typed = self.tokens.iter().zip(&self.token_types);
        let typed = typed.map(|(token, kind)| match *kind {
            USER if self.is_pieces() => (token.replace('▁', " "), USER),
            kind => (token.clone(), kind),
        });
        typed.collect()
    }

    fn unknown_token(&self, typed: &[(String, i32)]) -> Option<String> {
        let by_id = self.unknown.and_then(|id| typed.get(usize::try_from(id).ok()?));
        let by_type = typed.iter().find(|(_, kind)| *kind == UNKNOWN);
        by_id.or(by_type).map(|(token, _)| token.clone())
    }

    fn json(&self) -> Result<Value, TokenizerError> {
        let typed = self.typed();
        let mut ids: HashMap<&str, u32> = HashMap::new();
        for (second, (token, _)) in (0..).zip(&typed) {
            if let Some(first) = ids.insert(token, second) {
                let token = token.clone();
                return Err(TokenizerError::DuplicateToken { token, first, second });
            }
        }
        let merges = match self.is_pieces() && self.merges.is_empty() {
            true => self.merges_by_score()?,
            false => stored_merges(&self.merges)?,
        };
        let steps = if self.is_pieces() { self.piece_steps() } else { self.byte_steps()? };
        let has_bytes = self.is_pieces() && typed.iter().any(|(_, kind)| *kind == BYTE);
        let vocabulary: serde_json::Map<String, Value> =
            (0_u32..).zip(&typed).map(|(id, (token, _))| (token.clone(), id.into())).collect();
        Ok(json!({
            "version": "1.0",
            "added_tokens": added(&typed),
            "normalizer": steps.normalizer,
            "pre_tokenizer": steps.pre_tokenizer,
            "decoder": steps.decoder,
            "model": {
                "type": "BPE",
                "unk_token": self.unknown_token(&typed),
                "fuse_unk": self.is_pieces(),
                "byte_fallback": has_bytes,
                "ignore_merges": !self.is_pieces() && self.pre.as_deref() == Some("llama-bpe"),
                "vocab": vocabulary,
                "merges": merges,
            },
        }))
    }

    fn piece_steps(&self) -> Steps {
        let space = json!({ "type": "Replace", "pattern": { "String": " " }, "content": "▁" });
        let mut normalizers = vec![space];
        let mut decoders = vec![
            json!({ "type": "Replace", "pattern": { "String": "▁" }, "content": " " }),
            json!({ "type": "ByteFallback" }),
            json!({ "type": "Fuse" }),
        ];
        if self.add_space_prefix.unwrap_or(true) {
            normalizers.insert(0, json!({ "type": "Prepend", "prepend": "▁" }));
            decoders.push(json!({ "type": "Strip", "content": " ", "start": 1, "stop": 0 }));
        }
        Steps {
            normalizer: json!({ "type": "Sequence", "normalizers": normalizers }),
            pre_tokenizer: Value::Null,
            decoder: json!({ "type": "Sequence", "decoders": decoders }),
        }
    }

    fn byte_steps(&self) -> Result<Steps, TokenizerError> {
        let level = |use_regex: bool| json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex });
        let split = |regexes: &[&str]| {
            let splits = regexes.iter().map(|regex| json!({
                "type": "Split", "pattern": { "Regex": regex }, "behavior": "Isolated", "invert": false
            }));
            let steps: Vec<Value> = splits.chain([level(false)]).collect();
            json!({ "type": "Sequence", "pretokenizers": steps })
        };
        let (normalizer, pre_tokenizer) = match self.pre.as_deref().unwrap_or("default") {
            "default" => (Value::Null, split(&DEFAULT)),
            "gpt-2" => (Value::Null, level(true)),
            "llama-bpe" => (Value::Null, split(&[LLAMA])),
            "qwen2" => (json!({ "type": "NFC" }), split(&[QWEN])),
            other => {
                let expected = "`default`, `gpt-2`, `llama-bpe` or `qwen2`";
                return Err(unsupported("tokenizer.ggml.pre", other.to_owned(), expected));
            }
        };
        Ok(Steps { normalizer, pre_tokenizer, decoder: level(true) })
    }

    /// All splits of normal tokens into two, in the order of transformers: by the token's score, greatest first, then by the
    /// length of the left part in characters, longest first.
    fn merges_by_score(&self) -> Result<Vec<[&str; 2]>, TokenizerError> {
        let normal = self.tokens.iter().zip(&self.token_types).enumerate();
        let normal = normal.filter(|(_, (_, kind))| **kind == 1);
        let normal: Vec<(usize, &str)> =
            normal.map(|(id, (token, _))| (id, token.as_str())).collect();
        let known: HashSet<&str> = normal.iter().map(|(_, token)| *token).collect();
        let mut ranked = Vec::new();
        for &(id, token) in &normal {
            if token.len() > LONGEST {
                let found = format!("{} bytes", token.len());
                return Err(bad(id, "length", found, "at most 512 bytes"));
            }
            for (left, (split, _)) in token.char_indices().enumerate().skip(1) {
                let parts = token.split_at(split);
                if known.contains(parts.0) && known.contains(parts.1) {
                    ranked.push((self.scores[id], left, token.chars().count() - left, parts));
                }
            }
        }
        ranked.sort_by(|left, right| {
            let by_score = right.0.total_cmp(&left.0);
            by_score.then(right.1.cmp(&left.1)).then(right.2.cmp(&left.2))
        });
        Ok(ranked.into_iter().map(|(_, _, _, (left, right))| [left, right]).collect())
    }

    /// Begin and end tokens, where llama.cpp adds them too.
    fn ends(&self) -> Result<Ends, TokenizerError> {
        let begins = self.is_pieces() || self.pre.as_deref() == Some("llama-bpe");
        let one = |flag: bool, id: Option<u32>, token: &str| match (flag, id) {
            (false, _) => Ok(Vec::new()),
            (true, Some(id)) => self
                .token(if token == "bos" { "the begin token" } else { "the end token" }, id)
                .map(|_| vec![id]),
            (true, None) => Err(TokenizerError::MissingToken {
                token: format!("{token}_token_id"),
                role: "the token that it adds to texts",
            }),
        };
        Ok(Ends {
            before: one(self.add_bos.unwrap_or(begins), self.bos, "bos")?,
            after: one(self.add_eos.unwrap_or(false), self.eos, "eos")?,
        })
    }
}

/// The steps of `tokenizer.json` around the model.
struct Steps {
    normalizer: Value,
    pre_tokenizer: Value,
    decoder: Value,
}

/// Tokens that are found whole. User-defined ones are text, and the others are not.
fn added(typed: &[(String, i32)]) -> Vec<Value> {
    let is_added = |kind: i32| [UNKNOWN, CONTROL, USER].contains(&kind);
    let added = (0_u32..).zip(typed).filter(|(_, (_, kind))| is_added(*kind));
    let added = added.map(|(id, (content, kind))| {
        json!({
            "id": id, "content": content, "special": *kind != USER,
            "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        })
    });
    added.collect()
}

fn stored_merges(merges: &[String]) -> Result<Vec<[&str; 2]>, TokenizerError> {
    let merges = merges.iter().enumerate();
    merges.map(|(place, merge)| parts(place, merge).map(|(left, right)| [left, right])).collect()
}

/// A number without a fraction, as an integer.
fn whole(number: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "compared below")]
    let whole = number as i64;
    #[expect(clippy::cast_precision_loss, reason = "another number is refused")]
    let is_same = whole as f64 == number;
    is_same.then_some(whole)
}

fn bad(id: usize, what: &'static str, found: String, expected: &'static str) -> TokenizerError {
    TokenizerError::TokenValue { id, what, found, expected }
}

impl Tokenizer {
    /// The tokenizer of a GGUF file. `qwen2` normalizes texts to NFC as Qwen's own tokenizer does, and llama.cpp does not.
    ///
    /// # Errors
    /// When the vocabulary contradicts itself, or has parts that are not supported.
    pub fn from_vocabulary(vocabulary: &Vocabulary) -> Result<Self, TokenizerError> {
        vocabulary.check()?;
        let ends = vocabulary.ends()?;
        let json = vocabulary.json()?.to_string();
        let mut tokenizer = Self::from_json(json.as_bytes())?.with_ends(ends)?;
        tokenizer.joins_bytes = false;
        Ok(tokenizer)
    }
}
