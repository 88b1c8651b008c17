//! Dims at which forms are looked for. They choose among forms; that a form is right, and that one is never dearer
//! than another, is proved.

use super::extract::Values;
use super::guards::holds;
use crate::guarded::Guard;
use crate::guarded::specialize::admits;
use relax_syntax::dim::Dim;
use relax_syntax::facts::Claim;
use relax_syntax::ir::DimVar;
use std::collections::BTreeSet;

/// Sizes that stand for small, usual and large.
const SIZES: [i64; 3] = [64, 8, 1024];
/// The most dims of which each is small and large in turn.
const MOST_FREE: usize = 5;
/// Small and large, where forms are told apart.
const APART: [i64; 3] = [2, 64, 2048];
/// Between these a size is looked for from which on another form is the best.
pub(super) const ENDS: [i64; 5] = [1, 8, 64, 1024, 16384];

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

/// Every dim alike, and each small and large while the others are usual.
pub(super) fn around(dims: &[DimVar]) -> Vec<Values> {
    let mut samples = alike(dims);
    let free = dims.iter().enumerate().filter(|(_, dim)| dim.in_signature);
    for (place, _) in free.take(MOST_FREE) {
        for other in [APART[0], APART[2]] {
            samples.push(at(dims, &|own| if own == place { other } else { SIZES[0] }));
        }
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

/// Dims near these at which a guard holds, if it does not here, or does not, if it holds here.
pub(super) fn across(dims: &[DimVar], guard: &Guard, values: &Values) -> Option<Values> {
    let inside = !holds(guard, values);
    let mut found = values.clone();
    for claim in guard {
        if claim.holds(&found) == Some(inside) {
            continue;
        }
        found = changed(dims, claim, &found, inside)?;
        if !inside {
            break;
        }
    }
    (holds(guard, &found) == inside).then_some(found)
}

/// The same with one dim changed, so that a claim holds or not.
fn changed(dims: &[DimVar], claim: &Claim, values: &Values, wanted: bool) -> Option<Values> {
    let names = claim.vars();
    let mut near: BTreeSet<i64> =
        names.iter().filter_map(|name| values.get(*name)).copied().collect();
    for side in [&claim.left, &claim.right] {
        if let Dim::Int(value) = side {
            near.extend([*value, value.saturating_mul(17)]);
        }
    }
    let beside =
        near.iter().flat_map(|value| [*value, value.saturating_add(1), value - value.signum()]);
    let tried: BTreeSet<i64> = beside.filter(|value| *value >= 0).collect();
    for name in names {
        let Some(dim) = dims.iter().find(|dim| dim.name == *name) else { continue };
        // The larger ones first: a dim of 0 is the last resort.
        for &value in tried.iter().rev().filter(|value| admits(dim, **value)) {
            let mut found = values.clone();
            found.insert(name.clone(), value);
            if claim.holds(&found) == Some(wanted) {
                return Some(found);
            }
        }
    }
    None
}
