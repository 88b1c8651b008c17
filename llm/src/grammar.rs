//! Texts of a form: a grammar, a JSON schema or a regular expression says which tokens may come next. The engine is llguidance, which
//! servers of language models share.

use crate::tokenizer::Tokenizer;
use llguidance::api::{StopReason, TopLevelGrammar};
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use serde_json::Value;
use std::sync::Arc;

/// Bytes of a grammar.
const MOST_SOURCE: usize = 1 << 20;
const STUCK: &str = "no token of the vocabulary continues the text";
/// How llguidance marks bytes that are no text.
const MARK: u8 = 0xff;

/// What a text is to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// A context-free grammar in Lark's language, as llguidance reads it. It begins with the rule `start`.
    Lark(String),
    /// A JSON value of a schema.
    JsonSchema(Value),
    /// A regular expression for the whole text.
    Regex(String),
}

/// Why a form cannot be kept to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// The grammar is too long, has a mistake, or says what is not supported.
    #[error("the grammar: {0}")]
    Refused(String),
    /// The engine gives up, as for a grammar whose states are too many.
    #[error("the grammar was given up after {tokens} tokens: {why}")]
    GivenUp {
        /// Of the text so far.
        tokens: usize,
        /// In the engine's words.
        why: String,
    },
}

/// Forms for the tokens of a model.
pub struct Grammars {
    factory: ParserFactory,
    /// Tokens that end a text.
    ends: Vec<u32>,
    /// The engine's one, which no vocabulary has.
    end: u32,
}

impl Grammars {
    /// For a vocabulary with so many logits.
    ///
    /// # Errors
    /// When the engine refuses the vocabulary.
    pub fn new(
        tokenizer: &Tokenizer,
        vocabulary: usize,
        ends: &[u32],
    ) -> Result<Self, GrammarError> {
        let refused = |why: String| GrammarError::Refused(why);
        let end = u32::try_from(vocabulary).map_err(|error| refused(error.to_string()))?;
        let word = |id: u32| match tokenizer.bytes(id) {
            Some(bytes) if !tokenizer.is_special(id) && !bytes.starts_with(&[MARK]) => {
                bytes.to_vec()
            }
            // No text has them.
            _ => Vec::new(),
        };
        let mut words: Vec<Vec<u8>> = (0..end).map(word).collect();
        words.push([&[MARK][..], b"<end>"].concat());
        let trie = TokTrie::from(&TokRxInfo::new(end + 1, end), &words);
        let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let factory = ParserFactory::new_simple(&environment);
        let mut factory = factory.map_err(|error| refused(first_line(&error.to_string())))?;
        factory.quiet();
        Ok(Self { factory, ends: ends.to_vec(), end })
    }

    /// A text of a form, from its begin.
    ///
    /// # Errors
    /// When the form has a mistake, or says what the engine does not support.
    pub fn constraint(&self, form: &Form) -> Result<Constraint, GrammarError> {
        let (grammar, length) = match form {
            Form::Lark(text) => (TopLevelGrammar::from_lark(text.clone()), text.len()),
            Form::Regex(text) => (TopLevelGrammar::from_regex(text), text.len()),
            Form::JsonSchema(schema) => {
                (TopLevelGrammar::from_json_schema(schema.clone()), schema.to_string().len())
            }
        };
        if length > MOST_SOURCE {
            let why = format!("it has {length} bytes, at most {MOST_SOURCE} are read");
            return Err(GrammarError::Refused(why));
        }
        let matcher = Matcher::new(self.factory.create_parser(grammar));
        match matcher.get_error() {
            Some(why) => Err(GrammarError::Refused(first_line(&why))),
            None => Ok(Constraint { matcher, ends: self.ends.clone(), end: self.end, tokens: 0 }),
        }
    }
}

/// A text that keeps to a form.
pub struct Constraint {
    matcher: Matcher,
    ends: Vec<u32>,
    end: u32,
    tokens: usize,
}

impl Constraint {
    /// The same form for another text, where this one has not begun; the grammar is not compiled again.
    #[must_use]
    pub fn again(&self) -> Self {
        let (matcher, ends) = (self.matcher.deep_clone(), self.ends.clone());
        Self { matcher, ends, end: self.end, tokens: self.tokens }
    }

