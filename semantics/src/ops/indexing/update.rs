//! Writing elements into a copy of a tensor, one after the other.

use super::super::reduction::{greater, lesser};
use crate::tensor::{Elements, Tensor, array};

/// What a written element does with the one that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reduction {
    /// Replaces it.
    Update,
    /// Is added to it.
    Add,
    /// Is multiplied with it.
    Mul,
    /// Half of the sum of both.
    Mean,
    /// The greater stays; NaN if one is.
    Max,
    /// The lesser stays; NaN if one is.
    Min,
}

impl Reduction {
    pub(super) fn parse(name: &str) -> Option<Reduction> {
        Some(match name {
            "update" => Reduction::Update,
            "add" => Reduction::Add,
            "mul" => Reduction::Mul,
            "mean" => Reduction::Mean,
            "max" => Reduction::Max,
            "min" => Reduction::Min,
            _ => return None,
        })
    }

    fn floats(self, there: f64, new: f64) -> f64 {
        match self {
            Reduction::Update => new,
            Reduction::Add => there + new,
            Reduction::Mul => there * new,
            Reduction::Mean => (there + new) / 2.0,
            Reduction::Max => greater(there, new),
            Reduction::Min => lesser(there, new),
        }
    }

    fn ints(self, there: i128, new: i128) -> i128 {
        match self {
            Reduction::Update => new,
            Reduction::Add => there.wrapping_add(new),
            Reduction::Mul => there.wrapping_mul(new),
            Reduction::Mean => (there + new) / 2,
            Reduction::Max => there.max(new),
            Reduction::Min => there.min(new),
        }
    }
}

/// `data` after element `i` of `updates` (of the same dtype) has been written at `positions[i]`, in
/// this order. Rounded or wrapped once, at the end.
pub(super) fn update(
    data: &Tensor,
    positions: &[usize],
    updates: &Tensor,
    reduction: Reduction,
) -> Tensor {
    let shape = data.shape();
    let elements = match (data.elements(), updates.elements()) {
        (Elements::Int(there), Elements::Int(new)) => {
            let mut result: Vec<i128> = there.into_iter().collect();
            for (&at, &new) in positions.iter().zip(&new) {
                result[at] = reduction.ints(result[at], new);
            }
            Elements::Int(array(shape, result))
        }
        _ => {
            let mut result: Vec<f64> = data.to_floats().into_iter().collect();
            for (&at, &new) in positions.iter().zip(&updates.to_floats()) {
                result[at] = reduction.floats(result[at], new);
            }
            Elements::Float(array(shape, result))
        }
    };
    let result = Tensor::from_elements(data.dtype(), elements);
    result.with_undefined(undefined_after(data, positions, updates))
}

/// Which elements nothing has written afterwards (empty: none); only a replaced one can change.
fn undefined_after(data: &Tensor, positions: &[usize], updates: &Tensor) -> Vec<bool> {
    let (before, new) = (data.undefined_elements(), updates.undefined_elements());
    if before.is_none() && new.is_none() {
        return Vec::new();
    }
    let mut mask = before.map_or_else(|| vec![false; data.len()], <[bool]>::to_vec);
    for (index, &at) in positions.iter().enumerate() {
        mask[at] = new.is_some_and(|new| new[index]);
    }
    mask
}
