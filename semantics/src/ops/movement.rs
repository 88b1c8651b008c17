//! Views and movement of elements.

use super::Operator;

pub(super) static OPERATORS: &[Operator] = &[];
