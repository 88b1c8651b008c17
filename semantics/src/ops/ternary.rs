//! Elementwise functions of three tensors.

use super::Operator;

pub(super) static OPERATORS: &[Operator] = &[];
