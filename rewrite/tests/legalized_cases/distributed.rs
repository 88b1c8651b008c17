//! Collectives in a single process.

use super::{ALL, Case, FLOATS, NUMBERS, SMALL, case};

pub(super) const CASES: &[Case] = &[
    case("allgather", "x: Tensor((\"n\", \"m\"), DT)", "allgather(x, 3)", ALL),
    case("allgather", "x: Tensor((\"n\",), DT)", "allgather(x, 1)", ALL),
    case("scatter_from_worker0", "x: Tensor((6, \"m\"), DT)", "scatter_from_worker0(x, 3)", ALL),
    case(
        "scatter_from_worker0",
        "x: Tensor((\"n\", 8), DT)",
        "scatter_from_worker0(x, 2, axis=-1)",
        ALL,
    ),
    case("all_to_all", "x: Tensor((6, \"m\"), DT)", "all_to_all(x, 3)", ALL),
    case(
        "all_to_all",
        "x: Tensor((\"n\", 8), DT)",
        "all_to_all(x, 4, split_axis=1, concat_axis=0)",
        ALL,
    ),
    case("reduce_scatter", "x: Tensor((6, \"m\"), DT)", "reduce_scatter(x, 3, \"sum\")", ALL),
    case("reduce_scatter", "x: Tensor((6, \"m\"), DT)", "reduce_scatter(x, 3, \"prod\")", ALL),
    case("reduce_scatter", "x: Tensor((6, \"m\"), DT)", "reduce_scatter(x, 2, \"avg\")", ALL),
    case("reduce_scatter", "x: Tensor((\"n\",), DT)", "reduce_scatter(x, 1, \"prod\")", NUMBERS),
    // More workers than an i8 counts, and than an f16 tells apart.
    case(
        "reduce_scatter",
        "x: Tensor((2, 2049), DT)",
        "reduce_scatter(x, 2049, \"sum\", axis=1)",
        FLOATS,
    ),
    case(
        "reduce_scatter",
        "x: Tensor((2, 300), DT)",
        "reduce_scatter(x, 300, \"prod\", axis=1)",
        SMALL,
    ),
];
