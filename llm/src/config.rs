//! Configuration of a decoder-only transformer: its sizes and switches, whatever file they come from.

use crate::error::Error;
use crate::rotary::Rotary;
use std::fmt;

/// Models that share a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Also Mistral's models in GGUF files.
    Llama,
    /// Llama with a sliding window.
    Mistral,
    /// Llama with biases of queries, keys and values.
    Qwen2,
    /// Llama with norms of queries and keys.
    Qwen3,
    /// Norms around attention and feed-forward part, soft-capped scores and logits.
    Gemma2,
    /// As Gemma 2, with norms of queries and keys in the place of the caps.
    Gemma3,
    /// Llama with fused projections.
    Phi3,
    /// Learned positions, layer norms with biases.
    Gpt2,
    /// The decoder of Whisper, with cross attention to its encoder.
    Whisper,
    /// The encoder of Whisper.
    WhisperEncoder,
    /// The vision tower of LLaVA.
    Clip,
}

impl Family {
    /// Those that a checkpoint may have.
    pub(crate) const ALL: [Self; 9] = [
        Self::Llama,
        Self::Mistral,
        Self::Qwen2,
        Self::Qwen3,
        Self::Gemma2,
        Self::Gemma3,
        Self::Phi3,
        Self::Gpt2,
        Self::Whisper,
    ];

    /// As GGUF files call it, and Hugging Face but for Gemma 3.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Mistral => "mistral",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::Gemma2 => "gemma2",
            Self::Gemma3 => "gemma3",
            Self::Phi3 => "phi3",
            Self::Gpt2 => "gpt2",
            Self::Whisper => "whisper",
            Self::WhisperEncoder => "whisper encoder",
            Self::Clip => "vision tower",
        }
    }

    pub(crate) fn is_gemma(self) -> bool {
        matches!(self, Self::Gemma2 | Self::Gemma3)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Names and layout of the tensors of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// Names of the modules of transformers, such as `model.layers.0.self_attn.q_proj.weight`.
    HuggingFace,
    /// Names such as `blk.0.attn_q.weight`. Llama's queries and keys are permuted, so that rotary pairs are adjacent;
    /// Gemma's norm weights have 1 added; GPT-2's matrices are (out, in).
    Gguf,
}

/// The matrix that makes logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// The embedding (tied).
    Embedding,
    /// A tensor that must be in the checkpoint.
    Stored,
    /// A tensor if the checkpoint has it, else the embedding: GGUF files do not say.
    StoredOrEmbedding,
    /// None: an encoder makes no logits.
    Absent,
}

/// What an encoder encodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// 16,000 samples a second, 320 of them for each position, by the power in so many bands.
    Speech {
        /// Of the spectrum.
        bands: usize,
    },
    /// A square image of three channels, cut into patches.
    Image(Image),
}

/// Images, and the rows of features that the decoder reads in the place of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// Pixels of a side.
    pub side: usize,
    /// Pixels of a side of a patch.
    pub patch: usize,
    /// Elements of a row of features, as the decoder has them.
    pub width: usize,
    /// The token in whose place a row is read.
    pub token: u32,
}

impl Image {
    /// Rows of features.
    #[must_use]
    pub fn rows(&self) -> usize {
        let along = self.side / self.patch;
        along * along
    }
}

impl Input {
    /// Samples for each position of an encoder of speech.
    const SAMPLES: usize = 320;
}

/// Attention of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerKind {
    /// The number of last positions that a token sees, its own included; `None`: all.
    pub window: Option<usize>,
    /// Which of [`Config::rotaries`] turns queries and keys.
    pub rotary: usize,
}

/// Sizes and switches. Made by [`Config::from_json`] and [`Config::from_metadata`], which check them.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Which template, with which switches.
    pub family: Family,
    /// How tensors are called and laid out.
    pub naming: Naming,
    /// Rows of the embedding and of the head.
    pub vocabulary: usize,
    /// Elements of a hidden state.
    pub hidden: usize,
    /// One entry a layer.
    pub layers: Vec<LayerKind>,
    /// Heads of queries, of `head_dim` elements each.
    pub heads: usize,
    /// Heads of keys and values, a divisor of `heads`.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Elements between the matrices of the feed-forward part.
    pub intermediate: usize,
    /// Most positions that the model was trained for; rows of GPT-2's table of positions.
    pub context: usize,
    /// Added to the variance in norms.
    pub epsilon: f64,
    /// Where logits come from.
    pub head: Head,
    /// Rotary embeddings; none for GPT-2.
    pub rotaries: Vec<Rotary>,
    /// Factor of attention scores.
    pub score_scale: f64,
    /// `c` in `c * tanh(score / c)`.
    pub score_cap: Option<f64>,
    /// `c` in `c * tanh(logit / c)`.
    pub logit_cap: Option<f64>,
    /// Whether queries, keys and values have biases.
    pub qkv_bias: bool,
    /// Whether the output of attention has a bias.
    pub output_bias: bool,
    /// Whether matrices of the feed-forward part have biases.
    pub feed_forward_bias: bool,
    /// What layers attend to beside text; `None`: nothing.
    pub encoder: Option<Box<Config>>,
    /// Of an encoder.
    pub input: Option<Input>,
}

