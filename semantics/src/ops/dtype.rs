//! Conversion between dtypes.

use super::Operator;

pub(super) static OPERATORS: &[Operator] = &[];
