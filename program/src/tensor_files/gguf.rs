//! The GGUF format, versions 2 and 3, little-endian: the tensor files of llama.cpp.
//!
//! A tensor of a block format, such as Q4_0, is seen as one tensor per member of its block struct: `NAME.d`, `NAME.qs`.
//! The header is read when a file is opened, the bytes of a tensor when it is asked for.

mod cursor;
mod format;
mod header;
#[cfg(test)]
mod tests;
mod value;

use super::elements::{Order, from_bytes};
use super::limited::{FileError, open, read_rest};
use super::source::Source;
use super::weights::Entry;
use cursor::Refusal;
pub use format::{GgufField, GgufFormat};
use header::{Header, MAGIC};
use relax_semantics::tensor::Tensor;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
pub use value::{GgufArray, GgufValue};

/// Bytes of blocks that are read at once.
const CHUNK: usize = 1 << 20;

/// An open GGUF file.
pub struct Gguf {
    source: Source,
    header: Header,
}

/// What a file says of one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GgufTensor {
    /// How its elements are stored.
    pub format: GgufFormat,
    /// Row-major: the dims of the file reversed, so that the last one is that of a row.
    pub shape: Vec<usize>,
    /// From the beginning of the file, in bytes.
    offset: u64,
    /// The number of its bytes.
    size: u64,
}

impl GgufTensor {
    /// The number of its bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.size
    }

    /// The shape of a field: the last dim counts its elements.
    #[must_use]
    pub fn field_shape(&self, field: GgufField) -> Vec<usize> {
        let mut shape = self.shape.clone();
        if let Some(row) = shape.last_mut() {
            *row = *row / self.format.block() * field.count;
        }
        shape
    }
}

/// `NAME.d`, or `NAME` of an unquantized tensor.
fn entry_name(tensor: &str, field: GgufField) -> String {
    if field.name.is_empty() { tensor.to_owned() } else { format!("{tensor}.{}", field.name) }
}

impl Gguf {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// When the file cannot be read, breaks a rule of the format, or has tensors of a format that is not read.
    pub fn open(path: &Path) -> Result<Self, String> {
        Self::open_within(path, u64::MAX).map_err(|error| error.to_string())
    }

    /// As [`Self::open`], of a file of so many bytes at most.
    ///
    /// # Errors
    /// As of [`Self::open`], and a larger file.
    pub fn open_within(path: &Path, limit: u64) -> Result<Self, FileError> {
        let cannot = |error: FileError| error.at(&format!("cannot read {}", path.display()));
        let (file, length) = open(path, limit).map_err(cannot)?;
        Self::from_opened(path, file, length, Vec::new(), limit)
    }

    /// Of a file that is open, and the bytes that were read of it. A pipe, which has no length, is read to its end.
    pub(super) fn from_opened(
        path: &Path,
        file: File,
        length: Option<u64>,
        begin: Vec<u8>,
        limit: u64,
    ) -> Result<Self, FileError> {
        let cannot = |error: FileError| error.at(&format!("cannot read {}", path.display()));
        let source = match length {
            Some(_) => Source::of_file(file)
                .map_err(|error| cannot(FileError::Wrong(error.to_string())))?,
            None => Source::Memory(read_rest(file, begin, limit).map_err(cannot)?),
        };
        let file = path.display().to_string();
        Self::of(source).map_err(|refusal| FileError::Wrong(refusal.sentence(&file)))
    }

