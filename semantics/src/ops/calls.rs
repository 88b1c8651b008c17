//! Calls across levels, closures, and effects.

use super::Operator;

pub(super) static OPERATORS: &[Operator] = &[];
