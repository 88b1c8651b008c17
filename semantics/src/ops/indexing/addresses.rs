//! From the elements of index tensors to positions in row-major order.

use crate::ops::{Eval, Infer, Reject};
use crate::stop::Stop;
use relax_syntax::dtype::DType;

/// What a negative index means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Negative {
    /// It is out of range.
    Refused,
    /// It counts from the end.
    FromEnd,
}

/// Demands that the dtype of index tensors is an integer one.
pub(super) fn require_indices(infer: &Infer, param: &'static str) -> Result<(), Reject> {
    infer.require_dtype("C1", param, DType::is_integer)
}

/// An index as a position in an axis of extent `n`; a trap under `constraint` when it is out of
/// range.
pub(super) fn resolve(
    eval: &Eval,
    constraint: &'static str,
    index: i128,
    n: usize,
    negative: Negative,
) -> Result<usize, Stop> {
    let extent = n as i128;
    let shifted = if index < 0 && negative == Negative::FromEnd { index + extent } else { index };
    let inside = (0..extent).contains(&shifted).then(|| usize::try_from(shifted).ok()).flatten();
    inside.ok_or_else(|| {
        let range = match negative {
            Negative::Refused => format!("0 <= index < {n}"),
            Negative::FromEnd => format!("-{n} <= index < {n}"),
        };
        eval.trap(constraint, format!("an index must satisfy {range}, found {index}"))
    })
}

/// Each base followed by the `inner - 1` positions after it.
pub(super) fn with_inner(bases: &[usize], inner: usize) -> Vec<usize> {
    bases.iter().flat_map(|&base| base..base + inner).collect()
}
