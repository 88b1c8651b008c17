//! Convolution and pooling.

use super::Operator;

pub(super) static OPERATORS: &[Operator] = &[];
