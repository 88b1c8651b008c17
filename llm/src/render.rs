//! Text of a model: the values that a template is rendered with, and the rendering.

use crate::config::{Config, Family, Head, LayerKind};
use crate::error::Error;
use crate::quantize::{self, Quantization, Text};
use crate::roles::{CROSS_INPUTS, Role};
use crate::tensors::{Block, Checkpoint, Field, Format, Found, Tensors, Weight};
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use relax_syntax::format::format_source;
use relax_syntax::span::Source;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The files of `corpus/models/llm`.
const TEMPLATES: &[(&str, &str)] = &[
    ("attention.rx.jinja", include_str!("../../corpus/models/llm/attention.rx.jinja")),
    ("cache.rx.jinja", include_str!("../../corpus/models/llm/cache.rx.jinja")),
    ("entries.rx.jinja", include_str!("../../corpus/models/llm/entries.rx.jinja")),
    ("encoder_layers.rx.jinja", include_str!("../../corpus/models/llm/encoder_layers.rx.jinja")),
    ("gemma.rx.jinja", include_str!("../../corpus/models/llm/gemma.rx.jinja")),
    ("gpt2.rx.jinja", include_str!("../../corpus/models/llm/gpt2.rx.jinja")),
    ("layer.rx.jinja", include_str!("../../corpus/models/llm/layer.rx.jinja")),
    ("llama.rx.jinja", include_str!("../../corpus/models/llm/llama.rx.jinja")),
    ("pages.rx.jinja", include_str!("../../corpus/models/llm/pages.rx.jinja")),
    ("quantize.rx.jinja", include_str!("../../corpus/models/llm/quantize.rx.jinja")),
    ("quantized.rx.jinja", include_str!("../../corpus/models/llm/quantized.rx.jinja")),
    ("rotary.rx.jinja", include_str!("../../corpus/models/llm/rotary.rx.jinja")),
    ("speech.rx.jinja", include_str!("../../corpus/models/llm/speech.rx.jinja")),
    ("vision.rx.jinja", include_str!("../../corpus/models/llm/vision.rx.jinja")),
    ("weights.rx.jinja", include_str!("../../corpus/models/llm/weights.rx.jinja")),
    ("whisper.rx.jinja", include_str!("../../corpus/models/llm/whisper.rx.jinja")),
];

/// Rows of a page of the cache of `step_in_pages`: as many columns as tiles of a product have at most on current processors.
pub const PAGE: usize = 64;

/// What templates read. Floats are text already, so that each is written as the language reads it.
#[derive(Serialize)]
struct Values {
    family: &'static str,
    vocabulary: usize,
    hidden: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    intermediate: usize,
    context: usize,
    page: usize,
    epsilon: String,
    score_scale: String,
    score_cap: Option<String>,
    logit_cap: Option<String>,
    embedding_scale: Option<String>,
    adds_one_to_norms: bool,
    has_query_key_norms: bool,
    is_fused: bool,
    rotary_dim: usize,
    has_adjacent_pairs: bool,
    /// The frequencies of the pairs, for each rotary embedding.
    rotaries: Vec<Vec<String>>,
    frequency_divisors: Option<Weight>,
    /// Block formats that occur.
    blocks: BTreeSet<&'static Block>,
    quantize: Option<quantize::Values>,
    /// Weights outside of layers by role.
    outer: BTreeMap<&'static str, Weight>,
    /// What attention is limited to, each once; `None` for all that is there.
    windows: Vec<Option<usize>>,
    functions: Vec<Function>,
    layers: Vec<Layer>,
    /// Bands of an encoder of speech.
    bands: usize,
    /// Images that a model takes.
    image: Option<ImageValues>,
    encoder: Option<Box<Values>>,
    /// Whether layers attend to what the encoder makes.
    has_cross_attention: bool,
    /// As of [`Text`].
    #[serde(skip)]
    step_bytes: u64,
}

/// An image, and its rows of features.
#[derive(Serialize)]
struct ImageValues {
    side: usize,
    patch: usize,
    rows: usize,
}

/// The function of layers that are alike but for their weights.
#[derive(Clone, Serialize)]
struct Function {
    name: String,
    window: Option<usize>,
    parameters: Vec<Parameter>,
    /// By role; fields are parameters.
    weights: BTreeMap<&'static str, Weight>,
}

#[derive(Clone, Serialize)]
struct Parameter {
    name: String,
    annotation: String,
}

/// A call of a layer's function.
#[derive(Serialize)]
struct Layer {
    index: usize,
    function: String,
    rotary: usize,
    /// `param(…)` of each weight.
    arguments: Vec<String>,
    /// Weights by role of what is computed for the layer of what was encoded.
    encoded: BTreeMap<&'static str, Weight>,
}

/// The text of a model: functions `step`, `score` and what they call, formatted.
///
/// # Errors
/// When a tensor is missing, has another shape or a format that is not supported, or is not used.
pub fn text(config: &Config, tensors: &dyn Tensors) -> Result<String, Error> {
    quantized_text(config, tensors, None).map(|text| text.text)
}

