//! Tensors of files by name, and what messages say of tensors.

use crate::error::TrainError;
use relax_program::tensor_files::{FileError, Weights, read_file, read_npz_within};
use relax_semantics::tensor::Tensor;
use std::path::{Path, PathBuf};

/// An open file of tensors with names: `.npz`, safetensors or GGUF.
pub(crate) struct TensorFile {
    path: PathBuf,
    content: Content,
    max_bytes: u64,
}

enum Content {
    Weights(Weights),
    Npz(Vec<u8>),
}

impl TensorFile {
    /// Opens a file of so many bytes at most.
    pub(crate) fn open(path: &Path, max_bytes: u64) -> Result<Self, TrainError> {
        let content = if Weights::is_weights(path) {
            Content::Weights(Weights::open_within(path, max_bytes)?)
        } else {
            let bytes = read_file(path, max_bytes);
            let at = format!("cannot read {}", path.display());
            Content::Npz(bytes.map_err(|error| error.at(&at))?)
        };
        Ok(Self { path: path.to_owned(), content, max_bytes })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads a tensor.
    pub(crate) fn tensor(&self, name: &str) -> Result<Tensor, TrainError> {
        match &self.content {
            Content::Weights(weights) => {
                let tensors = weights.tensors(&[name.to_owned()]).map_err(TrainError::Input)?;
                Ok(tensors.into_iter().next().expect("invariant: one name is one tensor"))
            }
            Content::Npz(bytes) => {
                let tensor = read_npz_within(bytes, Some(name), self.max_bytes);
                tensor.map_err(|error: FileError| error.at(&self.path.display().to_string()).into())
            }
        }
    }
}

/// The first element that is NaN or infinite, with its value, in words.
pub(crate) fn first_not_finite(tensor: &Tensor) -> Option<String> {
    let floats = tensor.to_floats();
    let (index, value) = floats.indexed_iter().find(|(_, value)| !value.is_finite())?;
    let index: Vec<usize> = (0..tensor.rank()).map(|axis| index[axis]).collect();
    Some(match index.as_slice() {
        [] => format!("it is {value}"),
        index => format!("element {index:?} is {value}"),
    })
}
