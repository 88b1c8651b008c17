//! Arguments of `relax generate`, and those that say how a language model is compiled.

use super::{Activations, KernelCheckArgs, NumericsArgs};
use clap::{Args, ValueEnum};
use std::num::NonZero;
use std::path::PathBuf;

/// Generate text by a language model
///
/// The model is a GGUF file, or a folder with `config.json` and `model.safetensors` as of Hugging Face. Its program is written for its
/// configuration, compiled for this processor, and kept with the weights in the cache. The result depends on the seed alone.
#[derive(Clone, Debug, Args)]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    pub(crate) loading: LoadingArgs,
    /// The text to continue; by default the standard input
    #[arg(long, conflicts_with = "tokens")]
    pub(crate) prompt: Option<String>,
    /// A message to the model, which answers it in the form of the model's chat template
    #[arg(long, value_name = "MESSAGE", conflicts_with_all = ["prompt", "tokens"])]
    pub(crate) chat: Option<String>,
    /// Instructions before the message of --chat
    #[arg(long, value_name = "TEXT", requires = "chat")]
    pub(crate) system: Option<String>,
    /// An image for a model of text and images: a PNG or JPEG file. Each image has its token in the prompt, such as `<image>`; --chat puts images
    /// before the message
    #[arg(long, value_name = "FILE")]
    pub(crate) image: Vec<PathBuf>,
    /// Speech to transcribe: a WAV file with 16,000 samples a second; its channels are averaged
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt", "chat"])]
    pub(crate) audio: Option<PathBuf>,
    /// The language of the speech by its code, such as en; by default the model detects it
    #[arg(long, value_name = "CODE", requires = "audio", conflicts_with = "tokens")]
    pub(crate) language: Option<String>,
    /// What the text of the speech is: what is said, or a translation to English
    #[arg(
        long,
        value_enum,
        value_name = "TASK",
        requires = "audio",
        conflicts_with = "tokens",
        default_value = "transcribe"
    )]
    pub(crate) task: SpeechTask,
    /// Print the segments of the speech with their times
    #[arg(
        long,
        requires = "audio",
        conflicts_with_all = ["tokens", "stop", "grammar", "logprobs", "bench"]
    )]
    pub(crate) timestamps: bool,
    /// The tokens to continue, by number; tokens are printed by number too
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    pub(crate) tokens: Option<Vec<u32>>,
    /// Tokens to generate at most; 128 by default, with --audio as many as the model has room for
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<usize>,
    /// Divisor of the logits; 0 takes the most probable token
    #[arg(long, value_name = "T", default_value_t = 0.0, allow_hyphen_values = true)]
    pub(crate) temperature: f32,
    /// Choose among the K most probable tokens
    #[arg(long, value_name = "K")]
    pub(crate) top_k: Option<usize>,
    /// Choose among the most probable tokens whose probabilities add up to P
    #[arg(long, value_name = "P", default_value_t = 1.0, allow_hyphen_values = true)]
    pub(crate) top_p: f32,
    /// Choose among tokens at least P times as probable as the first
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_hyphen_values = true)]
    pub(crate) min_p: f32,
    /// Penalty of tokens that were there already; 1 is none
    #[arg(long, value_name = "R", default_value_t = 1.0, allow_hyphen_values = true)]
    pub(crate) repeat_penalty: f32,
    /// Seed of the choice among tokens
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// End when the text has this in it
    #[arg(long, value_name = "TEXT")]
    pub(crate) stop: Vec<String>,
    /// What the text is: a grammar (.lark), a JSON schema (.json) or a regular expression (.regex)
    #[arg(long, value_name = "FILE", conflicts_with = "tokens")]
    pub(crate) grammar: Option<PathBuf>,
    /// Write the natural logarithm of the probability of each token to the standard error, as JSON lines
    #[arg(long)]
    pub(crate) logprobs: bool,
    /// Print the program that is written for the model, and compile nothing
    #[arg(long)]
    pub(crate) program: bool,
    /// Print speeds at the end: tokens a second of the prompt and after it, bytes of weights a second, peak memory
    #[arg(long)]
    pub(crate) bench: bool,
}

/// What the text of speech is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SpeechTask {
    /// What is said
    Transcribe,
    /// A translation to English
    Translate,
}

/// A language model, and how it is compiled
#[derive(Clone, Debug, Args)]
pub(crate) struct LoadingArgs {
    /// A GGUF file, or a folder with `config.json` and `model.safetensors`
    pub(crate) model: PathBuf,
    /// Quantize matrices of f32, f16 and bf16 when the model is compiled, rounded as llama.cpp does; which ones are not is said
    #[arg(long, value_name = "FORMAT")]
    pub(crate) quantize: Option<Quantize>,
    /// Limit on the memory of all live tensors: bytes, or with K, M, G
    #[arg(long, value_name = "SIZE", default_value = "8G")]
    pub(crate) max_memory: String,
    /// Threads per kernel; by default RELAX_THREADS, or the number of processors
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<NonZero<usize>>,
    /// What products with quantized weights read: activations as they are, rounded to 8 bits in blocks of 32, or rounded to bf16, as products with
    /// weights of 16 bits do then. By default they are rounded to 8 bits, but not with --exact
    #[arg(long, value_enum)]
    pub(crate) activations: Option<Activations>,
    /// Do not keep the compiled model
    #[arg(long)]
    pub(crate) no_model_cache: bool,
    #[command(flatten)]
    pub(crate) numerics: NumericsArgs,
    #[command(flatten)]
    pub(crate) kernel_check: KernelCheckArgs,
}

/// Formats of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Quantize {
    /// Blocks of 32 elements of 4 bits with a scale
    #[value(name = "q4_0")]
    Q4_0,
    /// Blocks of 32 elements of 8 bits with a scale
    #[value(name = "q8_0")]
    Q8_0,
    /// The upper half of an f32
    #[value(name = "bf16")]
    Bf16,
}
