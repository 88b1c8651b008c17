//! Elementwise functions of two tensors, with implicit broadcast.

use super::Operator;

pub(super) static OPERATORS: &[Operator] = &[];
