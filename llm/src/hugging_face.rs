//! Configurations of Hugging Face: the file `config.json` beside a checkpoint.

use crate::config::{Config, Family, Head, LayerKind, Naming, Size, Stack, inverse_root, most};
use crate::error::Error;
use crate::llava;
use crate::metadata::{Flattened, Keys};
use crate::rotary::{Rotary, Scaling};
use crate::whisper;

/// Keys that do not change the results of inference, with all below them where they are objects.
const IGNORED: &[&str] = &[
    "_attn_implementation_autoset",
    "_name_or_path",
    "_num_labels",
    "attention_dropout",
    "attn_pdrop",
    "auto_map",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "dtype",
    "embd_pdrop",
    "eos_token_id",
    "finetuning_task",
    "id2label",
    "initializer_range",
    "is_llama_config",
    "label2id",
    "n_ctx",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "reorder_and_upcast_attn",
    "resid_pdrop",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "task_specific_params",
    "tokenizer_class",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "unsloth_fixed",
    "unsloth_version",
    "use_cache",
];

pub(crate) fn is_ignored(key: &str) -> bool {
    let is_below = |rest: &str| rest.is_empty() || rest.starts_with('.');
    IGNORED.iter().any(|ignored| key.strip_prefix(ignored).is_some_and(is_below))
}

const SLIDING: &str = "sliding_attention";
const FULL: &str = "full_attention";

impl Config {
    /// Reads the text of a `config.json`.
    ///
    /// # Errors
    /// When a family or switch is not supported, a number is missing or absurd, or a key is not known.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        let source = Flattened::read(text)?;
        match source.is_text("model_type", LLAVA) {
            true => llava::config(source),
            false => decoder(&Keys::new(&source, "")),
        }
    }
}

/// How configurations call the function that is not approximated.
pub(crate) const EXACT_GELU: &str = "gelu";

/// `model_type` of models of text and images.
const LLAVA: &str = "llava";

/// The configuration of a decoder, with the encoder that it attends to.
pub(crate) fn decoder(keys: &Keys) -> Result<Config, Error> {
    let family = family(keys)?;
    let config = match family {
        Family::Gpt2 => gpt2(keys)?,
        Family::Whisper => whisper::config(keys)?,
        _ => rotary_family(family, keys)?,
    };
    keys.finish(|key| is_ignored(key) || family == Family::Whisper && whisper::is_ignored(key))?;
    let [heads, kv_heads] = match family {
        Family::Gpt2 => ["n_head", "n_head"],
        Family::Whisper => ["decoder_attention_heads", "decoder_attention_heads"],
        _ => ["num_attention_heads", "num_key_value_heads"],
    };
    config.checked(|size| match size {
        Size::Heads => keys.full(heads),
        Size::KvHeads => keys.full(kv_heads),
        Size::RotaryDim if keys.has("head_dim") => keys.full("head_dim"),
        Size::RotaryDim => "hidden_size / num_attention_heads".to_owned(),
    })
}

/// Value of `model_type` for a family.
fn model_type(family: Family) -> &'static str {
    match family {
        Family::Gemma3 => "gemma3_text",
        other => other.name(),
    }
}

fn family(keys: &Keys) -> Result<Family, Error> {
    let mut names = Family::ALL.map(model_type).to_vec();
    names.push(LLAVA);
    let Some(found) = keys.only("model_type", &names)? else {
        return Err(keys.missing("model_type", &names.join(", ")));
    };
    let family = Family::ALL.into_iter().find(|family| model_type(*family) == found);
    let family = family.ok_or_else(|| keys.refused("model_type", names.join(", ")))?;
    let class = match family {
        Family::Gpt2 => "GPT2LMHeadModel".to_owned(),
        Family::Whisper => "WhisperForConditionalGeneration".to_owned(),
        other => {
            let name = other.name();
            format!("{}{}ForCausalLM", name[..1].to_uppercase(), &name[1..])
        }
    };
    class_is(keys, &class)?;
    Ok(family)
}

