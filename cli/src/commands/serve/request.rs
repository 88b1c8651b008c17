//! Requests for completions, checked field by field.

use super::fields::Fields;
use super::handlers::Shared;
use super::messages::{Images, messages};
use super::refusal::Refusal;
use crate::commands::generate::{Asked, Pixels, Suppressed};
use axum::http::StatusCode;
use relax_llm::{Constraint, Form, Sampler, Sampling, SamplingError, Special};
use serde_json::{Value, json};
use std::sync::Arc;

/// Choices of one request, stop texts, and probable tokens beside each token.
const MOST_CHOICES: u64 = 16;
const MOST_STOPS: usize = 16;
const MOST_TOP: u64 = 20;

/// Which interface is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Chat,
    Text,
}

/// What a request asks for.
pub(super) struct Request {
    pub(super) kind: Kind,
    pub(super) prompt: Vec<u32>,
    /// Of the messages.
    pub(super) pixels: Arc<Pixels>,
    sampling: Sampling,
    seed: u64,
    pub(super) choices: usize,
    pub(super) max_tokens: usize,
    stops: Vec<String>,
    /// Whether the answer has the probability of each token, and how many others beside it.
    pub(super) logprobs: Option<usize>,
    pub(super) is_stream: bool,
    pub(super) include_usage: bool,
    /// What keeps each choice to a form.
    constraint: Option<Constraint>,
}

/// What clients may send that changes no answer here, or asks for nothing.
const IGNORED: [&str; 5] =
    ["user", "metadata", "service_tier", "safety_identifier", "prompt_cache_key"];
const UNSUPPORTED: [&str; 18] = [
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "grammar",
    "logit_bias",
    "modalities",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "reasoning_effort",
    "store",
    "suffix",
    "tool_choice",
    "tools",
    "verbosity",
    "web_search_options",
    "echo",
];

impl Request {
    /// Reads a body. It may take long: a prompt is rendered and tokenized.
    pub(super) fn read(kind: Kind, body: &[u8], shared: &Shared) -> Result<Self, Refusal> {
        if shared.speech.is_some() {
            let words = "the model transcribes speech: POST it to /v1/audio/transcriptions";
            return Err(Refusal::field("model", words));
        }
        let mut fields = Fields::parse(body)?;
        check_model(&mut fields, shared)?;
        let mut pixels = Pixels::default();
        let prompt = match kind {
            Kind::Chat => conversation(&mut fields, &mut pixels, shared)?,
            Kind::Text => text(&mut fields, shared)?,
        };
        let (sampling, seed) = sampling(&mut fields)?;
        let choices = fields.integer("n", (1, MOST_CHOICES))?.unwrap_or(1);
        if let Some(best) = fields.integer("best_of", (1, MOST_CHOICES))?
            && best != choices
        {
            return Err(Refusal::field("best_of", "`best_of` is supported where it equals `n`"));
        }
        let max_tokens = max_tokens(&mut fields, shared)?;
        let stops = fields.texts("stop", MOST_STOPS)?;
        let logprobs = logprobs(kind, &mut fields)?;
        let is_stream = fields.flag("stream")?;
        let include_usage = stream_options(&mut fields, is_stream)?;
        let constraint = response_format(&mut fields, shared)?;
        for name in IGNORED {
            fields.take(name);
        }
        fields.unsupported(&UNSUPPORTED)?;
        fields.end()?;
        let choices = usize::try_from(choices).unwrap_or(1);
        let request = Self {
            kind,
            prompt,
            pixels: Arc::new(pixels),
            sampling,
            seed,
            choices,
            max_tokens,
            stops,
            logprobs,
            is_stream,
            include_usage,
            constraint,
        };
        // Refuses switches out of range.
        request.sampler(0)?;
        Ok(request)
    }

    fn sampler(&self, choice: usize) -> Result<Sampler, Refusal> {
        sampler(self.sampling, self.seed.wrapping_add(choice as u64))
    }

    /// Positions of a sequence: its memory is reserved for these.
    pub(super) fn positions(&self, shared: &Shared) -> usize {
        self.prompt.len().saturating_add(self.max_tokens).min(shared.context)
    }

