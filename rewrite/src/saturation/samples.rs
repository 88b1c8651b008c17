//! Dims at which forms are looked for. They choose among forms; that a form is right, and that one is never dearer
//! than another, is proved.

use super::extract::Values;
use relax_syntax::ir::DimVar;

/// Sizes that stand for small, usual and large.
const SIZES: [i64; 3] = [64, 8, 1024];
/// The most dims of which each is small and large in turn.
const MOST_FREE: usize = 5;
/// Small and large, where forms are told apart.
const APART: [i64; 3] = [2, 64, 2048];

/// Every dim alike: usual, then small, then large.
pub(super) fn alike(dims: &[DimVar]) -> Vec<Values> {
    SIZES.iter().map(|&size| at(dims, &|_| size)).collect()
}

/// Dims small and large independently of each other, the first few of them; the usual ones first.
pub(super) fn apart(dims: &[DimVar]) -> Vec<Values> {
    let free = dims.iter().filter(|dim| dim.in_signature).count().min(MOST_FREE);
    let mut samples = alike(dims);
    let count = APART.len().pow(u32::try_from(free).unwrap_or(0));
    for number in 0..count {
        let digit = |place: usize| {
            let power = APART.len().pow(u32::try_from(place).unwrap_or(0));
            if place < free { APART[number / power % APART.len()] } else { SIZES[0] }
        };
        samples.push(at(dims, &digit));
    }
    samples
}

fn at(dims: &[DimVar], size: &dyn Fn(usize) -> i64) -> Values {
    let value = |(place, dim): (usize, &DimVar)| (dim.name.clone(), fitting(dim, size(place)));
    dims.iter().enumerate().map(value).collect()
}

/// The size that is near and satisfies what is declared.
pub(super) fn fitting(dim: &DimVar, size: i64) -> i64 {
    let step = dim.multiple_of.unwrap_or(1).max(1);
    let (low, high) = (dim.lower.unwrap_or(0).max(0), dim.upper.unwrap_or(i64::MAX));
    let size = size.clamp(low, high.max(low));
    let down = size - size % step;
    if down >= low { down } else { down.saturating_add(step) }
}