/// Refuses other classes of models than this one.
pub(crate) fn class_is(keys: &Keys, class: &str) -> Result<(), Error> {
    match keys.texts("architectures")? {
        Some(classes) if !classes.iter().any(|found| found == class) => {
            let found = format!("[{}]", classes.join(", "));
            Err(Error::setting(&keys.full("architectures"), found, class))
        }
        _ => Ok(()),
    }
}

/// Families whose keys are called as Llama's.
fn rotary_family(family: Family, keys: &Keys) -> Result<Config, Error> {
    let hidden = keys.required("hidden_size", most::WIDTH)?;
    let layer_count = keys.required("num_hidden_layers", most::LAYERS)?;
    let heads = keys.required("num_attention_heads", most::HEADS)?;
    let kv_heads = match keys.size("num_key_value_heads", most::HEADS)? {
        Some(kv_heads) => kv_heads,
        None if matches!(family, Family::Llama | Family::Phi3) => heads,
        None => return Err(keys.missing("num_key_value_heads", "a divisor of the number of heads")),
    };
    let head_dim = head_dim(family, keys, hidden, heads)?;
    keys.never("rope_interleaved")?;
    keys.never("use_mrope")?;
    let (rotaries, by_kind) = rotaries(family, keys, head_dim)?;
    let windows = windows(family, keys, layer_count)?;
    let layers = windows
        .into_iter()
        .map(|window| LayerKind { window, rotary: if window.is_some() { by_kind } else { 0 } });
    let bias = attention_bias(family, keys)?;
    activation(family, keys)?;
    Ok(Config {
        family,
        naming: Naming::HuggingFace,
        vocabulary: keys.required("vocab_size", most::VOCABULARY)?,
        hidden,
        layers: layers.collect(),
        heads,
        kv_heads,
        head_dim,
        intermediate: keys.required("intermediate_size", most::WIDTH)?,
        context: keys.required("max_position_embeddings", most::CONTEXT)?,
        epsilon: keys
            .positive("rms_norm_eps", 1.0)?
            .ok_or_else(|| keys.missing("rms_norm_eps", "a number such as 1e-6"))?,
        head: head(keys, family.is_gemma())?,
        rotaries,
        score_scale: score_scale(family, keys, head_dim)?,
        score_cap: cap(family, keys, "attn_logit_softcapping")?,
        logit_cap: cap(family, keys, "final_logit_softcapping")?,
        qkv_bias: bias || family == Family::Qwen2,
        output_bias: bias,
        feed_forward_bias: family == Family::Llama && keys.flag("mlp_bias")?.unwrap_or(false),
        encoder: None,
        input: None,
    })
}

fn head_dim(family: Family, keys: &Keys, hidden: usize, heads: usize) -> Result<usize, Error> {
    if let Some(head_dim) = keys.size("head_dim", most::WIDTH)? {
        return Ok(head_dim);
    }
    if family.is_gemma() || family == Family::Qwen3 {
        return Err(keys.missing("head_dim", "the elements of a head"));
    }
    if !hidden.is_multiple_of(heads) {
        let expected = format!("a divisor of `hidden_size` = {hidden}, as there is no `head_dim`");
        return Err(keys.refused("num_attention_heads", expected));
    }
    Ok(hidden / heads)
}

fn head(keys: &Keys, default: bool) -> Result<Head, Error> {
    let tied = keys.flag("tie_word_embeddings")?.unwrap_or(default);
    Ok(if tied { Head::Embedding } else { Head::Stored })
}

fn attention_bias(family: Family, keys: &Keys) -> Result<bool, Error> {
    match family {
        Family::Mistral | Family::Qwen2 => Ok(false),
        Family::Phi3 => keys.never("attention_bias").map(|()| false),
        _ => Ok(keys.flag("attention_bias")?.unwrap_or(false)),
    }
}

fn activation(family: Family, keys: &Keys) -> Result<(), Error> {
    if !family.is_gemma() {
        return keys.only("hidden_act", &["silu"]).map(|_| ());
    }
    // transformers reads `hidden_activation` and takes the tanh form where it is absent.
    keys.only("hidden_activation", &["gelu_pytorch_tanh"])?;
    keys.only("hidden_act", &["gelu_pytorch_tanh", EXACT_GELU])?;
    keys.never("use_bidirectional_attention")
}

