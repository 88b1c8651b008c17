//! Answers as JSON: whole ones, and chunks of a stream, in the forms of chat and of text completions.

use super::request::Kind;
use crate::commands::generate::{Emitted, Reason};
use relax_llm::{Chosen, Tokenizer};
use serde_json::{Map, Value, json};

/// What all parts of an answer have.
pub(super) struct Head {
    pub(super) kind: Kind,
    pub(super) id: String,
    /// Seconds since 1970.
    pub(super) created: u64,
    pub(super) model: String,
    pub(super) has_logprobs: bool,
    pub(super) include_usage: bool,
}

/// A choice as far as it is known.
#[derive(Default)]
pub(super) struct Choice {
    pub(super) text: String,
    pub(super) tokens: Vec<Emitted>,
    /// Characters of the text before each token.
    pub(super) offsets: Vec<usize>,
    pub(super) reason: Option<Reason>,
}

impl Choice {
    /// Adds a token; `before` characters are sent already.
    pub(super) fn add(&mut self, token: Emitted, before: usize) {
        self.offsets.push(before + self.text.chars().count());
        self.text += token.text.as_deref().unwrap_or_default();
        self.tokens.push(token);
    }

    fn finish_reason(&self) -> Option<&'static str> {
        self.reason.map(|reason| match reason {
            Reason::EndToken | Reason::StopText | Reason::Form => "stop",
            Reason::MaxTokens | Reason::Context => "length",
        })
    }
}

/// Tokens of a prompt and of all choices.
pub(super) fn usage(prompt: usize, generated: usize) -> Value {
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": generated,
        "total_tokens": prompt + generated,
    })
}

impl Head {
    fn object(&self, kind: &str, choices: Value) -> Value {
        json!({
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        })
    }

    /// A whole answer.
    pub(super) fn whole(&self, choices: &[Choice], usage: Value, tokenizer: &Tokenizer) -> Value {
        let choices = choices.iter().enumerate().map(|(index, choice)| {
            let mut object = json!({
                "index": index,
                "logprobs": self.logprobs(choice, tokenizer),
                "finish_reason": choice.finish_reason(),
            });
            match self.kind {
                Kind::Text => object["text"] = json!(choice.text),
                Kind::Chat => {
                    object["message"] =
                        json!({ "role": "assistant", "content": choice.text, "refusal": null });
                }
            }
            object
        });
        let kind = match self.kind {
            Kind::Chat => "chat.completion",
            Kind::Text => "text_completion",
        };
        let mut object = self.object(kind, choices.collect());
        object["usage"] = usage;
        object
    }

    /// A part of a choice; the first one of a chat says who speaks.
    pub(super) fn chunk(
        &self,
        (index, is_first): (usize, bool),
        choice: &Choice,
        tokenizer: &Tokenizer,
    ) -> Value {
        let mut object = json!({
            "index": index,
            "logprobs": self.logprobs(choice, tokenizer),
            "finish_reason": choice.finish_reason(),
        });
        match self.kind {
            Kind::Text => object["text"] = json!(choice.text),
            Kind::Chat if is_first => {
                object["delta"] = json!({ "role": "assistant", "content": choice.text });
            }
            Kind::Chat if choice.text.is_empty() => object["delta"] = json!({}),
            Kind::Chat => object["delta"] = json!({ "content": choice.text }),
        }
        let mut chunk = self.object(self.chunks(), json!([object]));
        if self.include_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    /// The last part of a stream whose usage is wanted.
    pub(super) fn usage_chunk(&self, usage: Value) -> Value {
        let mut chunk = self.object(self.chunks(), json!([]));
        chunk["usage"] = usage;
        chunk
    }

    fn chunks(&self) -> &'static str {
        match self.kind {
            Kind::Chat => "chat.completion.chunk",
            Kind::Text => "text_completion",
        }
    }

    fn logprobs(&self, choice: &Choice, tokenizer: &Tokenizer) -> Value {
        if !self.has_logprobs {
            return Value::Null;
        }
        match self.kind {
            Kind::Chat => chat_logprobs(choice, tokenizer),
            Kind::Text => text_logprobs(choice, tokenizer),
        }
    }
}

/// A token as text; where it is a part of a character, with U+FFFD.
fn spelled(token: u32, tokenizer: &Tokenizer) -> String {
    match tokenizer.bytes(token) {
        Some(bytes) if !bytes.is_empty() => String::from_utf8_lossy(bytes).into_owned(),
        _ => tokenizer.spelling(token).unwrap_or_default(),
    }
}

fn chat_logprobs(choice: &Choice, tokenizer: &Tokenizer) -> Value {
    let object = |chosen: &Chosen| {
        json!({
            "token": spelled(chosen.token, tokenizer),
            "logprob": chosen.logprob,
            "bytes": tokenizer.bytes(chosen.token),
        })
    };
    let tokens = choice.tokens.iter().map(|token| {
        let mut one = object(&token.chosen);
        one["top_logprobs"] = token.top.iter().map(object).collect();
        one
    });
    json!({ "content": tokens.collect::<Value>() })
}

fn text_logprobs(choice: &Choice, tokenizer: &Tokenizer) -> Value {
    let tokens = choice.tokens.iter().map(|token| spelled(token.chosen.token, tokenizer));
    let tops = choice.tokens.iter().map(|token| {
        let all = token.top.iter().chain([&token.chosen]);
        all.map(|one| (spelled(one.token, tokenizer), json!(one.logprob))).collect::<Map<_, _>>()
    });
    json!({
        "tokens": tokens.collect::<Vec<_>>(),
        "token_logprobs": choice.tokens.iter().map(|token| token.chosen.logprob).collect::<Vec<_>>(),
        "top_logprobs": tops.collect::<Vec<_>>(),
        "text_offset": choice.offsets,
    })
}
