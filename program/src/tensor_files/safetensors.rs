//! Safetensors files: external constants in, results out. The header is read when a file is opened, the bytes of a tensor when it
//! is asked for.
//!
//! A file is read, not mapped: mapping is `unsafe`, and a file that changes under a run would
//! change its constants.

use super::elements::{Order, from_bytes, to_bytes};
use super::parts;
use super::source::Source;
use super::weights::Entry;
use relax_semantics::tensor::Tensor;
use relax_syntax::dtype::DType;
use safetensors::SafeTensorError;
use safetensors::tensor::{Dtype, Metadata, TensorInfo, View};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::ops::Range;
use std::path::Path;

/// An open safetensors file.
pub(super) struct Content {
    source: Source,
    header: Metadata,
    /// Where the bytes of tensors begin.
    data: u64,
}

impl Content {
    /// # Errors
    /// What is wrong with the header, or says the system.
    pub(super) fn of(source: Source) -> Result<Self, String> {
        let words = |error: SafeTensorError| error.to_string();
        let mut length = [0; 8];
        if source.length() < 8 {
            return Err(words(SafeTensorError::HeaderTooSmall));
        }
        source.read(0, &mut length).map_err(|error| error.to_string())?;
        let length = u64::from_le_bytes(length);
        if length > LONGEST_HEADER {
            return Err(words(SafeTensorError::HeaderTooLarge));
        }
        if length > source.length() - 8 {
            return Err(words(SafeTensorError::InvalidHeaderLength));
        }
        let size = usize::try_from(length).map_err(|error| error.to_string())?;
        let mut header = vec![0; size];
        source.read(8, &mut header).map_err(|error| error.to_string())?;
        let text = std::str::from_utf8(&header)
            .map_err(|error| words(SafeTensorError::InvalidHeader(error)))?;
        let header: Metadata = serde_json::from_str(text)
            .map_err(|error| words(SafeTensorError::InvalidHeaderDeserialization(error)))?;
        let data = length + 8;
        if data + header.data_len() as u64 != source.length() {
            return Err(words(SafeTensorError::MetadataIncompleteBuffer));
        }
        Ok(Self { source, header, data })
    }

    /// A reader of all bytes of the file. It fails if the file was changed after it was opened.
    pub(super) fn content(&self) -> impl Read + '_ {
        self.source.reader()
    }

    /// Text that the file has beside its tensors, by key.
    pub(super) fn metadata(&self) -> BTreeMap<String, String> {
        self.header.metadata().iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    /// What the file says of every tensor, by name.
    pub(super) fn entries(&self) -> BTreeMap<String, Entry> {
        let entry = |info: &TensorInfo| Entry {
            dtype: dtype_of(info.dtype),
            stored: format!("{:?}", info.dtype),
            shape: info.shape.clone(),
            bytes: (info.data_offsets.1 - info.data_offsets.0) as u64,
        };
        self.header.tensors().into_iter().map(|(name, info)| (name, entry(info))).collect()
    }

    /// Reads and decodes a tensor.
    pub(super) fn tensor(&self, name: &str) -> Result<Tensor, String> {
        let info = self.info(name)?;
        let whole: Vec<Range<usize>> = info.shape.iter().map(|&extent| 0..extent).collect();
        self.part(name, &whole)
    }

    /// Reads and decodes a part of a tensor: consecutive indices of each axis.
    pub(super) fn part(&self, name: &str, part: &[Range<usize>]) -> Result<Tensor, String> {
        let info = self.info(name)?;
        let dtype = dtype_of(info.dtype).ok_or("its dtype is none of the language")?;
        let fits = |(range, extent): (&Range<usize>, &usize)| {
            range.start <= range.end && range.end <= *extent
        };
        if part.len() != info.shape.len() || !part.iter().zip(&info.shape).all(fits) {
            return Err(format!("there is no part {part:?} of the shape {:?}", info.shape));
        }
        let begin = self.data + info.data_offsets.0 as u64;
        let read = &mut |at: usize, into: &mut [u8]| self.source.read(begin + at as u64, into);
        let bytes = parts::bytes((&info.shape, dtype.size()), part, read);
        let unchanged = |bytes| self.source.verify_unchanged().map(|()| bytes);
        let bytes: Vec<u8> = bytes.and_then(unchanged).map_err(|error| error.to_string())?;
        let shape: Vec<usize> = part.iter().map(ExactSizeIterator::len).collect();
        from_bytes(dtype, &shape, &bytes, Order::Little)
    }

    fn info(&self, name: &str) -> Result<&TensorInfo, String> {
        let info = self.header.info(name);
        info.ok_or_else(|| SafeTensorError::TensorNotFound(name.to_owned()).to_string())
    }
}

