//! LLaVA's configurations: a decoder of text, a vision tower, and what joins them.

use crate::config::{Config, Family, Image, Input, Stack, most};
use crate::error::Error;
use crate::hugging_face::{EXACT_GELU, class_is, decoder, heads_of, is_ignored};
use crate::metadata::{Flattened, Keys};
use serde_json::{Value, json};

/// What transformers takes where the configuration of the text lacks a key, as checkpoints of the hub do.
fn defaults() -> [(&'static str, Value); 7] {
    [
        ("text_config.hidden_size", json!(4096)),
        ("text_config.intermediate_size", json!(11008)),
        ("text_config.num_hidden_layers", json!(32)),
        ("text_config.num_attention_heads", json!(32)),
        ("text_config.vocab_size", json!(32000)),
        ("text_config.max_position_embeddings", json!(2048)),
        ("text_config.rms_norm_eps", json!(1e-6)),
    ]
}

/// Most pixels of a side.
const MOST_PIXELS: usize = 10_000;

/// Keys that change nothing here: the rows of an image follow from its size.
const IGNORED: &[&str] = &["ignore_index", "image_seq_length"];

pub(crate) fn config(mut source: Flattened) -> Result<Config, Error> {
    if source.is_text("text_config.model_type", "llama") {
        defaults().into_iter().for_each(|(key, value)| source.set_missing(key, value));
    }
    let keys = Keys::new(&source, "");
    keys.only("model_type", &["llava"])?;
    class_is(&keys, "LlavaForConditionalGeneration")?;
    keys.only("projector_hidden_act", &[EXACT_GELU])?;
    keys.never("tie_word_embeddings")?;
    if keys.flag("multimodal_projector_bias")? == Some(false) {
        return Err(keys.refused("multimodal_projector_bias", "true"));
    }
    // Without the row of no patch.
    keys.only("vision_feature_select_strategy", &["default"])?;
    let token = match keys.size("image_token_index", most::VOCABULARY)? {
        Some(token) => token,
        None => keys.required("image_token_id", most::VOCABULARY)?,
    };
    let chosen = keys.integer("vision_feature_layer", (-10_000, 10_000))?.unwrap_or(-2);
    let is_part = |key: &str| key.starts_with("text_config.") || key.starts_with("vision_config.");
    keys.finish(|key| is_ignored(key) || IGNORED.contains(&key) || is_part(key))?;
    let text = Keys::new(&source, "text_config.");
    let decoder = decoder(&text)?;
    // Other templates read tokens alone.
    if !decoder.has_llama_template() {
        return Err(text.refused("model_type", "a family of Llama's relatives"));
    }
    let token = u32::try_from(token).ok().filter(|&token| (token as usize) < decoder.vocabulary);
    let token = token.ok_or_else(|| {
        let expected = format!("a token below `text_config.vocab_size` = {}", decoder.vocabulary);
        keys.refused("image_token_index", expected)
    })?;
    let vision = Keys::new(&source, "vision_config.");
    let image = Image { side: 0, patch: 0, width: decoder.hidden, token };
    let encoder = tower(&vision, &keys, (image, chosen))?;
    Ok(Config { encoder: Some(Box::new(encoder)), ..decoder })
}

/// The vision tower up to the layer whose rows are the features.
fn tower(vision: &Keys, outer: &Keys, (image, chosen): (Image, i64)) -> Result<Config, Error> {
    vision.only("model_type", &["clip_vision_model"])?;
    vision.only("hidden_act", &["quick_gelu"])?;
    let channels = vision.size("num_channels", most::WIDTH)?;
    if channels.is_some_and(|channels| channels != 3) {
        return Err(vision.refused("num_channels", "3"));
    }
    let side = vision.required("image_size", MOST_PIXELS)?;
    let patch = vision.required("patch_size", MOST_PIXELS)?;
    if !side.is_multiple_of(patch) {
        return Err(vision.refused("patch_size", format!("a divisor of `image_size` = {side}")));
    }
    let layers = vision.required("num_hidden_layers", most::LAYERS)?;
    // Rows before the first layer are number 0.
    let states = i64::try_from(layers).unwrap_or(i64::MAX).saturating_add(1);
    let used = if chosen < 0 { states.saturating_add(chosen) } else { chosen };
    let used = usize::try_from(used).ok().filter(|used| (1..=layers).contains(used));
    let used = used.ok_or_else(|| {
        let expected = format!("one of the {layers} layers, or that many from the end");
        outer.refused("vision_feature_layer", expected)
    })?;
    let hidden = vision.required("hidden_size", most::WIDTH)?;
    let heads = heads_of(vision, "num_attention_heads", ("hidden_size", hidden))?;
    let intermediate = vision.required("intermediate_size", most::WIDTH)?;
    let epsilon = vision.positive("layer_norm_eps", 1.0)?.unwrap_or(1e-5);
    let of_training = ["initializer_factor", "projection_dim", "vocab_size"];
    vision.finish(|key| is_ignored(key) || of_training.contains(&key))?;
    let along = side / patch;
    Ok(Config {
        context: along * along + 1,
        epsilon,
        input: Some(Input::Image(Image { side, patch, ..image })),
        ..Stack { hidden, layers: used, heads, intermediate }.of(Family::Clip)
    })
}