/// Largest values that are taken for sizes.
pub(crate) mod most {
    pub(crate) const LAYERS: usize = 10_000;
    pub(crate) const HEADS: usize = 100_000;
    pub(crate) const WIDTH: usize = 10_000_000;
    pub(crate) const VOCABULARY: usize = 100_000_000;
    pub(crate) const CONTEXT: usize = 1_000_000_000_000;
    pub(crate) const BASE: f64 = 1e15;
}

/// What a stack of layers with layer norms and biases says of its sizes. Its heads part a hidden state evenly.
pub(crate) struct Stack {
    pub(crate) hidden: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) intermediate: usize,
}

impl Stack {
    /// Names as of Hugging Face, no rotary embeddings and no windows. What else a family says replaces the rest.
    pub(crate) fn of(self, family: Family) -> Config {
        let Self { hidden, layers, heads, intermediate } = self;
        Config {
            family,
            naming: Naming::HuggingFace,
            vocabulary: 0,
            hidden,
            layers: vec![LayerKind { window: None, rotary: 0 }; layers],
            heads,
            kv_heads: heads,
            head_dim: hidden / heads,
            intermediate,
            context: 0,
            epsilon: 1e-5,
            head: Head::Absent,
            rotaries: Vec::new(),
            score_scale: inverse_root(hidden / heads),
            score_cap: None,
            logit_cap: None,
            qkv_bias: true,
            output_bias: true,
            feed_forward_bias: true,
            encoder: None,
            input: None,
        }
    }
}

/// The usual factor of scores.
pub(crate) fn inverse_root(size: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
    let size = size as f64;
    1.0 / size.sqrt()
}

impl Config {
    /// Bands of the spectrum that an encoder of speech takes; 0 elsewhere.
    pub(crate) fn bands(&self) -> usize {
        match self.input {
            Some(Input::Speech { bands }) => bands,
            _ => 0,
        }
    }

    /// The images that a vision tower takes.
    pub(crate) fn image(&self) -> Image {
        match self.input {
            Some(Input::Image(image)) => image,
            _ => Image { side: 0, patch: 1, width: 0, token: 0 },
        }
    }

    /// The images that the model takes; `None` where it takes text only.
    #[must_use]
    pub fn image_input(&self) -> Option<Image> {
        match self.encoder.as_ref()?.input? {
            Input::Image(image) => Some(image),
            Input::Speech { .. } => None,
        }
    }

    /// Samples of speech that the model takes at most; `None` where it takes none.
    #[must_use]
    pub fn max_samples(&self) -> Option<usize> {
        let encoder = self.encoder.as_ref()?;
        let is_speech = matches!(encoder.input, Some(Input::Speech { .. }));
        is_speech.then(|| encoder.context.saturating_mul(Input::SAMPLES))
    }

    pub(crate) fn takes_images(&self) -> bool {
        self.image_input().is_some()
    }

    /// Whether the text is that of Llama's relatives.
    pub(crate) fn has_llama_template(&self) -> bool {
        !self.family.is_gemma() && !matches!(self.family, Family::Gpt2 | Family::Whisper)
    }

    /// Whether layers attend to what an encoder makes.
    pub(crate) fn has_cross_attention(&self) -> bool {
        self.family == Family::Whisper
    }

    /// Whether heads of queries and keys are normalized.
    #[must_use]
    pub fn has_query_key_norms(&self) -> bool {
        matches!(self.family, Family::Qwen3 | Family::Gemma3)
    }

    /// Whether a norm multiplies by one plus its weight.
    pub(crate) fn adds_one_to_norms(&self) -> bool {
        self.family.is_gemma() && self.naming == Naming::HuggingFace
    }

    /// Whether matrices of layers are stored as (in, out).
    pub(crate) fn is_in_by_out(&self) -> bool {
        self.family == Family::Gpt2 && self.naming == Naming::HuggingFace
    }

    /// Whether a rotary pair is adjacent, not a half of a head apart.
    pub(crate) fn has_adjacent_pairs(&self) -> bool {
        self.family == Family::Llama && self.naming == Naming::Gguf
    }

    /// Refuses sizes that do not fit each other. `key` gives the configuration's key of a size.
    pub(crate) fn checked(self, key: impl Fn(Size) -> String) -> Result<Self, Error> {
        let Self { heads, kv_heads, .. } = self;
        if heads % kv_heads != 0 {
            let expected = format!("a divisor of `{}` = {heads}", key(Size::Heads));
            return Err(Error::setting(&key(Size::KvHeads), kv_heads, expected));
        }
        for rotary in &self.rotaries {
            let dim = rotary.dim;
            if dim % 2 != 0 || dim > self.head_dim || dim == 0 {
                let expected = format!("an even number up to the head dim, {}", self.head_dim);
                return Err(Error::setting(&key(Size::RotaryDim), dim, expected));
            }
        }
        Ok(self)
    }
}

/// Sizes that are checked against others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    Heads,
    KvHeads,
    RotaryDim,
}
