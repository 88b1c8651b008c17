//! Constants that are too large for a program: they stay the bytes of the model until somebody asks for their
//! elements, so that an import takes little more memory than the file.

use crate::elements::{of_bytes, width};
use prost::bytes::Bytes;
use relax_semantics::tensor::Tensor;
use relax_syntax::dtype::DType;
use std::sync::Arc;

/// A tensor of `param("…")`.
#[derive(Clone, Debug)]
pub enum Weight {
    /// One that was computed.
    Computed(Arc<Tensor>),
    /// One that lies in the model.
    Stored(Stored),
}

/// Row-major elements as they lie in a model, little-endian.
#[derive(Clone, Debug)]
pub struct Stored {
    dtype: DType,
    shape: Vec<usize>,
    bytes: Bytes,
}

impl Stored {
    /// Bytes whose number was held against the dims.
    pub(crate) fn new(dtype: DType, shape: Vec<usize>, bytes: Bytes) -> Self {
        debug_assert_eq!(shape.iter().product::<usize>() * width(dtype), bytes.len());
        Self { dtype, shape, bytes }
    }

    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extents.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The elements, little-endian. A bool is a byte that is not 0 for true.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The elements as they lie in the model.
    pub(crate) fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// The elements decoded.
    #[must_use]
    pub fn tensor(&self) -> Tensor {
        of_bytes(self.dtype, &self.shape, &self.bytes)
    }
}

impl Weight {
    /// The tensor, decoded where it is not.
    #[must_use]
    pub fn tensor(&self) -> Tensor {
        match self {
            Weight::Computed(tensor) => (**tensor).clone(),
            Weight::Stored(stored) => stored.tensor(),
        }
    }
}
