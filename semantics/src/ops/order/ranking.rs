//! The order of elements: NaN after all numbers, whichever way the numbers go.

use std::cmp::Ordering;

/// Which numbers come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops) enum Order {
    /// The least.
    Ascending,
    /// The greatest.
    Descending,
}

impl Order {
    /// Descending if `descending`, as the attribute says.
    pub(super) fn of_attribute(descending: bool) -> Order {
        if descending { Order::Descending } else { Order::Ascending }
    }
}

/// True for what is not equal to itself.
pub(in crate::ops) fn is_nan<T: PartialOrd>(value: &T) -> bool {
    value.partial_cmp(value).is_none()
}

/// Compares two elements; NaNs are equal to each other and come last.
pub(super) fn compare<T: PartialOrd>(a: &T, b: &T, order: Order) -> Ordering {
    match (a.partial_cmp(b), order) {
        (Some(found), Order::Ascending) => found,
        (Some(found), Order::Descending) => found.reverse(),
        (None, _) => is_nan(a).cmp(&is_nan(b)),
    }
}

/// The places of the elements of a lane in their order; equal ones keep theirs.
pub(in crate::ops) fn ranked<T: PartialOrd>(lane: &[T], order: Order) -> Vec<usize> {
    let mut places: Vec<usize> = (0..lane.len()).collect();
    places.sort_by(|&i, &j| compare(&lane[i], &lane[j], order));
    places
}
