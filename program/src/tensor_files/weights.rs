//! Files of external constants and parameters (`--params`): safetensors and GGUF, recognized by their first bytes.

use super::gguf::Gguf;
use super::limited::{FileError, open, read_rest};
use super::safetensors::{Content, has_header};
use relax_semantics::tensor::Tensor;
use relax_syntax::dtype::DType;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A tensor file; a tensor is decoded when it is asked for.
pub struct Weights {
    path: PathBuf,
    file: Format,
}

enum Format {
    Safetensors(Content),
    Gguf(Gguf),
}

/// What a file says of one tensor.
pub struct Entry {
    /// `None` where no dtype of the language is the same.
    pub dtype: Option<DType>,
    /// Row-major, of rank 0 for a scalar.
    pub shape: Vec<usize>,
}

impl Weights {
    /// Opens a file and checks its header.
    ///
    /// # Errors
    /// When the file cannot be read, or is neither a proper safetensors file nor a proper GGUF file.
    pub fn open(path: &Path) -> Result<Self, String> {
        Self::open_within(path, u64::MAX).map_err(|error| error.to_string())
    }

    /// As [`Self::open`], of a file of so many bytes at most.
    ///
    /// # Errors
    /// As of [`Self::open`], and a larger file.
    pub fn open_within(path: &Path, limit: u64) -> Result<Self, FileError> {
        let cannot = |error: FileError| error.at(&format!("cannot read {}", path.display()));
        let (mut file, length) = open(path, limit).map_err(cannot)?;
        let begin = begin(&mut file).map_err(cannot)?;
        let file = if Gguf::has_magic(&begin) {
            Format::Gguf(Gguf::from_opened(path, file, length, begin, limit)?)
        } else {
            let improper =
                |why: &str| format!("{} is no proper safetensors file: {why}", path.display());
            if !has_header(&begin, length) {
                return Err(FileError::Wrong(improper("there is no header")));
            }
            let bytes = read_rest(file, begin, limit).map_err(cannot)?;
            Format::Safetensors(Content::of(bytes).map_err(|why| improper(&why))?)
        };
        Ok(Self { path: path.to_owned(), file })
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A reader of all bytes of the file. That of a GGUF file fails if the file was changed after it was opened.
    #[must_use]
    pub fn content(&self) -> Box<dyn Read + '_> {
        match &self.file {
            Format::Safetensors(content) => Box::new(content.bytes()),
            Format::Gguf(gguf) => Box::new(gguf.content()),
        }
    }

    /// The GGUF file behind this, with its metadata; `None` for another format.
    #[must_use]
    pub fn gguf(&self) -> Option<&Gguf> {
        if let Format::Gguf(gguf) = &self.file { Some(gguf) } else { None }
    }

    /// What the file says of every tensor, by name. Tensors of block formats of GGUF are there field by field.
    ///
    /// # Errors
    /// Never, once the file is open; what reads the header can say no.
    pub fn entries(&self) -> Result<BTreeMap<String, Entry>, String> {
        match &self.file {
            Format::Safetensors(content) => content.entries(),
            Format::Gguf(gguf) => Ok(gguf.entries()),
        }
    }

    /// Decodes the tensors of these names, in their order.
    ///
    /// # Errors
    /// When one is not in the file, has a dtype that the language lacks, or cannot be read.
    pub fn tensors(&self, names: &[String]) -> Result<Vec<Tensor>, String> {
        let tensors = match &self.file {
            Format::Safetensors(content) => content.tensors(names),
            Format::Gguf(gguf) => {
                let read = |name: &String| gguf.tensor(name).map_err(|why| (name.clone(), why));
                names.iter().map(read).collect()
            }
        };
        tensors.map_err(|(name, why)| format!("{}: `{name}`: {why}", self.path.display()))
    }
}

/// The magic number of GGUF, or the length of a safetensors header and its first byte.
fn begin(file: &mut File) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    let read = file.by_ref().take(9).read_to_end(&mut bytes);
    read.map(|_| bytes).map_err(|error| FileError::Wrong(error.to_string()))
}
