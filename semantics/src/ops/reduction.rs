//! Reductions and scans.

use super::Operator;

pub(super) static OPERATORS: &[Operator] = &[];