fn score_scale(family: Family, keys: &Keys, head_dim: usize) -> Result<f64, Error> {
    if !family.is_gemma() {
        return Ok(inverse_root(head_dim));
    }
    let scalar = keys.positive("query_pre_attn_scalar", most::BASE)?;
    let scalar = scalar.ok_or_else(|| keys.missing("query_pre_attn_scalar", "a number"))?;
    Ok(1.0 / scalar.sqrt())
}

fn cap(family: Family, keys: &Keys, key: &str) -> Result<Option<f64>, Error> {
    if family.is_gemma() { keys.positive(key, most::BASE) } else { Ok(None) }
}

/// For each layer the positions that it sees.
fn windows(family: Family, keys: &Keys, layers: usize) -> Result<Vec<Option<usize>>, Error> {
    if family == Family::Llama {
        return Ok(vec![None; layers]);
    }
    let mut window = keys.size("sliding_window", most::CONTEXT)?;
    let is_qwen = matches!(family, Family::Qwen2 | Family::Qwen3);
    if is_qwen && !keys.flag("use_sliding_window")?.unwrap_or(false) {
        window = None;
    }
    let slides: Box<dyn Fn(usize) -> bool> = match family {
        Family::Qwen2 | Family::Qwen3 => {
            let first = keys.size("max_window_layers", most::CONTEXT)?;
            // Without a window the number does not count.
            let first = match (window, first) {
                (Some(_), None) => {
                    return Err(keys.missing("max_window_layers", "the first layer with a window"));
                }
                (_, first) => first.unwrap_or(0),
            };
            Box::new(move |layer| layer >= first)
        }
        Family::Gemma2 => Box::new(|layer| layer % 2 == 0),
        Family::Gemma3 => {
            let stored = keys.size("sliding_window_pattern", most::LAYERS)?;
            let other = keys.size("_sliding_window_pattern", most::LAYERS)?;
            let pattern = stored.or(other).unwrap_or(6);
            Box::new(move |layer| (layer + 1) % pattern != 0)
        }
        _ => Box::new(|_| true),
    };
    let slides = match keys.texts("layer_types")? {
        None => (0..layers).map(|layer| window.is_some() && slides(layer)).collect(),
        Some(types) => layer_types(keys, &types, layers)?,
    };
    if window.is_none() && (family.is_gemma() || slides.contains(&true)) {
        return Err(keys.missing("sliding_window", "the positions that a layer sees"));
    }
    Ok(slides.into_iter().map(|slides| window.filter(|_| slides)).collect())
}

/// Which layers have a window.
fn layer_types(keys: &Keys, types: &[String], layers: usize) -> Result<Vec<bool>, Error> {
    if types.len() != layers {
        return Err(keys.refused("layer_types", format!("a list of {layers}, one a layer")));
    }
    let slides = |kind: &String| match kind.as_str() {
        SLIDING => Ok(true),
        FULL => Ok(false),
        other => Err(Error::setting(
            "layer_types",
            format!("[…, \"{other}\", …]"),
            format!("\"{SLIDING}\" or \"{FULL}\""),
        )),
    };
    types.iter().map(slides).collect()
}

/// The rotary embeddings, and the index of that of layers with a window. Transformers 5 writes `rope_parameters`; before,
/// the keys were `rope_theta` and `rope_scaling`.
fn rotaries(family: Family, keys: &Keys, head_dim: usize) -> Result<(Vec<Rotary>, usize), Error> {
    if family == Family::Gemma3 {
        let parameters = |kind: &str| format!("rope_parameters.{kind}");
        let [full, sliding] = [FULL, SLIDING].map(parameters);
        if keys.has_below(&full) || keys.has_below(&sliding) {
            let all =
                [rotary(keys, &full, None, head_dim)?, rotary(keys, &sliding, None, head_dim)?];
            return Ok((all.into(), 1));
        }
        let base = keys.positive("rope_theta", most::BASE)?.unwrap_or(1e6);
        let local = keys.positive("rope_local_base_freq", most::BASE)?.unwrap_or(1e4);
        let global = rotary(keys, "rope_scaling", Some(base), head_dim)?;
        return Ok((
            vec![global, Rotary { dim: head_dim, base: local, scaling: Scaling::None }],
            1,
        ));
    }
    let path = if keys.has_below("rope_parameters") { "rope_parameters" } else { "rope_scaling" };
    let dim = match family {
        Family::Phi3 => turned(keys, path, head_dim)?,
        _ => head_dim,
    };
    let base = keys.positive("rope_theta", most::BASE)?;
    // The older form may leave it out.
    let base = if path == "rope_scaling" { Some(base.unwrap_or(1e4)) } else { base };
    Ok((vec![rotary(keys, path, base, dim)?], 0))
}

