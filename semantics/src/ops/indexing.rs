//! Reading and writing by index.

use super::Operator;

pub(super) static OPERATORS: &[Operator] = &[];
