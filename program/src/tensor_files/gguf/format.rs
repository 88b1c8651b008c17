//! Element formats of GGUF tensors, and the structs of the blocks that quantized ones consist of (ggml's `ggml-common.h`).

use relax_syntax::dtype::DType;
use std::fmt;

/// One member of a block, or the element of an unquantized tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GgufField {
    /// `qs`; empty for an unquantized tensor.
    pub name: &'static str,
    /// Of the elements that the member is seen as; words are little-endian.
    pub dtype: DType,
    /// Elements in a block.
    pub count: usize,
}

impl GgufField {
    /// Bytes in a block.
    #[must_use]
    pub fn size(&self) -> usize {
        self.dtype.size() * self.count
    }
}

/// Defines the formats: id, elements in a block, and the members of a block in their order.
macro_rules! formats {
    ($($format:ident $id:literal $block:literal: $($field:literal $dtype:ident $count:literal),*;)*) => {
        /// A format of elements that is read; names are those of ggml.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(non_camel_case_types)]
        pub enum GgufFormat {
            $(#[doc = concat!("Type ", $id, " of ggml, in blocks of ", $block, " elements.")]
            $format,)*
        }

        impl GgufFormat {
            /// All formats, by their ids in ggml.
            pub const ALL: &'static [Self] = &[$(GgufFormat::$format,)*];

            /// The id in ggml, `enum ggml_type`.
            #[must_use]
            pub fn id(self) -> u32 {
                match self { $(GgufFormat::$format => $id,)* }
            }

            /// The name in ggml, such as `Q4_K`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(GgufFormat::$format => stringify!($format),)* }
            }

            /// Elements in a block; 1 for an unquantized tensor.
            #[must_use]
            pub fn block(self) -> usize {
                match self { $(GgufFormat::$format => $block,)* }
            }

            /// The members of a block, in the order of their bytes; one without a name for an unquantized tensor.
            #[must_use]
            pub fn fields(self) -> &'static [GgufField] {
                match self {
                    $(GgufFormat::$format => {
                        &[$(GgufField { name: $field, dtype: DType::$dtype, count: $count },)*]
                    })*
                }
            }
        }
    };
}

formats! {
    F32 0 1: "" F32 1;
    F16 1 1: "" F16 1;
    Q4_0 2 32: "d" F16 1, "qs" U32 4;
    Q4_1 3 32: "d" F16 1, "m" F16 1, "qs" U32 4;
    Q5_0 6 32: "d" F16 1, "qh" U32 1, "qs" U32 4;
    Q5_1 7 32: "d" F16 1, "m" F16 1, "qh" U32 1, "qs" U32 4;
    Q8_0 8 32: "d" F16 1, "qs" I8 32;
    Q4_K 12 256: "d" F16 1, "dmin" F16 1, "scales" U32 3, "qs" U32 32;
    Q5_K 13 256: "d" F16 1, "dmin" F16 1, "scales" U32 3, "qh" U32 8, "qs" U32 32;
    Q6_K 14 256: "ql" U32 32, "qh" U32 16, "scales" I8 16, "d" F16 1;
    I8 24 1: "" I8 1;
    I16 25 1: "" I16 1;
    I32 26 1: "" I32 1;
    I64 27 1: "" I64 1;
    F64 28 1: "" F64 1;
    BF16 30 1: "" BF16 1;
}

/// Types of ggml that are not read, removed ones included.
const NOT_READ: [(u32, &str); 26] = [
    (4, "Q4_2"),
    (5, "Q4_3"),
    (9, "Q8_1"),
    (10, "Q2_K"),
    (11, "Q3_K"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (29, "IQ1_M"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (36, "IQ4_NL_4_4"),
    (37, "IQ4_NL_4_8"),
    (38, "IQ4_NL_8_8"),
    (39, "MXFP4"),
    (40, "NVFP4"),
    (41, "Q1_0"),
];

impl fmt::Display for GgufFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl GgufFormat {
    /// Bytes of a block.
    #[must_use]
    pub fn block_size(self) -> usize {
        self.fields().iter().map(GgufField::size).sum()
    }

    /// Whether its elements are of a dtype of the language.
    #[must_use]
    pub fn is_plain(self) -> bool {
        self.block() == 1
    }

    /// A field by its name, and the offset of its bytes in a block.
    #[must_use]
    pub fn field(self, name: &str) -> Option<(usize, GgufField)> {
        let mut at = 0;
        for &field in self.fields() {
            if field.name == name {
                return Some((at, field));
            }
            at += field.size();
        }
        None
    }

    /// The format of an id; of others their name, if ggml has one.
    pub(super) fn of_id(id: u32) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|format| format.id() == id);
        known.copied().ok_or_else(|| match NOT_READ.iter().find(|(other, _)| *other == id) {
            Some((_, name)) => format!("the format {name}, which is not read"),
            None => format!("the unknown format {id}"),
        })
    }
}
