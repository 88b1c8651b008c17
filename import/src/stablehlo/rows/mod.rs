//! The operations of StableHLO, by family: how each is composed of operators of the language.

mod bits;
mod contraction;
mod control;
mod convolution;
mod creation;
mod elementwise;
mod folded;
mod gather;
mod integer;
mod linalg;
mod movement;
mod order;
mod pattern;
mod reduce;
mod repeat;
mod scatter;
mod slice;
mod window;

use super::call::Row;
use crate::rows::{Table, find, names};

const FAMILIES: &[Table<Row>] = &[
    bits::ROWS,
    contraction::ROWS,
    control::ROWS,
    convolution::ROWS,
    creation::ROWS,
    elementwise::ROWS,
    folded::ROWS,
    gather::ROWS,
    integer::ROWS,
    movement::ROWS,
    order::ROWS,
    reduce::ROWS,
    scatter::ROWS,
    slice::ROWS,
    window::ROWS,
];

/// The row of an operation, `stablehlo.add` or `chlo.erf`.
pub(super) fn row(name: &str) -> Option<Row> {
    let name = name.strip_prefix("stablehlo.").or(name.starts_with("chlo.").then_some(name))?;
    find(FAMILIES, name)
}

/// The row of the target of a `custom_call`.
pub(super) fn custom(target: &str) -> Option<Row> {
    if target.starts_with("stablehlo.dynamic_") {
        return row(target);
    }
    match target {
        "shape_assertion" => Some(super::assertions::assertion),
        "Sharding" | "annotate_device_placement" => Some(elementwise::identity),
        "ApproxTopK" => Some(order::approximate_top_k),
        _ => linalg::row(target),
    }
}

/// The row of a composite that the language has as an operator. Others are what their decomposition is.
pub(super) fn composite(name: &str) -> Option<Row> {
    name.starts_with("chlo.").then(|| row(name)).flatten()
}

/// The names of all operations that are imported, in order.
#[must_use]
pub fn supported() -> Vec<&'static str> {
    names(FAMILIES)
}
