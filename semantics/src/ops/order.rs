//! Sorting, searching and sets.

use super::Operator;

pub(super) static OPERATORS: &[Operator] = &[];