/// As [`text`], where matrices are quantized when the model is compiled.
///
/// # Errors
/// As of [`text`].
pub fn quantized_text(
    config: &Config,
    tensors: &dyn Tensors,
    quantization: Option<Quantization>,
) -> Result<Text, Error> {
    let template = match config.family {
        Family::Gpt2 => "gpt2.rx.jinja",
        Family::Whisper => "whisper.rx.jinja",
        family if family.is_gemma() => "gemma.rx.jinja",
        _ => "llama.rx.jinja",
    };
    let mut checkpoint = Checkpoint::new(config, tensors, quantization);
    let mut values = values(config, &mut checkpoint)?;
    checkpoint.finish()?;
    let sources = checkpoint.sources.clone();
    let quantization = quantization.filter(|_| !sources.is_empty());
    values.quantize = quantization.map(|to| quantize::Values { name: to.name(), sources });
    let wrong = |why: String| Error::Template { template: template.to_owned(), why };
    let rendered = rendered(template, &values).map_err(|error| wrong(chain(&error)))?;
    let source = Source::new(template, rendered);
    let text = format_source(&source).map_err(|diagnostics| {
        let shown = diagnostics.first().map(|first| {
            let (line, _) = source.line_column(first.primary.span.start);
            format!("{}: `{}`", first.message, source.line(line).trim())
        });
        wrong(shown.unwrap_or_default())
    })?;
    let Checkpoint { quantized, kept, .. } = checkpoint;
    Ok(Text { text, quantized, kept, step_bytes: values.step_bytes })
}

/// An error with its causes: what is wrong in an included template is a cause.
fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", chain(cause)),
        None => error.to_string(),
    }
}

fn rendered(template: &str, values: &Values) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_keep_trailing_newline(true);
    for (name, source) in TEMPLATES {
        environment.add_template(name, source)?;
    }
    environment.get_template(template)?.render(values)
}

fn values(config: &Config, checkpoint: &mut Checkpoint<'_>) -> Result<Values, Error> {
    let encoder = config.encoder.as_ref().map(|encoder| values(encoder, checkpoint));
    let encoder = encoder.transpose()?.map(Box::new);
    let formats = encoder.as_ref().map_or_else(BTreeSet::new, |encoder| encoder.blocks.clone());
    let mut read = Read { formats, step_bytes: 0 };
    let outer = outer(config, checkpoint, &mut read)?;
    let divisors = Role::FrequencyDivisors;
    let frequency_divisors = if config.has_adjacent_pairs() && checkpoint.has(divisors) {
        Some(global(&checkpoint.find(config, divisors, 0)?))
    } else {
        None
    };
    let (functions, layers) = layers(config, checkpoint, &mut read)?;
    let windows: BTreeSet<Option<usize>> =
        functions.iter().map(|function| function.window).collect();
    let windows = windows.into_iter().collect();
    let frequencies =
        |rotary: &crate::Rotary| rotary.frequencies().iter().map(|x| format!("{x:?}")).collect();
    Ok(Values {
        family: config.family.name(),
        vocabulary: config.vocabulary,
        hidden: config.hidden,
        heads: config.heads,
        kv_heads: config.kv_heads,
        head_dim: config.head_dim,
        intermediate: config.intermediate,
        context: config.context,
        page: PAGE,
        epsilon: float(config.epsilon),
        score_scale: float(config.score_scale),
        score_cap: config.score_cap.map(float),
        logit_cap: config.logit_cap.map(float),
        embedding_scale: config.family.is_gemma().then(|| embedding_scale(config.hidden)),
        adds_one_to_norms: config.adds_one_to_norms(),
        has_query_key_norms: config.has_query_key_norms(),
        is_fused: config.family == Family::Phi3,
        rotary_dim: config.rotaries.first().map_or(0, |rotary| rotary.dim),
        has_adjacent_pairs: config.has_adjacent_pairs(),
        rotaries: config.rotaries.iter().map(frequencies).collect(),
        frequency_divisors,
        blocks: read.formats,
        step_bytes: read.step_bytes,
        quantize: None,
        outer,
        windows,
        functions,
        layers,
        bands: config.bands(),
        image: config.image_input().map(|image| ImageValues {
            side: image.side,
            patch: image.patch,
            rows: image.rows(),
        }),
        encoder,
        has_cross_attention: config.has_cross_attention(),
    })
}

fn float(number: f64) -> String {
    format!("{number:?}")
}

/// Gemma's factor of embeddings, the root of the hidden size in f32.
fn embedding_scale(hidden: usize) -> String {
    #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
    let exact = (hidden as f64).sqrt();
    #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
    let rounded = exact as f32;
    format!("{rounded:?}")
}

/// A weight outside of layers. The embedding and the head are (vocabulary, hidden) in all checkpoints.
fn global(found: &Found) -> Weight {
    let params = found.fields.iter().map(|field| field.param.clone()).collect();
    Weight::new(found, params, false)
}

