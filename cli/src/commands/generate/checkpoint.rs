//! Checkpoints of language models: a GGUF file, or a folder as of Hugging Face.

use super::gguf_metadata::GgufMetadata;
use crate::commands::constants;
use crate::commands::kept::stamp;
use crate::exit::Failure;
use crate::files::shown_name;
use relax_llm::{
    Chat, ChatError, Config, Content, Ending, Format, Message, Quantization, SpeechTokens, Stored,
    Tensors, Text, Tokenizer, Vocabulary, quantized_text,
};
use relax_program::tensor_files::{GgufValue, Weights};
use relax_runtime::out_of_memory::limited;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A configuration takes a few kilobytes, a tokenizer some megabytes.
const LONGEST: u64 = 16 << 20;
const LONGEST_TOKENIZER: u64 = 256 << 20;

/// Bytes that the rendering of a chat template may take at once.
const MOST_MEMORY: usize = 256 << 20;

/// A model with its weights, which are read when they are asked for.
pub(crate) struct Checkpoint {
    pub(crate) config: Config,
    pub(crate) weights: Weights,
    /// The program of the model, formatted, and what is quantized for it.
    pub(crate) text: Text,
    /// Whether some weights are in a block format, or are quantized to one: their products may round activations.
    pub(crate) is_quantized: bool,
    /// Whether some are in a format of less than 32 bits: their products may round activations to bf16.
    pub(crate) is_narrow: bool,
    /// Of the program, for messages.
    pub(crate) name: String,
    /// Tokens that end a text.
    pub(crate) ends: Vec<u32>,
    /// How a model of speech is asked for a text.
    pub(crate) speech_tokens: Option<SpeechTokens>,
    /// Of a folder.
    pub(super) folder: Option<PathBuf>,
}

impl Checkpoint {
    pub(crate) fn open(path: &Path, quantize: Option<Quantization>) -> Result<Self, Failure> {
        let name = shown_name(path);
        let wrong = |error: relax_llm::Error| Failure::usage(format!("{name}: {error}"));
        let (weights, config, ends) = match path.is_dir() {
            true => of_folder(path)?,
            false => of_file(path)?,
        };
        let contents = Contents::of(&weights)?;
        let text = quantized_text(&config, &contents, quantize).map_err(wrong)?;
        let speech_tokens = config.max_samples().map(|_| speech_tokens(path, config.vocabulary));
        let speech_tokens = speech_tokens.transpose()?;
        let folder = path.is_dir().then(|| path.to_owned());
        let is_block = |stored: &Stored| matches!(stored.format, Format::Block(_));
        let is_quantized = contents.0.values().any(is_block)
            || (!text.quantized.is_empty() && quantize != Some(Quantization::Bf16));
        let is_narrow = !text.quantized.is_empty()
            || contents.0.values().any(|stored| stored.format != Format::F32);
        let name = format!("{name}.rx");
        Ok(Self {
            config,
            weights,
            text,
            is_quantized,
            is_narrow,
            name,
            ends,
            speech_tokens,
            folder,
        })
    }

    /// The tokenizer of the file, or `tokenizer.json` of the folder.
    pub(crate) fn tokenizer(&self) -> Result<Tokenizer, Failure> {
        let (name, tokenizer) = match &self.folder {
            Some(folder) => {
                let path = folder.join("tokenizer.json");
                let json = read(&path, LONGEST_TOKENIZER)?;
                (path, Tokenizer::from_json(json.as_bytes()))
            }
            None => {
                let metadata = self.weights.gguf().map(relax_program::tensor_files::Gguf::metadata);
                let empty = BTreeMap::new();
                let metadata = GgufMetadata(metadata.unwrap_or(&empty));
                let vocabulary = Vocabulary::from_metadata(&metadata);
                let tokenizer = vocabulary.and_then(|own| Tokenizer::from_vocabulary(&own));
                (self.weights.path().to_owned(), tokenizer)
            }
        };
        let checked = tokenizer
            .and_then(|tokenizer| tokenizer.check_size(self.config.vocabulary).map(|()| tokenizer));
        checked.map_err(|error| Failure::usage(format!("{}: {error}", name.display())))
    }

