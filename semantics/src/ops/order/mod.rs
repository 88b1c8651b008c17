//! Sorting, searching and sets.

mod search;
mod sets;
mod sorting;

pub(super) mod ranking;

use super::Operator;

pub(super) static OPERATORS: &[Operator] = &[
    sorting::SORT,
    sorting::ARGSORT,
    sorting::TOPK,
    sets::UNIQUE,
    search::NONZERO,
    search::BUCKETIZE,
];

#[cfg(test)]
mod tests;