    /// Reads the content of a file.
    ///
    /// # Errors
    /// As of [`Self::open`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, String> {
        Self::of(Source::Memory(bytes)).map_err(|refusal| refusal.sentence("the file"))
    }

    fn of(source: Source) -> Result<Self, Refusal> {
        let header = Header::read(&source)?;
        Ok(Self { source, header })
    }

    /// Whether a file that begins so is one of GGUF.
    pub(super) fn has_magic(begin: &[u8]) -> bool {
        begin.starts_with(MAGIC)
    }

    /// That of the format, 2 or 3.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.header.version
    }

    /// Tensors begin at multiples of so many bytes of the data.
    #[must_use]
    pub fn alignment(&self) -> u64 {
        self.header.alignment
    }

    /// The metadata, by key.
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, GgufValue> {
        &self.header.metadata
    }

    /// The tensors, by the names that the file gives them.
    #[must_use]
    pub fn tensors(&self) -> &BTreeMap<String, GgufTensor> {
        &self.header.tensors
    }

    /// Dtype and shape of every unquantized tensor, and of every field `NAME.FIELD` of the others.
    #[must_use]
    pub fn entries(&self) -> BTreeMap<String, Entry> {
        let mut entries = BTreeMap::new();
        for (name, tensor) in self.tensors() {
            for &field in tensor.format.fields() {
                let shape = tensor.field_shape(field);
                let bytes = tensor.size / tensor.format.block_size() as u64 * field.size() as u64;
                let (dtype, stored) = (Some(field.dtype), field.dtype.to_string());
                entries.insert(entry_name(name, field), Entry { dtype, stored, shape, bytes });
            }
        }
        entries
    }

    /// Reads one of the [`Self::entries`].
    ///
    /// # Errors
    /// A name that is none of them; a file that cannot be read, or was changed after it was opened.
    pub fn tensor(&self, name: &str) -> Result<Tensor, String> {
        let (tensor, at, field) = self.entry(name).ok_or_else(|| self.unknown(name))?;
        let bytes = self.field_bytes(tensor, at, field).map_err(|error| error.to_string())?;
        from_bytes(field.dtype, &tensor.field_shape(field), &bytes, Order::Little)
    }

    /// The tensor of an entry, the offset of the field in a block, and the field.
    fn entry(&self, name: &str) -> Option<(&GgufTensor, usize, GgufField)> {
        let of = |tensor: &str, field: &str| {
            let tensor = self.tensors().get(tensor)?;
            let (at, field) = tensor.format.field(field)?;
            Some((tensor, at, field))
        };
        of(name, "").or_else(|| {
            let (tensor, field) = name.rsplit_once('.')?;
            of(tensor, field).filter(|_| !field.is_empty())
        })
    }

    fn unknown(&self, name: &str) -> String {
        self.fields_of(name).unwrap_or_else(|| "there is no such tensor".to_owned())
    }

    /// Under which names a tensor of blocks is there, as a clause; `None` for other names.
    #[must_use]
    pub(crate) fn fields_of(&self, name: &str) -> Option<String> {
        let tensor = self.tensors().get(name).filter(|tensor| !tensor.format.is_plain())?;
        let fields = tensor.format.fields().iter();
        let names: Vec<String> =
            fields.map(|field| format!("`{}`", entry_name(name, *field))).collect();
        Some(format!("the file has its blocks of {} as {}", tensor.format, names.join(", ")))
    }

    /// The bytes of one field of all blocks, block after block.
    fn field_bytes(
        &self,
        tensor: &GgufTensor,
        at: usize,
        field: GgufField,
    ) -> std::io::Result<Vec<u8>> {
        let (block, field) = (tensor.format.block_size(), at..at + field.size());
        let size = usize::try_from(tensor.size).map_err(std::io::Error::other)?;
        let mut bytes = Vec::with_capacity(size / block * field.len());
        let mut blocks = vec![0; size.min(CHUNK / block * block)];
        let mut from = tensor.offset;
        let end = tensor.offset + tensor.size;
        while from < end {
            let left = usize::try_from(end - from).unwrap_or(usize::MAX);
            let read = left.min(blocks.len());
            let blocks = &mut blocks[..read];
            self.source.read(from, blocks)?;
            blocks.chunks_exact(block).for_each(|block| bytes.extend(&block[field.clone()]));
            from += read as u64;
        }
        self.source.verify_unchanged()?;
        Ok(bytes)
    }

    /// A reader of all bytes of the file. It fails if the file was changed after it was opened.
    pub fn content(&self) -> impl Read + '_ {
        self.source.reader()
    }
}
