//! What may stop a program, and which operators do so for what elements are.

use super::values::{Applied, Call};
use relax_semantics::ops::Operator;
use relax_syntax::dtype::DType;
use relax_syntax::facts::Claim;
use std::sync::Arc;

/// One way to stop.
#[derive(Clone)]
pub(super) enum Stop {
    /// Unless this holds.
    Claim(Claim),
    /// A tensor program, for what elements or dims are.
    Program(String, Arc<Call>),
    /// An operator, for what elements are.
    Operator(String, Arc<Applied>),
    /// Something else, told by what it is asked of.
    Opaque(String),
}

impl Stop {
    /// What tells it from others.
    pub(super) fn key(&self) -> String {
        match self {
            Stop::Claim(claim) => claim.to_string(),
            Stop::Program(key, _) | Stop::Operator(key, _) | Stop::Opaque(key) => key.clone(),
        }
    }
}

impl Stop {
    /// What must hold for the program to go on.
    pub(super) fn claim(&self) -> Option<&Claim> {
        match self {
            Stop::Claim(claim) => Some(claim),
            _ => None,
        }
    }
}

impl PartialEq for Stop {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other) && self.key() == other.key()
    }
}

/// Rows of total families that look at elements to decide whether they have a value.
const BY_ELEMENTS: [&str; 2] = ["nn.nll_loss", "tensor_to_shape"];

/// Rows of other families that never stop for what elements are.
const TOTAL: [&str; 10] = [
    "one_hot",
    "bucketize",
    "sort",
    "argsort",
    "topk",
    "slice_scatter",
    "strided_slice",
    "quantize",
    "dequantize",
    "memory.view",
];

/// Whether a call whose constraints hold always gives a value.
pub(super) fn is_total(row: &Operator, dtype: Option<DType>) -> bool {
    if TOTAL.contains(&row.name) {
        return true;
    }
    row.is_of_total_family()
        && !BY_ELEMENTS.contains(&row.name)
        && (!row.is_partial_on_integers() || dtype.is_some_and(DType::is_float))
}
