//! Files of external constants and parameters (`--params`): safetensors and GGUF, recognized by their first bytes, and safetensors
//! in several files, of which `NAME.index.json` says what is where.

use super::gguf::Gguf;
use super::limited::{FileError, open, read_rest};
use super::safetensors::{Content, has_header};
use super::shards::Shards;
use super::source::Source;
use relax_semantics::tensor::Tensor;
use relax_syntax::dtype::DType;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A tensor file; a tensor is decoded when it is asked for.
pub struct Weights {
    path: PathBuf,
    file: Format,
}

enum Format {
    Safetensors(Box<Content>),
    Shards(Shards),
    Gguf(Gguf),
}

/// What a file says of one tensor.
pub struct Entry {
    /// `None` where no dtype of the language is the same.
    pub dtype: Option<DType>,
    /// The file's name of its dtype.
    pub stored: String,
    /// Row-major, of rank 0 for a scalar.
    pub shape: Vec<usize>,
    /// In the file.
    pub bytes: u64,
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
        if is_index(path) {
            let file = Format::Shards(Shards::open(path, limit)?);
            return Ok(Self { path: path.to_owned(), file });
        }
        let cannot = |error: FileError| error.at(&format!("cannot read {}", path.display()));
        let (mut file, length) = open(path, limit).map_err(cannot)?;
        let begin = begin(&mut file).map_err(cannot)?;
        let file = if Gguf::has_magic(&begin) {
            Format::Gguf(Gguf::from_opened(path, file, length, begin, limit)?)
        } else {
            Format::Safetensors(Box::new(safetensors(path, (file, length), begin, limit)?))
        };
        Ok(Self { path: path.to_owned(), file })
    }

    /// Whether a file begins as one of these does, or is an index.
    #[must_use]
    pub fn is_weights(path: &Path) -> bool {
        let Ok((mut file, length)) = open(path, u64::MAX) else { return false };
        // What is read from a pipe is gone.
        let is_file = length.is_some();
        let begin = if is_file { begin(&mut file).unwrap_or_default() } else { Vec::new() };
        is_file && (is_index(path) || Gguf::has_magic(&begin) || has_header(&begin, length))
    }

    /// Text that safetensors files have beside their tensors, by key.
    #[must_use]
    pub fn metadata(&self) -> BTreeMap<String, String> {
        match &self.file {
            Format::Safetensors(content) => content.metadata(),
            Format::Shards(shards) => shards.metadata(),
            Format::Gguf(_) => BTreeMap::new(),
        }
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All files, that at [`Self::path`] first.
    #[must_use]
    pub fn files(&self) -> Vec<&Path> {
        let shards = match &self.file {
            Format::Shards(shards) => shards.paths().collect(),
            _ => Vec::new(),
        };
        std::iter::once(self.path()).chain(shards).collect()
    }

    /// A reader of all bytes of the file, or of the shards. It fails if a file was changed after it was opened.
    #[must_use]
    pub fn content(&self) -> Box<dyn Read + '_> {
        match &self.file {
            Format::Safetensors(content) => Box::new(content.content()),
            Format::Shards(shards) => shards.content(),
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
            Format::Safetensors(content) => Ok(content.entries()),
            Format::Shards(shards) => Ok(shards.entries()),
            Format::Gguf(gguf) => Ok(gguf.entries()),
        }
    }

    /// Decodes the tensors of these names, in their order.
    ///
    /// # Errors
    /// When one is not in the file, has a dtype that the language lacks, or cannot be read.
    pub fn tensors(&self, names: &[String]) -> Result<Vec<Tensor>, String> {
        let read = |name: &String| {
            let (path, tensor) = match &self.file {
                Format::Safetensors(content) => (self.path(), content.tensor(name)),
                Format::Shards(shards) => match shards.file(name) {
                    Ok((path, file)) => (path, file.tensor(name)),
                    Err(why) => (self.path(), Err(why)),
                },
                Format::Gguf(gguf) => (self.path(), gguf.tensor(name)),
            };
            tensor.map_err(|why| format!("{}: `{name}`: {why}", path.display()))
        };
        names.iter().map(read).collect()
    }

    /// Decodes a part of a tensor: consecutive indices of each axis. Of safetensors not much more is read.
    ///
    /// # Errors
    /// As of [`Self::tensors`], and where there is no such part, as of every tensor of a GGUF file.
    pub fn part(&self, name: &str, part: &[Range<usize>]) -> Result<Tensor, String> {
        let (path, tensor) = match &self.file {
            Format::Safetensors(content) => (self.path(), content.part(name, part)),
            Format::Shards(shards) => match shards.file(name) {
                Ok((path, file)) => (path, file.part(name, part)),
                Err(why) => (self.path(), Err(why)),
            },
            Format::Gguf(_) => (self.path(), Err("GGUF files have no parts".to_owned())),
        };
        tensor.map_err(|why| format!("{}: `{name}`: {why}", path.display()))
    }

    /// Whether [`Self::part`] reads parts.
    #[must_use]
    pub fn has_parts(&self) -> bool {
        !matches!(self.file, Format::Gguf(_))
    }
}

fn is_index(path: &Path) -> bool {
    path.to_string_lossy().ends_with(".index.json")
}

/// Of a file that is open, its length, and its first bytes.
pub(super) fn safetensors(
    path: &Path,
    (file, length): (File, Option<u64>),
    begin: Vec<u8>,
    limit: u64,
) -> Result<Content, FileError> {
    let cannot = |error: FileError| error.at(&format!("cannot read {}", path.display()));
    let improper = |why: &str| format!("{} is no proper safetensors file: {why}", path.display());
    if !has_header(&begin, length) {
        return Err(FileError::Wrong(improper("there is no header")));
    }
    let source = match length {
        Some(_) => {
            Source::of_file(file).map_err(|error| cannot(FileError::Wrong(error.to_string())))?
        }
        None => Source::Memory(read_rest(file, begin, limit).map_err(cannot)?),
    };
    Ok(Content::of(source).map_err(|why| improper(&why))?)
}

/// The magic number of GGUF, or the length of a safetensors header and its first byte.
pub(super) fn begin(file: &mut File) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    let read = file.by_ref().take(9).read_to_end(&mut bytes);
    read.map(|_| bytes).map_err(|error| FileError::Wrong(error.to_string()))
}