/// The longest header, as the library has it.
const LONGEST_HEADER: u64 = 100_000_000;

/// Whether a file that begins so may have a header, before the rest of it is read.
pub(super) fn has_header(begin: &[u8], length: Option<u64>) -> bool {
    let header = begin.first_chunk().map(|length| u64::from_le_bytes(*length));
    let fits = |header: u64| length.is_none_or(|length| header.saturating_add(8) <= length);
    header.is_some_and(|header| header <= LONGEST_HEADER && fits(header))
        && begin.get(8) == Some(&b'{')
}

const DTYPES: [(DType, Dtype); 13] = [
    (DType::F16, Dtype::F16),
    (DType::BF16, Dtype::BF16),
    (DType::F32, Dtype::F32),
    (DType::F64, Dtype::F64),
    (DType::I8, Dtype::I8),
    (DType::I16, Dtype::I16),
    (DType::I32, Dtype::I32),
    (DType::I64, Dtype::I64),
    (DType::U8, Dtype::U8),
    (DType::U16, Dtype::U16),
    (DType::U32, Dtype::U32),
    (DType::U64, Dtype::U64),
    (DType::Bool, Dtype::BOOL),
];

fn dtype_of(found: Dtype) -> Option<DType> {
    DTYPES.iter().find(|(_, stored)| *stored == found).map(|(dtype, _)| *dtype)
}

/// A tensor to be written.
#[derive(Clone, Debug)]
pub enum Stored<'t> {
    /// One whose elements are encoded as it is written.
    Tensor(Tensor),
    /// One whose little-endian bytes are there.
    Bytes(DType, &'t [usize], &'t [u8]),
}

impl Stored<'_> {
    fn of(&self) -> (DType, &[usize]) {
        match self {
            Stored::Tensor(tensor) => (tensor.dtype(), tensor.shape()),
            Stored::Bytes(dtype, shape, _) => (*dtype, shape),
        }
    }
}

impl View for &Stored<'_> {
    fn dtype(&self) -> Dtype {
        let (dtype, _) = self.of();
        let stored = DTYPES.iter().find(|(known, _)| *known == dtype);
        stored.expect("invariant: the table has every dtype").1
    }

    fn shape(&self) -> &[usize] {
        self.of().1
    }

    fn data(&self) -> Cow<'_, [u8]> {
        match self {
            Stored::Tensor(tensor) => to_bytes(tensor),
            Stored::Bytes(_, _, bytes) => Cow::Borrowed(bytes),
        }
    }

    fn data_len(&self) -> usize {
        let (dtype, shape) = self.of();
        shape.iter().product::<usize>() * dtype.size()
    }
}

/// The whole content of a safetensors file.
///
/// # Errors
/// When the format cannot hold the tensors.
pub fn write_safetensors(tensors: &[(String, Tensor)]) -> Result<Vec<u8>, String> {
    let stored: Vec<(&str, Stored)> = tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), Stored::Tensor(tensor.clone())))
        .collect();
    encode_safetensors(&stored)
}

/// As [`write_safetensors`], of what may be encoded already.
///
/// # Errors
/// When the format cannot hold the tensors.
pub fn encode_safetensors(tensors: &[(&str, Stored)]) -> Result<Vec<u8>, String> {
    let views = tensors.iter().map(|(name, stored)| (*name, stored));
    safetensors::serialize(views, None).map_err(|error| error.to_string())
}

/// As [`encode_safetensors`], with a text beside the tensors, under a key. There is one at most: the library writes several in
/// no order, so that the same content would have different bytes.
///
/// # Errors
/// When the format cannot hold the tensors.
pub fn encode_safetensors_with(
    tensors: &[(&str, Stored)],
    (key, text): (&str, String),
) -> Result<Vec<u8>, String> {
    let views = tensors.iter().map(|(name, stored)| (*name, stored));
    let metadata = HashMap::from([(key.to_owned(), text)]);
    safetensors::serialize(views, Some(metadata)).map_err(|error| error.to_string())
}

/// Makes a safetensors file, one tensor after the other. What lies under the name is replaced, whatever it is.
///
/// # Errors
/// When the format cannot hold the tensors, or the file cannot be written.
pub fn write_safetensors_to(path: &Path, tensors: &[(&str, Stored)]) -> Result<(), String> {
    let views = tensors.iter().map(|(name, stored)| (*name, stored));
    safetensors::serialize_to_file(views, None, path).map_err(|error| error.to_string())
}
