//! Quantization and dequantization.

use super::Operator;

pub(super) static OPERATORS: &[Operator] = &[];
