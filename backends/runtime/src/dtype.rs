//! Element types. The runtime knows how large an element is and what it is called, not how to compute.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The type of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs)] // each variant is its own name
pub enum DType {
    F16,
    BF16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Bool,
}

impl DType {
    /// Every dtype; the place of one is its number in the C interface.
    pub const ALL: [DType; 13] = [
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::Bool,
    ];

    /// `f32`
    #[must_use]
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 13] = [
            "f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64",
            "bool",
        ];
        NAMES[self as usize]
    }

    /// Reads what [`DType::name`] writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|dtype| dtype.name() == text)
    }

    /// Bytes of an element.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            DType::I8 | DType::U8 | DType::Bool => 1,
            DType::F16 | DType::BF16 | DType::I16 | DType::U16 => 2,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F64 | DType::I64 | DType::U64 => 8,
        }
    }

    /// Whether elements are floats.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The bytes of a dense tensor; `None` for a negative dim or more than `isize` holds.
#[must_use]
pub fn dense_bytes(dtype: DType, shape: &[i64]) -> Option<usize> {
    let mut bytes = dtype.size();
    let mut is_empty = false;
    for &dim in shape {
        let dim = usize::try_from(dim).ok()?;
        is_empty |= dim == 0;
        // A 0 among the dims makes the tensor empty, but the others are a shape of their own.
        if dim != 0 {
            bytes = bytes.checked_mul(dim).filter(|&bytes| isize::try_from(bytes).is_ok())?;
        }
    }
    Some(if is_empty { 0 } else { bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for dtype in DType::ALL {
            assert_eq!(DType::parse(dtype.name()), Some(dtype));
            assert_eq!(DType::ALL[dtype as usize], dtype);
        }
    }

    #[test]
    fn sizes_that_do_not_fit_are_none() {
        assert_eq!(dense_bytes(DType::F32, &[2, 3]), Some(24));
        assert_eq!(dense_bytes(DType::F32, &[]), Some(4));
        assert_eq!(dense_bytes(DType::F32, &[0, 1 << 40]), Some(0));
        assert_eq!(dense_bytes(DType::F32, &[0, 1 << 62]), None);
        assert_eq!(dense_bytes(DType::F64, &[1 << 60, 1]), None);
        assert_eq!(dense_bytes(DType::I8, &[-1]), None);
    }
}
