//! Language models as programs: the `.rx` text of a decoder-only transformer from its configuration and its tensors.
//!
//! A configuration is read from Hugging Face's `config.json` ([`Config::from_json`]) or from the metadata of a GGUF file
//! ([`Config::from_metadata`]). [`text`] renders the template of its family, in `corpus/models/llm`. What is not supported is
//! an error that names the key or the tensor. What a text needs beside the program is here too: a [`Tokenizer`], [`Chat`] templates, and the
//! choice of tokens ([`Sampler`]).

mod chat;
mod config;
mod error;
mod gguf;
mod grammar;
mod hugging_face;
mod llava;
mod metadata;
mod quantize;
mod render;
mod roles;
mod rotary;
mod sampling;
mod speech;
mod tensors;
mod timestamps;
mod tokenizer;
mod whisper;

pub use chat::{Chat, ChatError, Content, Date, Ending, Message, Part};
pub use config::{Config, Family, Head, Image, Input, LayerKind, Naming};
pub use error::Error;
pub use grammar::{Constraint, Form, GrammarError, Grammars};
pub use metadata::Metadata;
pub use quantize::{Quantization, Text};
pub use render::{PAGE, quantized_text, text};
pub use roles::Role;
pub use rotary::{Rotary, Scaling};
pub use sampling::{Chosen, Sampler, Sampling, SamplingError, logprob, top_logprobs};
pub use speech::{SpeechTokens, Task};
pub use tensors::{BLOCKS, Block, BlockField, Format, Packed, Stored, Tensors};
pub use timestamps::{Segment, Timestamps};
pub use tokenizer::{Special, Stream, Tokenizer, TokenizerError, Vocabulary, VocabularyMetadata};