    fn given_up(&self, why: &str) -> GrammarError {
        GrammarError::GivenUp { tokens: self.tokens, why: first_line(why) }
    }

    /// Masks the logits of tokens that may not come next. `false`: nothing may, and the text is over.
    ///
    /// # Errors
    /// When the engine gives up.
    pub fn mask(&mut self, logits: &mut [f32]) -> Result<bool, GrammarError> {
        if self.matcher.is_stopped() {
            return Ok(false);
        }
        let mask = self.matcher.compute_mask();
        let mask = mask.map_err(|error| {
            // An error of the engine has the reason in its words only.
            let why = first_line(&error.to_string());
            let is_stuck = why == StopReason::NoExtensionBias.to_string();
            self.given_up(if is_stuck { STUCK } else { &why })
        })?;
        let may_end = mask.is_allowed(self.end);
        let mut is_open = false;
        for (token, logit) in (0..).zip(logits.iter_mut()) {
            let is_allowed = match self.ends.contains(&token) {
                true => may_end,
                false => token < self.end && mask.is_allowed(token),
            };
            match is_allowed {
                true => is_open |= *logit > f32::NEG_INFINITY,
                false => *logit = f32::NEG_INFINITY,
            }
        }
        if !is_open && !may_end {
            return Err(self.given_up(STUCK));
        }
        Ok(is_open)
    }

    /// Takes the token that comes next, which is no end.
    ///
    /// # Errors
    /// When the token was masked.
    pub fn push(&mut self, token: u32) -> Result<(), GrammarError> {
        self.matcher.consume_token(token).map_err(|error| self.given_up(&error.to_string()))?;
        self.tokens += 1;
        Ok(())
    }
}

/// The engine adds the calls that led to an error.
fn first_line(why: &str) -> String {
    why.lines().next().unwrap_or_default().trim_end_matches(':').to_owned()
}

#[cfg(test)]
mod tests {
    use super::{Constraint, Form, GrammarError, Grammars};
    use crate::tokenizer::Tokenizer;
    use serde_json::json;

    /// Letters, digits and some words as tokens; 40 ends a text, and logits are more than tokens.
    const END: u32 = 40;
    const LOGITS: usize = 44;

    fn tokenizer() -> Tokenizer {
        let words = [
            "{", "}", "\"", ":", ",", "a", "b", "c", "0", "1", "2", "ab", "{\"", "\":", "true",
            "-", "[", "]", "e", "\u{10a}", "\u{120}", "\\",
        ];
        let vocabulary: serde_json::Map<String, serde_json::Value> =
            words.iter().zip(0..).map(|(word, id)| ((*word).to_owned(), json!(id))).collect();
        let mut document = json!({
            "version": "1.0", "truncation": null, "padding": null, "normalizer": null,
            "added_tokens": [{ "id": END, "content": "</s>", "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": true }],
            "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true },
            "post_processor": null,
            "decoder": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true },
            "model": { "type": "BPE", "dropout": null, "unk_token": "\\", "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary, "merges": [] },
        });
        document["model"]["vocab"]["</s>"] = json!(END);
        Tokenizer::from_json(document.to_string().as_bytes()).expect("it is a tokenizer")
    }

    fn constraint(form: &Form) -> Result<Constraint, GrammarError> {
        let grammars = Grammars::new(&tokenizer(), LOGITS, &[END]).expect("it is a vocabulary");
        grammars.constraint(form)
    }

    /// Tokens that may come next; `None` after the end.
    fn next(constraint: &mut Constraint) -> Option<Vec<u32>> {
        let mut logits = vec![0.0; LOGITS];
        let is_open = constraint.mask(&mut logits).expect("the engine goes on");
        let tokens = (0..).zip(logits).filter(|(_, logit)| *logit == 0.0).map(|(token, _)| token);
        is_open.then(|| tokens.collect())
    }

