//! Scaled dot-product attention.

use super::Operator;

pub(super) static OPERATORS: &[Operator] = &[];