    /// The sequence of a choice, whose seed is that of the request and its number.
    pub(super) fn asked(&self, choice: usize, shared: &Shared) -> Result<Asked, Refusal> {
        Ok(Asked {
            prompt: self.prompt.clone(),
            sampler: self.sampler(choice)?,
            max_tokens: self.max_tokens,
            context: self.positions(shared).max(self.prompt.len() + 1),
            top_logprobs: self.logprobs.unwrap_or(0),
            stops: self.stops.clone(),
            suppressed: Suppressed::default(),
            constraint: self.constraint.as_ref().map(Constraint::again),
        })
    }
}

/// Refuses switches out of range.
pub(super) fn sampler(sampling: Sampling, seed: u64) -> Result<Sampler, Refusal> {
    Sampler::new(sampling, seed).map_err(|why| match &why {
        SamplingError::Switch { switch, .. } => Refusal::field(*switch, why.to_string()),
        _ => Refusal::internal(why.to_string()),
    })
}

pub(super) fn check_model(fields: &mut Fields, shared: &Shared) -> Result<(), Refusal> {
    match fields.text("model")? {
        None => Err(Refusal::field("model", "`model` is missing")),
        Some(name) if name == shared.model => Ok(()),
        Some(_) => Err(no_model(shared)),
    }
}

pub(super) fn no_model(shared: &Shared) -> Refusal {
    let words = format!("there is no such model: this server has `{}`", shared.model);
    Refusal::field("model", words).with_status(StatusCode::NOT_FOUND)
}

fn conversation(
    fields: &mut Fields,
    pixels: &mut Pixels,
    shared: &Shared,
) -> Result<Vec<u32>, Refusal> {
    let mut images = Images { vision: shared.vision.as_deref(), pixels, context: shared.context };
    let messages = messages(fields, &mut images)?;
    let refused = |why: String| Refusal::field("messages", why);
    let template = shared.template.as_ref().map_err(|why| refused(why.clone()))?;
    let text = template.render(&messages).map_err(|why| refused(why.to_string()))?;
    let tokens = shared.tokenizer.encode(&text, Special::Template);
    let tokens = tokens.map_err(|why| refused(why.to_string()))?;
    checked("messages", (tokens, pixels.images), shared)
}

fn text(fields: &mut Fields, shared: &Shared) -> Result<Vec<u32>, Refusal> {
    let expected = "a string, an array of one string, or an array of tokens";
    let token = |value: &Value| u32::try_from(value.as_u64()?).ok();
    let value = match fields.take("prompt") {
        None => return Err(Refusal::field("prompt", "`prompt` is missing")),
        Some(Value::Array(items)) if items.len() == 1 && items[0].is_string() => items[0].clone(),
        Some(value) => value,
    };
    let tokens = match &value {
        Value::String(text) => shared
            .tokenizer
            .encode(text, Special::Plain)
            .map_err(|why| Refusal::field("prompt", why.to_string()))?,
        Value::Array(items) => items
            .iter()
            .map(token)
            .collect::<Option<_>>()
            .ok_or_else(|| fields.wrong("prompt", &value, expected))?,
        other => return Err(fields.wrong("prompt", other, expected)),
    };
    checked("prompt", (tokens, 0), shared)
}

/// Tokens that the model can continue.
/// The tokens of a prompt with so many images, as the model reads them.
fn checked(
    field: &str,
    (tokens, images): (Vec<u32>, usize),
    shared: &Shared,
) -> Result<Vec<u32>, Refusal> {
    let refused = |why: String| Err(Refusal::field(field, why));
    let tokens = match &shared.vision {
        Some(vision) => vision.expanded(&tokens, images).or_else(refused)?,
        None => tokens,
    };
    if tokens.is_empty() {
        return refused("the prompt has no tokens".to_owned());
    }
    if let Some(token) = tokens.iter().find(|token| shared.tokenizer.bytes(**token).is_none()) {
        return refused(format!("the prompt has {token}, which is no token of the vocabulary"));
    }
    if tokens.len() >= shared.context {
        return refused(format!(
            "the prompt has {} tokens: a sequence has at most {}, of which the last one must be free",
            tokens.len(),
            shared.context
        ));
    }
    Ok(tokens)
}