    /// The texts that random tokens make, each to its end.
    fn texts(form: &Form, count: u32) -> Vec<String> {
        let tokenizer = tokenizer();
        let text = |seed: u32| {
            let mut constraint = constraint(form).expect("it is a form");
            let (mut ids, mut state) = (Vec::new(), seed);
            while let Some(tokens) = next(&mut constraint) {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let end = tokens.contains(&END) && (ids.len() > 30 || state % 4 == 0);
                let place = (state >> 8) as usize % tokens.len();
                let token = if end { END } else { tokens[place] };
                if token == END || ids.len() > 200 {
                    break;
                }
                constraint.push(token).expect("it may come");
                ids.push(token);
            }
            tokenizer.decode(&ids).expect("they are tokens")
        };
        (0..count).map(text).collect()
    }

    #[test]
    fn a_grammar_says_which_tokens_come_next() {
        let form = Form::Lark("start: \"ab\" rest?\nrest: /[0-2]/ rest | \"c\"\n".to_owned());
        let mut constraint = constraint(&form).expect("it is a grammar");
        assert_eq!(next(&mut constraint), Some(vec![5, 11]));
        constraint.push(5).expect("it is allowed");
        assert_eq!(next(&mut constraint), Some(vec![6]));
        constraint.push(6).expect("it is allowed");
        assert_eq!(next(&mut constraint), Some(vec![7, 8, 9, 10, END]));
        constraint.push(9).expect("it is allowed");
        // A rest goes on, so that the text may not end here.
        assert_eq!(next(&mut constraint), Some(vec![7, 8, 9, 10]));
        constraint.push(7).expect("it is allowed");
        assert!(matches!(next(&mut constraint), None | Some(_)));
        assert!(next(&mut constraint).is_none_or(|tokens| tokens == [END]));
    }

    #[test]
    fn values_are_those_of_a_schema() {
        let schema = json!({ "type": "object", "additionalProperties": false, "required": ["a"],
            "properties": { "a": { "type": "array", "items": { "type": "integer" } }, "b": { "type": "boolean" } } });
        let mut whole = 0;
        for text in texts(&Form::JsonSchema(schema), 40) {
            let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) else {
                // It was cut off: `false` has no token here but single letters, of which there is no `f`.
                assert!(text.len() > 60 || text.contains("\"b\""), "{text}");
                continue;
            };
            whole += 1;
            let object = value.as_object().expect("it is an object");
            assert!(
                object["a"].as_array().is_some_and(|all| all
                    .iter()
                    .all(|one| one.as_f64().is_some_and(|one| one.fract() == 0.0))),
                "{text}"
            );
            assert!(object.keys().all(|key| key == "a" || key == "b"), "{text}");
        }
        assert!(whole > 10, "{whole}");
    }

    #[test]
    fn texts_match_a_regular_expression() {
        for text in texts(&Form::Regex("(ab|c)+[012]{2}".to_owned()), 40) {
            let head = text.trim_end_matches(['0', '1', '2']);
            assert_eq!(text.len() - head.len(), 2, "{text}");
            assert!(
                !head.is_empty() && head.replace("ab", "").replace('c', "").is_empty(),
                "{text}"
            );
        }
    }

    #[test]
    fn mistakes_are_refused() {
        let long = Form::Lark(format!("start: \"{}\"\n", "a".repeat(super::MOST_SOURCE)));
        for (form, part) in [
            (Form::Lark("start: x\n".to_owned()), "unknown name"),
            (Form::Lark("begin: \"a\"\n".to_owned()), "start"),
            (Form::Regex("(".to_owned()), ""),
            (Form::JsonSchema(json!({ "type": "nothing" })), "nothing"),
            (long, "at most 1048576"),
        ] {
            let said = constraint(&form).err().expect("it is refused").to_string();
            assert!(said.starts_with("the grammar: ") && said.contains(part), "{said}");
            assert!(!said.contains('\n'), "{said}");
        }
        // What no token spells.
        let mut constraint = constraint(&Form::Regex("z".to_owned())).expect("it is a form");
        let said = constraint.mask(&mut [0.0; LOGITS]).expect_err("nothing may come").to_string();
        assert!(said.contains("after 0 tokens: no token"), "{said}");
    }
}