    /// The chat template of the tokenizer.
    pub(crate) fn chat_template(&self, tokenizer: &Tokenizer) -> Result<Template, Failure> {
        let spelled = |id: Option<u64>| {
            let id = id.and_then(|id| u32::try_from(id).ok());
            id.and_then(|id| tokenizer.spelling(id)).unwrap_or_default()
        };
        let found = match (&self.folder, self.weights.gguf()) {
            (Some(folder), _) => of_tokenizer_config(folder, self.config.image_input().is_some())?,
            (None, Some(gguf)) => {
                let get = |key: &str| gguf.metadata().get(key);
                let id = |key: &str| spelled(get(key).and_then(GgufValue::as_u64));
                let text = get("tokenizer.chat_template").and_then(GgufValue::as_str);
                text.map(|text| Template {
                    text: text.to_owned(),
                    bos: id("tokenizer.ggml.bos_token_id"),
                    eos: id("tokenizer.ggml.eos_token_id"),
                    reads_parts: false,
                })
            }
            (None, None) => None,
        };
        found.ok_or_else(|| {
            Failure::usage(format!(
                "{}: the model has no chat template: give a text with --prompt",
                self.weights.path().display()
            ))
        })
    }

    /// What tells the weights from others: the files, their lengths, and when they were written. To read them takes seconds.
    pub(crate) fn identity(&self) -> Option<String> {
        let stamped = |path: &Path| {
            let path = fs::canonicalize(path).ok()?;
            Some(format!("{}\n{}\n", path.display(), stamp(&path)?))
        };
        self.weights.files().into_iter().map(stamped).collect()
    }
}

/// A chat template, and how the begin and the end of a text are spelled.
pub(crate) struct Template {
    pub(crate) text: String,
    pub(crate) bos: String,
    pub(crate) eos: String,
    /// Whether the model takes images: its template reads lists of parts.
    reads_parts: bool,
}

impl Template {
    /// The text of a conversation that the model continues.
    pub(crate) fn render(&self, messages: &[Message]) -> Result<String, ChatError> {
        let ending = Ending::GenerationPrompt;
        let in_parts = |message: &Message| match &message.content {
            Content::Text(text) if self.reads_parts => {
                let content = Content::with_images(0, text.clone());
                Message { content, role: message.role.clone() }
            }
            _ => message.clone(),
        };
        let messages = &messages.iter().map(in_parts).collect::<Vec<_>>();
        // Without a date: the same command gives the same text tomorrow.
        let chat = Chat { messages, bos: &self.bos, eos: &self.eos, ending, date: None };
        // The engine limits the steps of a template, and not what a step takes: it may double a string.
        limited(MOST_MEMORY, "the chat template", || chat.render(&self.text))
    }
}

/// `tokenizer_config.json`, and `chat_template.jinja` beside it.
fn of_tokenizer_config(folder: &Path, reads_parts: bool) -> Result<Option<Template>, Failure> {
    let path = folder.join("tokenizer_config.json");
    let config: Value = match path.is_file() {
        false => Value::Null,
        true => serde_json::from_str(&read(&path, LONGEST)?)
            .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?,
    };
    let beside = folder.join("chat_template.jinja");
    let text = match beside.is_file() {
        true => Some(read(&beside, LONGEST)?),
        false => config["chat_template"].as_str().map(str::to_owned),
    };
    // A token is a text, or an object with one.
    let token = |key: &str| {
        let value = &config[key];
        value.as_str().or_else(|| value["content"].as_str()).unwrap_or_default().to_owned()
    };
    let (bos, eos) = (token("bos_token"), token("eos_token"));
    Ok(text.map(|text| Template { text, bos, eos, reads_parts }))
}

type Opened = (Weights, Config, Vec<u32>);

