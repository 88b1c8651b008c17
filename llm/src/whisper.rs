//! Whisper's configurations: the keys of an encoder of speech and of a decoder of text.

use crate::config::{Config, Family, Head, Input, Stack, most};
use crate::error::Error;
use crate::hugging_face::{EXACT_GELU, heads_of};
use crate::metadata::Keys;

/// Most positions of an encoder, half an hour: tables of positions grow with it.
const MOST_POSITIONS: usize = 90_000;
/// Most bands of a spectrum; models have 80 and 128.
const MOST_BANDS: usize = 200;

/// Keys that only training, generation or other tasks read.
const IGNORED: &[&str] = &[
    "apply_spec_augment",
    "begin_suppress_tokens",
    "classifier_proj_size",
    "decoder_start_token_id",
    "forced_decoder_ids",
    "init_std",
    "mask_feature_length",
    "mask_feature_min_masks",
    "mask_feature_prob",
    "mask_time_length",
    "mask_time_min_masks",
    "mask_time_prob",
    "max_length",
    "median_filter_width",
    "suppress_tokens",
    "use_weighted_layer_sum",
];

pub(crate) fn is_ignored(key: &str) -> bool {
    key.contains("drop") || IGNORED.contains(&key)
}

/// Both sides.
pub(crate) fn config(keys: &Keys) -> Result<Config, Error> {
    keys.only("activation_function", &[EXACT_GELU])?;
    keys.never("scale_embedding")?;
    if keys.flag("is_encoder_decoder")? == Some(false) {
        return Err(keys.refused("is_encoder_decoder", "true"));
    }
    if keys.flag("tie_word_embeddings")? == Some(false) {
        return Err(keys.refused("tie_word_embeddings", "true"));
    }
    // The layers of the encoder again.
    keys.size("num_hidden_layers", most::LAYERS)?;
    let positions = keys.required("max_source_positions", MOST_POSITIONS)?;
    let bands = keys.required("num_mel_bins", MOST_BANDS)?;
    let encoder = Config {
        input: Some(Input::Speech { bands }),
        context: positions,
        ..side(keys, "encoder", Family::WhisperEncoder)?
    };
    Ok(Config {
        vocabulary: keys.required("vocab_size", most::VOCABULARY)?,
        context: keys.required("max_target_positions", most::CONTEXT)?,
        head: Head::Embedding,
        encoder: Some(Box::new(encoder)),
        ..side(keys, "decoder", Family::Whisper)?
    })
}

/// What the keys of encoder and decoder say alike.
fn side(keys: &Keys, side: &str, family: Family) -> Result<Config, Error> {
    let hidden = keys.required("d_model", most::WIDTH)?;
    let layers = keys.required(&format!("{side}_layers"), most::LAYERS)?;
    let heads = heads_of(keys, &format!("{side}_attention_heads"), ("d_model", hidden))?;
    let intermediate = keys.required(&format!("{side}_ffn_dim"), most::WIDTH)?;
    Ok(Stack { hidden, layers, heads, intermediate }.of(family))
}
