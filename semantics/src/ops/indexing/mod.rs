//! Indexing: slices, gathers, scatters, grids.

mod addresses;
mod advanced;
mod extent;
mod gather;
mod grid;
mod one_hot;
mod scatter;
mod slice;
mod slice_scatter;
mod take;
mod update;

use super::Operator;

pub(super) static OPERATORS: &[Operator] = &[
    take::TAKE,
    slice::STRIDED_SLICE,
    slice::DYNAMIC_STRIDED_SLICE,
    gather::GATHER_ELEMENTS,
    gather::GATHER_ND,
    scatter::SCATTER_ELEMENTS,
    scatter::SCATTER_ND,
    slice_scatter::SLICE_SCATTER,
    one_hot::ONE_HOT,
    advanced::INDEX_TENSOR,
    advanced::INDEX_PUT,
    grid::MESHGRID,
];

#[cfg(test)]
mod tests;
