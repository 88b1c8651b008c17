//! Elementwise functions of one tensor.

use super::Operator;

pub(super) static OPERATORS: &[Operator] = &[];