fn opened(path: &Path) -> Result<Weights, Failure> {
    let weights = constants::open(Some(path))?;
    weights.ok_or_else(|| Failure::usage(format!("{}: it cannot be opened", path.display())))
}

fn of_file(path: &Path) -> Result<Opened, Failure> {
    let weights = opened(path)?;
    let name = shown_name(path);
    let Some(gguf) = weights.gguf() else {
        return Err(Failure::usage(format!(
            "{name}: it is no GGUF file; of a model of Hugging Face, give the folder with its `config.json`"
        )));
    };
    let metadata = GgufMetadata(gguf.metadata());
    let config = Config::from_metadata(&metadata);
    let config = config.map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    let ends = ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"];
    let ends = ends.iter().filter_map(|key| metadata.0.get(*key)?.as_u64());
    let ends = ends.filter_map(|id| u32::try_from(id).ok()).collect();
    Ok((weights, config, ends))
}

fn of_folder(path: &Path) -> Result<Opened, Failure> {
    let config = read(&path.join("config.json"), LONGEST)?;
    let [file, index] =
        ["model.safetensors", "model.safetensors.index.json"].map(|name| path.join(name));
    let weights = opened(if !file.is_file() && index.is_file() { &index } else { &file })?;
    let parsed = Config::from_json(&config);
    let parsed = parsed.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    let mut ends = ends_of(&config);
    let generation = path.join("generation_config.json");
    if generation.is_file() {
        ends.extend(ends_of(&read(&generation, LONGEST)?));
    }
    Ok((weights, parsed, ends))
}

/// How the model of a folder is asked for a transcript.
fn speech_tokens(folder: &Path, vocabulary: usize) -> Result<SpeechTokens, Failure> {
    let config = read(&folder.join("config.json"), LONGEST)?;
    let path = folder.join("generation_config.json");
    let generation = path.is_file().then(|| read(&path, LONGEST)).transpose()?;
    let speech_tokens = SpeechTokens::from_json(generation.as_deref(), &config, vocabulary);
    speech_tokens.map_err(|error| Failure::usage(format!("{}: {error}", folder.display())))
}

/// `eos_token_id`, one or several.
fn ends_of(json: &str) -> Vec<u32> {
    let value: Value = serde_json::from_str(json).unwrap_or_default();
    let ids = match &value["eos_token_id"] {
        Value::Array(ids) => ids.clone(),
        one => vec![one.clone()],
    };
    ids.iter().filter_map(|id| u32::try_from(id.as_u64()?).ok()).collect()
}

fn read(path: &Path, longest: u64) -> Result<String, Failure> {
    let cannot = |why: String| Failure::usage(format!("cannot read {}: {why}", path.display()));
    let metadata = fs::metadata(path).map_err(|error| cannot(error.to_string()))?;
    if !metadata.is_file() || metadata.len() > longest {
        return Err(cannot(format!("it is no file of at most {} MiB", longest >> 20)));
    }
    fs::read_to_string(path).map_err(|error| cannot(error.to_string()))
}

/// The table of contents of a checkpoint.
struct Contents(BTreeMap<String, Stored>);

impl Contents {
    fn of(weights: &Weights) -> Result<Self, Failure> {
        if let Some(gguf) = weights.gguf() {
            let stored = gguf.tensors().iter().map(|(name, tensor)| {
                let format = Format::named(tensor.format.name());
                (name.clone(), Stored { format, shape: tensor.shape.clone() })
            });
            return Ok(Self(stored.collect()));
        }
        let entries = weights.entries().map_err(Failure::usage)?;
        let stored = entries.into_iter().map(|(name, entry)| {
            let dtype = entry.dtype.map_or("unknown".to_owned(), |dtype| dtype.to_string());
            (name, Stored { format: Format::named(&dtype), shape: entry.shape })
        });
        Ok(Self(stored.collect()))
    }
}

impl Tensors for Contents {
    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn stored(&self, name: &str) -> Option<Stored> {
        self.0.get(name).cloned()
    }
}
