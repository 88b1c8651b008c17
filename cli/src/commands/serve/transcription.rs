//! Requests for transcriptions: a form with a sound and fields, checked one by one.

use super::fields::Fields;
use super::handlers::Shared;
use super::multipart::Part;
use super::refusal::Refusal;
use super::request::{check_model, sampler};
use crate::commands::generate::{Asked, Speech, suppressed};
use axum::body::Bytes;
use relax_llm::{Sampler, Sampling, Task};
use serde_json::{Map, Number, Value};

/// In what form the text is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Text,
}

/// What a request asks for.
pub(super) struct Transcription {
    pub(super) speech: Speech,
    pub(super) form: Form,
    sampler: Sampler,
}

/// What clients may send that asks for what there is not.
const UNSUPPORTED: [&str; 7] = [
    "prompt",
    "stream",
    "chunking_strategy",
    "include[]",
    "timestamp_granularities[]",
    "known_speaker_names[]",
    "known_speaker_references[]",
];

/// Fields whose texts are numbers and truth values.
const LITERALS: [&str; 2] = ["temperature", "stream"];

impl Transcription {
    /// Reads a form. It may take long: all samples are converted.
    pub(super) fn read(parts: Vec<Part>, shared: &Shared) -> Result<Self, Refusal> {
        let Some((speech_tokens, most)) = &shared.speech else {
            return Err(Refusal::field("model", "the model reads text only"));
        };
        let (file, mut fields) = form(parts)?;
        check_model(&mut fields, shared)?;
        let language = fields.text("language")?;
        let known = speech_tokens.prompt(language.as_deref(), Task::Transcribe);
        known.map_err(|why| Refusal::field("language", why.to_string()))?;
        let form = match fields.text("response_format")?.as_deref() {
            None | Some("json") => Form::Json,
            Some("text") => Form::Text,
            Some(other) => {
                let found = Value::String(other.to_owned());
                return Err(fields.wrong("response_format", &found, "json or text"));
            }
        };
        let temperature = fields.number("temperature")?.unwrap_or(0.0);
        fields.unsupported(&UNSUPPORTED)?;
        fields.end()?;
        let sampler = sampler(Sampling { temperature, ..Sampling::greedy() }, 0)?;
        let file = file.ok_or_else(|| Refusal::field("file", "`file` is missing"))?;
        let speech = Speech::of_bytes(&file, *most, language);
        let speech = speech.map_err(|why| Refusal::field("file", format!("`file`: {why}")))?;
        Ok(Self { speech, form, sampler })
    }

    /// The sequence; its prompt is known when the language is.
    pub(super) fn asked(&self, shared: &Shared) -> Asked {
        let suppressed = shared.speech.as_ref().map(|(tokens, _)| suppressed(tokens));
        Asked {
            prompt: Vec::new(),
            sampler: self.sampler.clone(),
            max_tokens: shared.context,
            context: shared.context,
            top_logprobs: 0,
            stops: Vec::new(),
            suppressed: suppressed.unwrap_or_default(),
            constraint: None,
        }
    }
}

/// The file, and the other fields as those of an object.
fn form(parts: Vec<Part>) -> Result<(Option<Bytes>, Fields), Refusal> {
    let (mut file, mut map) = (None, Map::new());
    for part in parts {
        let name = part.name;
        if name == "file" && file.is_none() {
            file = Some(part.bytes);
            continue;
        }
        let text = std::str::from_utf8(&part.bytes)
            .map_err(|_| Refusal::field(name.clone(), format!("`{name}` is not UTF-8")))?;
        let literal = text.parse::<Number>().map(Value::Number).ok();
        let literal = literal.or_else(|| text.parse::<bool>().map(Value::Bool).ok());
        let literal = literal.filter(|_| LITERALS.contains(&name.as_str()));
        let value = literal.unwrap_or_else(|| Value::String(text.to_owned()));
        if map.insert(name.clone(), value).is_some() {
            return Err(Refusal::field(name.clone(), format!("`{name}` is there twice")));
        }
    }
    Ok((file, Fields::of(map)))
}
