//! Neural-network functions: activations, normalizations, losses.

use super::Operator;

pub(super) static OPERATORS: &[Operator] = &[];