/// Elements of a head that turn.
fn turned(keys: &Keys, path: &str, head_dim: usize) -> Result<usize, Error> {
    let inner = keys.positive(&format!("{path}.partial_rotary_factor"), 1.0)?;
    let share = inner.or(keys.positive("partial_rotary_factor", 1.0)?).unwrap_or(1.0);
    // What longrope scales from; other types do not read it.
    keys.size("original_max_position_embeddings", most::CONTEXT)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the product is at most a size, and truncated as in transformers"
    )]
    Ok((head_dim as f64 * share) as usize)
}

fn rotary(keys: &Keys, path: &str, base: Option<f64>, dim: usize) -> Result<Rotary, Error> {
    let at = |key: &str| format!("{path}.{key}");
    let number = |key: &str| {
        let found = keys.positive(&at(key), most::BASE)?;
        found.ok_or_else(|| keys.missing(&at(key), "a number above 0"))
    };
    let types = ["default", "linear", "llama3"];
    let kind = keys.only(&at("rope_type"), &types)?;
    let older = keys.only(&at("type"), &types)?;
    let kind = kind.or(older);
    let inner = keys.positive(&at("rope_theta"), most::BASE)?;
    let base = inner.or(base).ok_or_else(|| keys.missing(&at("rope_theta"), "a number above 0"))?;
    let scaling = match kind.as_deref() {
        Some("linear") => Scaling::Linear { factor: number("factor")? },
        Some("llama3") => {
            let (low, high) = (number("low_freq_factor")?, number("high_freq_factor")?);
            if low >= high {
                let expected = format!("a number above low_freq_factor = {low}");
                return Err(keys.refused(&at("high_freq_factor"), expected));
            }
            let context = number("original_max_position_embeddings")?;
            Scaling::Llama3 { factor: number("factor")?, low, high, context }
        }
        _ => Scaling::None,
    };
    Ok(Rotary { dim, base, scaling })
}

/// Heads of a hidden state that they part evenly; `of` is its key.
pub(crate) fn heads_of(
    keys: &Keys,
    key: &str,
    (of, hidden): (&str, usize),
) -> Result<usize, Error> {
    let heads = keys.required(key, most::HEADS)?;
    match hidden.is_multiple_of(heads) {
        true => Ok(heads),
        false => Err(keys.refused(key, format!("a divisor of `{}` = {hidden}", keys.full(of)))),
    }
}

fn gpt2(keys: &Keys) -> Result<Config, Error> {
    let hidden = keys.required("n_embd", most::WIDTH)?;
    let heads = heads_of(keys, "n_head", ("n_embd", hidden))?;
    let layers = keys.required("n_layer", most::LAYERS)?;
    keys.only("activation_function", &["gelu_new", "gelu_pytorch_tanh"])?;
    keys.never("scale_attn_by_inverse_layer_idx")?;
    keys.never("add_cross_attention")?;
    let is_scaled = keys.flag("scale_attn_weights")?.unwrap_or(true);
    let intermediate = keys.size("n_inner", most::WIDTH)?.unwrap_or(4 * hidden);
    let stack = Stack { hidden, layers, heads, intermediate }.of(Family::Gpt2);
    Ok(Config {
        vocabulary: keys.required("vocab_size", most::VOCABULARY)?,
        context: keys.required("n_positions", most::CONTEXT)?,
        epsilon: keys.positive("layer_norm_epsilon", 1.0)?.unwrap_or(1e-5),
        head: head(keys, true)?,
        score_scale: if is_scaled { stack.score_scale } else { 1.0 },
        ..stack
    })
}