/// Defaults are those of OpenAI; the names of others are those of llama.cpp.
fn sampling(fields: &mut Fields) -> Result<(Sampling, u64), Refusal> {
    let own = Sampling::default();
    let top_k = fields.integer("top_k", (0, u64::from(u32::MAX)))?.unwrap_or(0);
    let sampling = Sampling {
        temperature: fields.number("temperature")?.unwrap_or(own.temperature),
        top_k: usize::try_from(top_k).ok().filter(|&top_k| top_k > 0),
        top_p: fields.number("top_p")?.unwrap_or(own.top_p),
        min_p: fields.number("min_p")?.unwrap_or(own.min_p),
        repeat_penalty: fields.number("repeat_penalty")?.unwrap_or(own.repeat_penalty),
    };
    Ok((sampling, fields.seed("seed")?.unwrap_or(0)))
}

fn max_tokens(fields: &mut Fields, shared: &Shared) -> Result<usize, Refusal> {
    let most = shared.max_tokens as u64;
    let long = fields.integer("max_completion_tokens", (1, most))?;
    let short = fields.integer("max_tokens", (1, most))?;
    if let (Some(long), Some(short)) = (long, short)
        && long != short
    {
        let words = "`max_tokens` and `max_completion_tokens` differ";
        return Err(Refusal::field("max_tokens", words));
    }
    let asked = long.or(short).and_then(|asked| usize::try_from(asked).ok());
    Ok(asked.unwrap_or(shared.max_tokens))
}

fn logprobs(kind: Kind, fields: &mut Fields) -> Result<Option<usize>, Refusal> {
    let small = |number: u64| usize::try_from(number).unwrap_or(0);
    if kind == Kind::Text {
        return Ok(fields.integer("logprobs", (0, MOST_TOP))?.map(small));
    }
    let is_wanted = fields.flag("logprobs")?;
    let top = fields.integer("top_logprobs", (0, MOST_TOP))?.map(small);
    match (is_wanted, top) {
        (false, Some(1..)) => {
            Err(Refusal::field("top_logprobs", "`top_logprobs` needs `logprobs`"))
        }
        (false, _) => Ok(None),
        (true, top) => Ok(Some(top.unwrap_or(0))),
    }
}

fn stream_options(fields: &mut Fields, is_stream: bool) -> Result<bool, Refusal> {
    let Some(value) = fields.take("stream_options") else { return Ok(false) };
    if !is_stream {
        return Err(Refusal::field("stream_options", "`stream_options` needs `stream`"));
    }
    let mut options = Fields::within(value, "stream_options")?;
    let include_usage = options.flag("include_usage")?;
    options.unsupported(&["include_obfuscation"])?;
    options.end()?;
    Ok(include_usage)
}

/// What keeps an answer to its form; `None` for any text.
fn response_format(fields: &mut Fields, shared: &Shared) -> Result<Option<Constraint>, Refusal> {
    let Some(value) = fields.take("response_format") else { return Ok(None) };
    let mut format = Fields::within(value, "response_format")?;
    let kind = format.text("type")?;
    let schema = match kind.as_deref() {
        Some("text") => None,
        Some("json_object") => Some(json!({ "type": "object" })),
        Some("json_schema") => {
            let inner = format.take("json_schema").unwrap_or_default();
            let mut inner = Fields::within(inner, &format.place("json_schema"))?;
            let schema = inner.take("schema");
            let place = inner.place("schema");
            let schema = schema
                .ok_or_else(|| Refusal::field(place.clone(), format!("`{place}` is missing")))?;
            ["name", "description", "strict"].into_iter().for_each(|name| drop(inner.take(name)));
            inner.end()?;
            Some(schema)
        }
        _ => {
            let found = kind.map_or(Value::Null, Value::String);
            return Err(format.wrong("type", &found, "text, json_object or json_schema"));
        }
    };
    format.end()?;
    let made = schema.map(|schema| shared.grammars()?.constraint(&Form::JsonSchema(schema)));
    made.transpose().map_err(|why| Refusal::field("response_format", why.to_string()))
}
