//! Tensors as an embedder sees them: dense, row-major, and never changed.

use crate::block::Block;
use crate::dtype::{DType, dense_bytes};
use std::sync::Arc;

/// A dense tensor. Names of it are cheap; its elements do not change.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub(crate) dtype: DType,
    pub(crate) shape: Arc<[i64]>,
    pub(crate) block: Arc<Block>,
    pub(crate) offset: usize,
    pub(crate) written: bool,
}

impl Tensor {
    /// A tensor with a copy of these bytes, its elements in the machine's byte order.
    ///
    /// # Errors
    /// When dims and bytes do not agree, a bool is neither 0 nor 1, or there is no memory.
    pub fn from_bytes(dtype: DType, shape: &[i64], bytes: &[u8]) -> Result<Self, String> {
        let expected = dense_bytes(dtype, shape)
            .ok_or_else(|| format!("{shape:?} is no shape of a tensor"))?;
        if expected != bytes.len() {
            let found = bytes.len();
            return Err(format!("{dtype} {shape:?} has {expected} bytes, found {found}"));
        }
        if dtype == DType::Bool && bytes.iter().any(|&byte| byte > 1) {
            return Err("a bool is 0 or 1".to_owned());
        }
        let block =
            Block::copied(bytes).ok_or_else(|| format!("no memory for {expected} bytes"))?;
        Ok(Self { dtype, shape: shape.into(), block: Arc::new(block), offset: 0, written: true })
    }

    /// A tensor of f32.
    ///
    /// # Errors
    /// As [`Tensor::from_bytes`].
    pub fn from_f32(shape: &[i64], elements: &[f32]) -> Result<Self, String> {
        let bytes: Vec<u8> = elements.iter().flat_map(|element| element.to_ne_bytes()).collect();
        Self::from_bytes(DType::F32, shape, &bytes)
    }

    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extents.
    #[must_use]
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// The elements, row-major, in the machine's byte order. Their start is aligned for their dtype.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let length = dense_bytes(self.dtype, &self.shape).unwrap_or(0);
        self.block.read(self.offset, length)
    }

    /// False for memory that the program asked for and wrote nothing to: its elements mean nothing.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.written
    }

    /// The same memory, as what nothing was written to.
    #[must_use]
    pub fn unwritten(mut self) -> Self {
        self.written = self.bytes().is_empty();
        self
    }

    /// The elements of a tensor of f32; `None` of any other.
    #[must_use]
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        let element = |bytes: &[u8]| bytes.try_into().map(f32::from_ne_bytes).unwrap_or_default();
        (self.dtype == DType::F32).then(|| self.bytes().chunks_exact(4).map(element).collect())
    }
}