/// What is read of a checkpoint.
struct Read {
    formats: BTreeSet<&'static Block>,
    /// In each step of decoding, in whole.
    step_bytes: u64,
}

impl Read {
    fn note(&mut self, found: &Found) {
        if let Format::Block(block) = found.format {
            self.formats.insert(block);
        }
    }
}

/// Weights outside of layers. The head is that of logits, wherever it comes from.
fn outer(
    config: &Config,
    checkpoint: &mut Checkpoint,
    read: &mut Read,
) -> Result<BTreeMap<&'static str, Weight>, Error> {
    let mut roles: Vec<(Role, Role)> =
        config.outer_roles().into_iter().map(|role| (role, role)).collect();
    let head = match config.head {
        Head::Embedding => Some(Role::Embedding),
        Head::Stored => Some(Role::Head),
        Head::StoredOrEmbedding if checkpoint.has(Role::Head) => Some(Role::Head),
        Head::StoredOrEmbedding => Some(Role::Embedding),
        Head::Absent => None,
    };
    roles.extend(head.map(|source| (Role::Head, source)));
    let mut weights = BTreeMap::new();
    for (role, source) in roles {
        let found = checkpoint.find(config, source, 0)?;
        read.note(&found);
        // Of the embedding and of positions a step takes rows; the rest belongs to what is encoded.
        if matches!(role, Role::Head | Role::FinalNorm | Role::FinalNormBias) {
            read.step_bytes += found.bytes();
        }
        weights.insert(role, global(&found));
    }
    Ok(with_biases(&weights))
}

/// Layers by what their text depends on.
type Kind = (Option<usize>, Vec<Format>);

fn layers(
    config: &Config,
    checkpoint: &mut Checkpoint,
    read: &mut Read,
) -> Result<(Vec<Function>, Vec<Layer>), Error> {
    let roles = config.layer_roles();
    let mut kinds: Vec<Kind> = Vec::new();
    let mut functions: Vec<Function> = Vec::new();
    let mut calls = Vec::new();
    for (index, &LayerKind { window, rotary }) in config.layers.iter().enumerate() {
        let mut found = Vec::new();
        for &role in &roles {
            found.push((role, checkpoint.find(config, role, index)?));
        }
        for (_, found) in &found {
            read.note(found);
            read.step_bytes += found.bytes();
        }
        let kind = (window, found.iter().map(|(_, found)| found.format.clone()).collect());
        let place = kinds.iter().position(|known| *known == kind).unwrap_or_else(|| {
            let name = match functions.len() {
                0 => "layer".to_owned(),
                before => format!("layer_{}", before + 1),
            };
            functions.push(function(config, name, window, &found));
            kinds.push(kind);
            functions.len() - 1
        });
        let fields = found.iter().flat_map(|(_, found)| &found.fields);
        let arguments = fields.map(|field| field.param.clone()).collect();
        let function = functions[place].name.clone();
        let encoded = encoded(config, checkpoint, (index, &mut *read))?;
        calls.push(Layer { index, function, rotary, arguments, encoded });
    }
    Ok((functions, calls))
}

/// What a layer's keys and values of what was encoded are computed with.
fn encoded(
    config: &Config,
    checkpoint: &mut Checkpoint<'_>,
    (layer, read): (usize, &mut Read),
) -> Result<BTreeMap<&'static str, Weight>, Error> {
    let mut weights = BTreeMap::new();
    for role in CROSS_INPUTS.into_iter().filter(|_| config.has_cross_attention()) {
        let found = checkpoint.find(config, role, layer)?;
        read.note(&found);
        weights.insert(role, global(&found));
    }
    Ok(with_biases(&weights))
}

/// Weights by identifier, matrices with the biases that are added to their products.
fn with_biases(weights: &BTreeMap<Role, Weight>) -> BTreeMap<&'static str, Weight> {
    let with_bias = |(role, weight): (&Role, &Weight)| {
        let mut weight = weight.clone();
        let bias = role.bias().and_then(|bias| weights.get(&bias));
        weight.bias = bias.cloned().map(Box::new);
        (role.identifier(), weight)
    };
    weights.iter().map(with_bias).collect()
}

fn function(
    config: &Config,
    name: String,
    window: Option<usize>,
    found: &[(Role, Found)],
) -> Function {
    let named = |role: Role, field: &Field| format!("{}{}", role.identifier(), field.suffix);
    let parameters = found.iter().flat_map(|(role, found)| {
        found.fields.iter().map(|field| Parameter {
            name: named(*role, field),
            annotation: field.annotation.clone(),
        })
    });
    let weight = |role: Role, found: &Found| {
        let fields = found.fields.iter().map(|field| named(role, field)).collect();
        Weight::new(found, fields, config.is_in_by_out())
    };
    let weights = found.iter().map(|(role, found)| (*role, weight(*role, found))).collect();
    let parameters = parameters.collect();
    Function { name, window, parameters, weights: with_biases(&weights) }
}
