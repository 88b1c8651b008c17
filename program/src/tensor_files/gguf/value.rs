//! Metadata values of GGUF: numbers, bools, strings, and arrays of one of these.

use super::cursor::{Cursor, Refusal};

/// Defines values and arrays of all fixed-size numbers, with their readers.
macro_rules! numbers {
    ($($variant:ident $type:ty, $id:literal, $name:literal;)*) => {
        /// A value of the metadata.
        #[derive(Clone, Debug, PartialEq)]
        pub enum GgufValue {
            $(#[doc = concat!("Type ", $id, " of the format, `", $name, "`.")]
            $variant($type),)*
            /// Type 7 of the format: one byte, 0 or 1.
            Bool(bool),
            /// Type 8 of the format: UTF-8.
            Str(String),
            /// Type 9 of the format: elements of one type, which are no arrays.
            Array(GgufArray),
        }

        /// The elements of an array of the metadata.
        #[derive(Clone, Debug, PartialEq)]
        pub enum GgufArray {
            $(#[doc = concat!("Elements of type ", $id, ", `", $name, "`.")]
            $variant(Vec<$type>),)*
            /// Elements of type 7, bool.
            Bool(Vec<bool>),
            /// Elements of type 8, strings.
            Str(Vec<String>),
        }

        impl GgufArray {
            /// The number of elements.
            #[must_use]
            pub fn len(&self) -> usize {
                match self {
                    $(GgufArray::$variant(all) => all.len(),)*
                    GgufArray::Bool(all) => all.len(),
                    GgufArray::Str(all) => all.len(),
                }
            }

            /// The element of this index, if there is one.
            #[must_use]
            pub fn get(&self, index: usize) -> Option<GgufValue> {
                match self {
                    $(GgufArray::$variant(all) => all.get(index).copied().map(GgufValue::$variant),)*
                    GgufArray::Bool(all) => all.get(index).copied().map(GgufValue::Bool),
                    GgufArray::Str(all) => all.get(index).cloned().map(GgufValue::Str),
                }
            }
        }

        fn number(kind: u32, cursor: &mut Cursor, what: &str) -> Result<Option<GgufValue>, Refusal> {
            Ok(Some(match kind {
                $($id => GgufValue::$variant(<$type>::from_le_bytes(cursor.array(what)?)),)*
                _ => return Ok(None),
            }))
        }

        fn numbers(
            kind: u32,
            count: u64,
            cursor: &mut Cursor,
            what: &str,
        ) -> Result<Option<GgufArray>, Refusal> {
            Ok(Some(match kind {
                $($id => {
                    const SIZE: usize = size_of::<$type>();
                    // A count whose product overflows is more than any file has.
                    let bytes = cursor.bytes(count.saturating_mul(SIZE as u64), what)?;
                    let all = bytes.chunks_exact(SIZE).map(|chunk| {
                        <$type>::from_le_bytes(chunk.try_into().expect("invariant: SIZE bytes"))
                    });
                    GgufArray::$variant(all.collect())
                })*
                _ => return Ok(None),
            }))
        }
    };
}

numbers! {
    U8 u8, 0, "uint8";
    I8 i8, 1, "int8";
    U16 u16, 2, "uint16";
    I16 i16, 3, "int16";
    U32 u32, 4, "uint32";
    I32 i32, 5, "int32";
    F32 f32, 6, "float32";
    U64 u64, 10, "uint64";
    I64 i64, 11, "int64";
    F64 f64, 12, "float64";
}

const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

impl GgufArray {
    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements in their order; strings are cloned.
    pub fn iter(&self) -> impl Iterator<Item = GgufValue> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

impl GgufValue {
    /// An integer of any type that is not negative.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            GgufValue::U64(value) => Some(value),
            _ => self.as_i64()?.try_into().ok(),
        }
    }

    /// An integer of any type that is below 2^63.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            GgufValue::U8(value) => Some(value.into()),
            GgufValue::I8(value) => Some(value.into()),
            GgufValue::U16(value) => Some(value.into()),
            GgufValue::I16(value) => Some(value.into()),
            GgufValue::U32(value) => Some(value.into()),
            GgufValue::I32(value) => Some(value.into()),
            GgufValue::U64(value) => value.try_into().ok(),
            GgufValue::I64(value) => Some(value),
            _ => None,
        }
    }

    /// An f32; no f64 is one.
    #[must_use]
    pub fn as_f32(&self) -> Option<f32> {
        if let GgufValue::F32(value) = *self { Some(value) } else { None }
    }

    /// An f64, or an f32.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            GgufValue::F64(value) => Some(value),
            GgufValue::F32(value) => Some(value.into()),
            _ => None,
        }
    }

    /// A bool; no integer is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let GgufValue::Bool(value) = *self { Some(value) } else { None }
    }

    /// The text of a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        if let GgufValue::Str(value) = self { Some(value) } else { None }
    }

    /// An array of any element type.
    #[must_use]
    pub fn as_array(&self) -> Option<&GgufArray> {
        if let GgufValue::Array(value) = self { Some(value) } else { None }
    }

    /// The type and the value that a key has.
    pub(super) fn read(cursor: &mut Cursor, key: &str) -> Result<Self, Refusal> {
        let kind = cursor.u32(&format!("the type of `{key}`"))?;
        let what = format!("the value of `{key}`");
        match kind {
            BOOL => flag(cursor.array::<1>(&what)?[0], key).map(GgufValue::Bool),
            STRING => cursor.text(&what).map(GgufValue::Str),
            ARRAY => array(cursor, key).map(GgufValue::Array),
            _ => number(kind, cursor, &what)?.ok_or_else(|| unknown(key, "value", kind)),
        }
    }
}

fn array(cursor: &mut Cursor, key: &str) -> Result<GgufArray, Refusal> {
    let kind = cursor.u32(&format!("the element type of `{key}`"))?;
    // A string has a length of eight bytes.
    let least = if kind == STRING { 8 } else { 1 };
    let count = cursor.count(least, &format!("elements of `{key}`"))?;
    let what = format!("the array of `{key}`");
    match kind {
        BOOL => {
            let flags = cursor.bytes(count, &what)?.iter().map(|&byte| flag(byte, key));
            flags.collect::<Result<_, _>>().map(GgufArray::Bool)
        }
        STRING => {
            let what = format!("an element of `{key}`");
            (0..count).map(|_| cursor.text(&what)).collect::<Result<_, _>>().map(GgufArray::Str)
        }
        ARRAY => {
            Err(Refusal::Unsupported(format!("`{key}` is an array of arrays, which is not read")))
        }
        _ => numbers(kind, count, cursor, &what)?.ok_or_else(|| unknown(key, "element", kind)),
    }
}

fn flag(byte: u8, key: &str) -> Result<bool, Refusal> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(format!("`{key}` has the bool {byte}; expected 0 or 1").into()),
    }
}

fn unknown(key: &str, what: &str, kind: u32) -> Refusal {
    format!("`{key}` has the unknown {what} type {kind}; expected 0 to 12").into()
}
