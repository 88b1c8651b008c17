//! Tensors in files: `.npy`, `.npz`, safetensors. The command, the demonstrations and the harness
//! read the same formats, so they are read here. Every file may be hostile: lengths that a header
//! claims are held against the bytes that are there before anything is allocated.
//!
//! Errors are sentences for the user.

mod elements;
mod npy;
mod npz;
mod weights;

pub use npy::{read_npy, write_npy};
pub use npz::{read_npz, write_npz};
pub use weights::{
    Entry, Stored, Weights, encode_safetensors, write_safetensors, write_safetensors_to,
};
