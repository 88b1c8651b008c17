//! Quantization of matrices when a model is compiled: which ones, and to what.

use crate::roles::Role;
use crate::tensors::{BLOCKS, Block, BlockField, Format};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What matrices of f32, f16 and bf16 become when a model is compiled, rounded as the package `gguf` rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantization {
    /// Blocks of 32 elements of 4 bits with a scale.
    Q4_0,
    /// Blocks of 32 elements of 8 bits with a scale.
    Q8_0,
    /// The upper half of an f32, to nearest even.
    Bf16,
}

impl Quantization {
    /// As `--quantize` takes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Q4_0 => "q4_0",
            Self::Q8_0 => "q8_0",
            Self::Bf16 => "bf16",
        }
    }

    fn block(self) -> Option<&'static Block> {
        BLOCKS.iter().find(|block| block.name == self.name())
    }

    /// The format of a matrix after it.
    pub(crate) fn format(self) -> Format {
        self.block().map_or(Format::Bf16, Format::Block)
    }

    /// The fields of a matrix after it; one without a name for bf16.
    pub(crate) fn fields(self) -> &'static [BlockField] {
        const WHOLE: &[BlockField] =
            &[BlockField { name: "", dtype: "bf16", columns: 1, packed: None }];
        self.block().map_or(WHOLE, |block| block.fields)
    }

    /// The function that computes a field of a matrix of a dtype.
    pub(crate) fn function(self, field: &BlockField, dtype: &str) -> String {
        let name = self.name();
        match field.name {
            "" => format!("{name}_of_{dtype}"),
            field => format!("{name}_{field}_of_{dtype}"),
        }
    }

    /// Why a tensor with two dims stays as it is; `None` where it is quantized.
    pub(crate) fn keeps(
        self,
        (role, is_in_by_out): (Role, bool),
        format: &Format,
        columns: usize,
    ) -> Option<String> {
        match format {
            Format::F32 | Format::F16 | Format::Bf16 => {}
            other => return Some(format!("it is {other} already")),
        }
        let elements = self.block().map_or(1, |block| block.elements);
        if *format == self.format() {
            Some(format!("it is {format} already"))
        } else if role == Role::Positions {
            Some("it is a table of positions".to_owned())
        } else if is_in_by_out && role != Role::Embedding && elements > 1 {
            Some("it is stored as (in, out)".to_owned())
        } else if !columns.is_multiple_of(elements) {
            Some(format!("its rows of {columns} elements are no blocks of {elements}"))
        } else {
            None
        }
    }
}

impl fmt::Display for Quantization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text of a model, and what was quantized for it.
#[derive(Clone, Debug)]
pub struct Text {
    /// The program, as `relax fmt` writes it.
    pub text: String,
    /// Matrices that are quantized.
    pub quantized: BTreeSet<String>,
    /// Tensors with two dims that are not, and why.
    pub kept: BTreeMap<String, String>,
    /// Bytes of the weights that each step of decoding reads in whole: those of which it takes
    /// rows, and those of encoders, are not among them.
    pub step_bytes: u64,
}

/// What templates read of it.
#[derive(Serialize)]
pub(crate) struct Values {
    pub(crate) name: &'static str,
    /// The dtypes of the matrices.
    pub(crate) sources: BTreeSet<String>,
}
