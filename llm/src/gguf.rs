//! Configurations of GGUF files: the metadata under the prefix of the architecture.

use crate::config::{Config, Family, Head, LayerKind, Naming, Size, inverse_root, most};
use crate::error::Error;
use crate::metadata::{Keys, Metadata};
use crate::rotary::{Rotary, Scaling};

/// Keys under the prefix that do not change results.
const IGNORED: &[&str] =
    &["rope.scaling.finetuned", "rope.scaling.original_context_length", "tensor_data_layout"];

/// Architectures in GGUF files. Those of Mistral are called `llama`.
const ARCHITECTURES: [Family; 7] = [
    Family::Llama,
    Family::Qwen2,
    Family::Qwen3,
    Family::Gemma2,
    Family::Gemma3,
    Family::Phi3,
    Family::Gpt2,
];

impl Config {
    /// Reads the metadata of a GGUF file.
    ///
    /// # Errors
    /// When an architecture or switch is not supported, a number is missing or absurd, or a key of the architecture is
    /// not known.
    pub fn from_metadata(metadata: &dyn Metadata) -> Result<Self, Error> {
        let family = architecture(metadata)?;
        let prefix = format!("{family}.");
        let keys = Keys::new(metadata, &prefix);
        let config = read(family, &keys, metadata)?;
        keys.finish(|key| IGNORED.contains(&key))?;
        config.checked(|size| {
            let key = match size {
                Size::Heads => "attention.head_count",
                Size::KvHeads => "attention.head_count_kv",
                Size::RotaryDim => "rope.dimension_count",
            };
            format!("{prefix}{key}")
        })
    }
}

fn architecture(metadata: &dyn Metadata) -> Result<Family, Error> {
    let keys = Keys::new(metadata, "");
    keys.only("general.type", &["model"])?;
    let names = ARCHITECTURES.map(Family::name);
    let Some(found) = keys.only("general.architecture", &names)? else {
        return Err(keys.missing("general.architecture", &names.join(", ")));
    };
    let family = ARCHITECTURES.into_iter().find(|family| family.name() == found);
    family.ok_or_else(|| keys.refused("general.architecture", names.join(", ")))
}

fn read(family: Family, keys: &Keys, metadata: &dyn Metadata) -> Result<Config, Error> {
    let hidden = keys.required("embedding_length", most::WIDTH)?;
    let layer_count = keys.required("block_count", most::LAYERS)?;
    let heads = keys.required("attention.head_count", most::HEADS)?;
    let kv_heads = keys.size("attention.head_count_kv", most::HEADS)?.unwrap_or(heads);
    let head_dim = head_dim(family, keys, hidden, heads)?;
    let window = window(family, keys)?;
    let rotaries = rotaries(family, keys, head_dim)?;
    let local = rotaries.len().saturating_sub(1);
    let layers = (0..layer_count).map(|layer| {
        let slides = match family {
            Family::Gemma2 => layer % 2 == 0,
            Family::Gemma3 => layer % 6 < 5,
            _ => true,
        };
        let window = window.filter(|_| slides);
        LayerKind { window, rotary: if window.is_some() { local } else { 0 } }
    });
    let is_gpt2 = family == Family::Gpt2;
    let epsilon = match is_gpt2 {
        true => "attention.layer_norm_epsilon",
        false => "attention.layer_norm_rms_epsilon",
    };
    Ok(Config {
        family,
        naming: Naming::Gguf,
        vocabulary: vocabulary(keys, metadata)?,
        hidden,
        layers: layers.collect(),
        heads,
        kv_heads,
        head_dim,
        intermediate: keys.required("feed_forward_length", most::WIDTH)?,
        context: keys.required("context_length", most::CONTEXT)?,
        epsilon: keys
            .positive(epsilon, 1.0)?
            .ok_or_else(|| keys.missing(epsilon, "a number such as 1e-5"))?,
        head: Head::StoredOrEmbedding,
        rotaries,
        score_scale: score_scale(family, layer_count, head_dim, (hidden, heads)),
        score_cap: cap(family, keys, ("attn_logit_softcapping", 50.0))?,
        logit_cap: cap(family, keys, ("final_logit_softcapping", 30.0))?,
        qkv_bias: is_gpt2 || family == Family::Qwen2,
        output_bias: is_gpt2,
        feed_forward_bias: is_gpt2,
        encoder: None,
        input: None,
    })
}

