//! Linear algebra beyond the matrix product.

use super::Operator;

pub(super) static OPERATORS: &[Operator] = &[];
