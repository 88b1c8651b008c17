//! Explicit memory and the virtual machine's built-ins.

use super::Operator;

pub(super) static OPERATORS: &[Operator] = &[];
