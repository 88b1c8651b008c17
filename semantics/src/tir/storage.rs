//! The memory of a run: typed elements, and which of them were written.

use super::scalar::Scalar;
use crate::tensor::{Data, Tensor, array};
use half::{bf16, f16};
use relax_syntax::dtype::DType;

/// Elements in row-major order.
pub(super) enum Cells {
    F16(Vec<f16>),
    BF16(Vec<bf16>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    Bool(Vec<bool>),
}

macro_rules! each_variant {
    ($value:expr, $from:ident, $to:ident, $inner:ident => $body:expr) => {
        each_variant!(@ $value, $from, $to, $inner => $body;
            F16 BF16 F32 F64 I8 I16 I32 I64 U8 U16 U32 U64 Bool)
    };
    (@ $value:expr, $from:ident, $to:ident, $inner:ident => $body:expr; $($variant:ident)*) => {
        match $value { $($from::$variant($inner) => $to::$variant($body)),* }
    };
}

macro_rules! on_cells {
    ($value:expr, $inner:ident => $body:expr) => {
        on_cells!(@ $value, $inner => $body;
            F16 BF16 F32 F64 I8 I16 I32 I64 U8 U16 U32 U64 Bool)
    };
    (@ $value:expr, $inner:ident => $body:expr; $($variant:ident)*) => {
        match $value { $(Cells::$variant($inner) => $body),* }
    };
}

impl Cells {
    fn zeros(dtype: DType, len: usize) -> Self {
        match dtype {
            DType::F16 => Cells::F16(vec![f16::ZERO; len]),
            DType::BF16 => Cells::BF16(vec![bf16::ZERO; len]),
            DType::F32 => Cells::F32(vec![0.0; len]),
            DType::F64 => Cells::F64(vec![0.0; len]),
            DType::I8 => Cells::I8(vec![0; len]),
            DType::I16 => Cells::I16(vec![0; len]),
            DType::I32 => Cells::I32(vec![0; len]),
            DType::I64 => Cells::I64(vec![0; len]),
            DType::U8 => Cells::U8(vec![0; len]),
            DType::U16 => Cells::U16(vec![0; len]),
            DType::U32 => Cells::U32(vec![0; len]),
            DType::U64 => Cells::U64(vec![0; len]),
            DType::Bool => Cells::Bool(vec![false; len]),
        }
    }

    #[inline]
    fn load(&self, at: usize) -> u64 {
        on_cells!(self, cells => cells[at].bits())
    }

    #[inline]
    fn store(&mut self, at: usize, bits: u64) {
        on_cells!(self, cells => cells[at] = Scalar::read(bits));
    }
}

/// One instance of a buffer.
pub(super) struct Storage {
    cells: Cells,
    pub(super) extents: Vec<usize>,
    /// One an element while `missing` is not 0.
    written: Vec<bool>,
    missing: usize,
    changed: bool,
    pub(super) bytes: u64,
}

impl Storage {
    pub(super) fn fresh(dtype: DType, extents: Vec<usize>) -> Self {
        let len = extents.iter().product();
        Self {
            cells: Cells::zeros(dtype, len),
            written: vec![false; len],
            missing: len,
            changed: true,
            bytes: (len * dtype.size()) as u64,
            extents,
        }
    }

    pub(super) fn from_tensor(tensor: &Tensor) -> Self {
        let data = tensor.data();
        let cells = each_variant!(data, Data, Cells, a => {
            a.as_slice().expect("invariant: tensors are in row-major order").to_vec()
        });
        let undefined = tensor.undefined_elements().unwrap_or(&[]);
        Self {
            cells,
            extents: tensor.shape().to_vec(),
            written: undefined.iter().map(|undefined| !undefined).collect(),
            missing: undefined.iter().filter(|&&undefined| undefined).count(),
            changed: false,
            bytes: 0,
        }
    }

    /// The tensor as the run left it; `original` when nothing was stored to it.
    pub(super) fn into_tensor(self, original: Tensor) -> Tensor {
        if !self.changed {
            return original;
        }
        let extents = self.extents;
        let data = each_variant!(self.cells, Cells, Data, cells => {
            array(&extents, cells).into_shared()
        });
        let tensor = Tensor::from_data(data);
        if self.missing == 0 {
            return tensor;
        }
        tensor.with_undefined(self.written.iter().map(|written| !written).collect())
    }

    /// `None` for an element that nothing wrote.
    #[inline]
    pub(super) fn load(&self, at: usize) -> Option<u64> {
        if self.missing != 0 && !self.written[at] {
            return None;
        }
        Some(self.cells.load(at))
    }

    #[inline]
    pub(super) fn store(&mut self, at: usize, bits: u64) {
        if self.missing != 0 && !self.written[at] {
            self.written[at] = true;
            self.missing -= 1;
        }
        self.changed = true;
        self.cells.store(at, bits);
    }

    pub(super) fn len(&self) -> usize {
        self.extents.iter().product()
    }
}
