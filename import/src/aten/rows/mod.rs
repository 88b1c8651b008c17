//! The operators of ATen, by family: how each is composed of those of the language. A row has the name of an operator, for all of
//! its overloads, or of one overload. Operators of `prims`, which PyTorch's passes leave in graphs, have that before their name.

mod attention;
mod binary;
mod conv;
mod conv_gradient;
mod creation;
mod distance;
mod gamma;
mod gradient;
mod image;
mod index;
mod linear;
mod movement;
mod norm;
mod order;
mod pointwise;
mod pool;
mod pool_gradient;
mod reduce;
mod scalar;
mod scatter;

use super::call::Row;
use crate::rows::{Table, find, names};

const FAMILIES: &[Table<Row>] = &[
    attention::ROWS,
    binary::ROWS,
    conv::ROWS,
    conv_gradient::ROWS,
    creation::ROWS,
    distance::ROWS,
    gamma::ROWS,
    gradient::ROWS,
    image::ROWS,
    index::ROWS,
    linear::ROWS,
    movement::ROWS,
    norm::ROWS,
    order::ROWS,
    pointwise::ROWS,
    pool::ROWS,
    pool_gradient::ROWS,
    reduce::ROWS,
    scalar::ROWS,
    scatter::ROWS,
];

pub(super) fn row(op: &str) -> Option<Row> {
    let name = op.strip_prefix("aten.").or_else(|| op.starts_with("prims.").then_some(op))?;
    find(FAMILIES, name).or_else(|| find(FAMILIES, name.rsplit_once('.')?.0))
}

/// The names of all operators that are imported, in order.
#[must_use]
pub fn supported() -> Vec<&'static str> {
    names(FAMILIES)
}