fn head_dim(family: Family, keys: &Keys, hidden: usize, heads: usize) -> Result<usize, Error> {
    let key = keys.size("attention.key_length", most::WIDTH)?;
    let value = keys.size("attention.value_length", most::WIDTH)?;
    let head_dim = match (key, family.is_gemma() || family == Family::Qwen3) {
        (Some(key), _) => key,
        (None, true) => return Err(keys.missing("attention.key_length", "the elements of a head")),
        (None, false) if !hidden.is_multiple_of(heads) => {
            let expected = format!("a divisor of `{}` = {hidden}", keys.full("embedding_length"));
            return Err(keys.refused("attention.head_count", expected));
        }
        (None, false) => hidden / heads,
    };
    match value {
        Some(value) if value != head_dim => {
            Err(keys.refused("attention.value_length", format!("{head_dim}, as keys have")))
        }
        _ => Ok(head_dim),
    }
}

/// The number of tokens, by its key or by the tokenizer.
fn vocabulary(keys: &Keys, metadata: &dyn Metadata) -> Result<usize, Error> {
    if let Some(size) = keys.size("vocab_size", most::VOCABULARY)? {
        return Ok(size);
    }
    let tokens = Keys::new(metadata, "").length("tokenizer.ggml.tokens")?;
    tokens.filter(|count| (1..=most::VOCABULARY).contains(count)).ok_or_else(|| {
        keys.missing("vocab_size", "the number of tokens, or `tokenizer.ggml.tokens`")
    })
}

fn window(family: Family, keys: &Keys) -> Result<Option<usize>, Error> {
    if !family.is_gemma() && family != Family::Phi3 {
        return Ok(None);
    }
    let window = keys.size("attention.sliding_window", most::CONTEXT)?;
    if window.is_none() && family.is_gemma() {
        return Err(keys.missing("attention.sliding_window", "the positions that a layer sees"));
    }
    Ok(window)
}

/// The embedding of layers without window, then that of others where it is another one.
fn rotaries(family: Family, keys: &Keys, head_dim: usize) -> Result<Vec<Rotary>, Error> {
    if family == Family::Gpt2 {
        return Ok(Vec::new());
    }
    let dim = keys.size("rope.dimension_count", most::WIDTH)?.unwrap_or(head_dim);
    let base = keys.positive("rope.freq_base", most::BASE)?;
    let kind = keys.only("rope.scaling.type", &["none", "linear"])?;
    let factor = keys.positive("rope.scaling.factor", most::BASE)?;
    let scaling = match (kind.as_deref(), factor) {
        (Some("linear"), Some(factor)) => Scaling::Linear { factor },
        (Some("linear"), None) => return Err(keys.missing("rope.scaling.factor", "a number")),
        (_, None) => Scaling::None,
        (_, Some(_)) => {
            return Err(keys.refused("rope.scaling.factor", "no factor, as the type is not linear"));
        }
    };
    if family != Family::Gemma3 {
        return Ok(vec![Rotary { dim, base: base.unwrap_or(1e4), scaling }]);
    }
    let local = keys.positive("rope.freq_base_swa", most::BASE)?.unwrap_or(1e4);
    let global = Rotary { dim, base: base.unwrap_or(1e6), scaling };
    Ok(vec![global, Rotary { dim, base: local, scaling: Scaling::None }])
}

/// As llama.cpp has it: the largest models of Gemma are recognized by their number of layers.
fn score_scale(
    family: Family,
    layers: usize,
    head_dim: usize,
    (hidden, heads): (usize, usize),
) -> f64 {
    match (family, layers) {
        (Family::Gemma2, 46) | (Family::Gemma3, 62) => inverse_root(hidden / heads),
        _ => inverse_root(head_dim),
    }
}

/// Gemma 2 has caps where the file does not say.
fn cap(family: Family, keys: &Keys, (key, default): (&str, f64)) -> Result<Option<f64>, Error> {
    match family {
        Family::Gemma2 => Ok(Some(keys.positive(key, most::BASE)?.unwrap_or(default))),
        Family::Gemma3 => keys.positive(key, most::BASE),
        _ => Ok(None),
    }
}
