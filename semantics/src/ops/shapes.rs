//! Shapes as values.

use super::Operator;

pub(super) static OPERATORS: &[Operator] = &[];
