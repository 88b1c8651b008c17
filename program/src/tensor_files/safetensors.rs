//! Safetensors files: external constants in, results out.
//!
//! A file is read, not mapped: mapping is `unsafe`, and a file that changes under a run would
//! change its constants.

use super::elements::{Order, from_bytes, to_bytes};
use super::weights::Entry;
use relax_semantics::tensor::Tensor;
use relax_syntax::dtype::DType;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView, View};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

/// The content of a safetensors file; a tensor is decoded when it is asked for.
pub(super) struct Content {
    bytes: Vec<u8>,
}

impl Content {
    /// # Errors
    /// What is wrong with the header.
    pub(super) fn of(bytes: Vec<u8>) -> Result<Self, String> {
        let content = Self { bytes };
        content.parsed()?;
        Ok(content)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn parsed(&self) -> Result<SafeTensors<'_>, String> {
        SafeTensors::deserialize(&self.bytes).map_err(|error| error.to_string())
    }

    /// What the file says of every tensor, by name.
    pub(super) fn entries(&self) -> Result<BTreeMap<String, Entry>, String> {
        let parsed = self.parsed()?;
        let entry = |view: &TensorView| Entry {
            dtype: dtype_of(view.dtype()),
            shape: view.shape().to_vec(),
        };
        Ok(parsed.tensors().iter().map(|(name, view)| (name.clone(), entry(view))).collect())
    }

    /// Decodes tensors in the order of their names; an error is of the first name for which there is one.
    pub(super) fn tensors(&self, names: &[String]) -> Result<Vec<Tensor>, (String, String)> {
        let parsed = self.parsed().map_err(|why| (String::new(), why))?;
        let decode = |name: &String| {
            let view = parsed.tensor(name).map_err(|error| error.to_string())?;
            let dtype = dtype_of(view.dtype()).ok_or("its dtype is none of the language")?;
            from_bytes(dtype, view.shape(), view.data(), Order::Little)
        };
        let named = |name: &String| decode(name).map_err(|why| (name.clone(), why));
        names.iter().map(named).collect()
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

/// Makes a safetensors file, one tensor after the other. What lies under the name is replaced, whatever it is.
///
/// # Errors
/// When the format cannot hold the tensors, or the file cannot be written.
pub fn write_safetensors_to(path: &Path, tensors: &[(&str, Stored)]) -> Result<(), String> {
    let views = tensors.iter().map(|(name, stored)| (*name, stored));
    safetensors::serialize_to_file(views, None, path).map_err(|error| error.to_string())
}
