//! Element types of tensors and scalars.

use std::fmt;

/// The type of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

/// What kind of number a dtype holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Class {
    Float,
    Signed,
    Unsigned,
    Bool,
}

use DType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};

impl DType {
    /// Every dtype, in the order of the language reference.
    pub const ALL: [DType; 13] = [F16, BF16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, Bool];

    /// The short name, which is what the formatter writes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            F16 => "f16",
            BF16 => "bf16",
            F32 => "f32",
            F64 => "f64",
            I8 => "i8",
            I16 => "i16",
            I32 => "i32",
            I64 => "i64",
            U8 => "u8",
            U16 => "u16",
            U32 => "u32",
            U64 => "u64",
            Bool => "bool",
        }
    }

    /// The long name, as NumPy and TVM write it.
    #[must_use]
    pub fn long_name(self) -> &'static str {
        match self {
            F16 => "float16",
            BF16 => "bfloat16",
            F32 => "float32",
            F64 => "float64",
            I8 => "int8",
            I16 => "int16",
            I32 => "int32",
            I64 => "int64",
            U8 => "uint8",
            U16 => "uint16",
            U32 => "uint32",
            U64 => "uint64",
            Bool => "bool",
        }
    }

    /// Reads a short or a long name.
    #[must_use]
    pub fn parse(text: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == text || d.long_name() == text)
    }

    /// Bytes of one element.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            I8 | U8 | Bool => 1,
            F16 | BF16 | I16 | U16 => 2,
            F32 | I32 | U32 => 4,
            F64 | I64 | U64 => 8,
        }
    }

    /// Float, signed, unsigned or bool.
    #[must_use]
    pub fn class(self) -> Class {
        match self {
            F16 | BF16 | F32 | F64 => Class::Float,
            I8 | I16 | I32 | I64 => Class::Signed,
            U8 | U16 | U32 | U64 => Class::Unsigned,
            Bool => Class::Bool,
        }
    }

    /// True for `f16 bf16 f32 f64`.
    #[must_use]
    pub fn is_float(self) -> bool {
        self.class() == Class::Float
    }

    /// True for the signed and unsigned integers; `bool` is none of them.
    #[must_use]
    pub fn is_integer(self) -> bool {
        matches!(self.class(), Class::Signed | Class::Unsigned)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
