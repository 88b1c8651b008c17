//! Tensor files: `.npy`, `.npz`, safetensors, GGUF. Every file may be hostile: the lengths that a header claims are
//! checked against the bytes that are there before anything is allocated.
//!
//! Errors are sentences for the user.

mod elements;
mod gguf;
mod limited;
mod npy;
mod npz;
mod parts;
mod safetensors;
mod shards;
mod source;
mod weights;

pub use gguf::{Gguf, GgufArray, GgufField, GgufFormat, GgufTensor, GgufValue};
pub use limited::{FileError, read_file};
pub use npy::{read_npy, write_npy};
pub use npz::{read_npz, read_npz_within, write_npz};
pub use safetensors::{
    Stored, encode_safetensors, encode_safetensors_with, write_safetensors, write_safetensors_to,
};
pub use weights::{Entry, Weights};
