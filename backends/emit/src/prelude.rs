//! What every C file begins with: the calling convention, and the operations that C lacks.

/// The parts, in order.
const PARTS: &[&str] = &[
    include_str!("prelude/abi.h"),
    include_str!("prelude/integers.h"),
    include_str!("prelude/rounding.h"),
    include_str!("prelude/floats.h"),
    include_str!("prelude/functions.h"),
    include_str!("prelude/threads.h"),
];
/// Products of matrices.
const PRODUCT: &[&str] = &[
    include_str!("prelude/lanes.h"),
    include_str!("prelude/pack.h"),
    include_str!("prelude/gemm.h"),
];

/// The prelude, with products of matrices where some kernel has one.
pub(crate) fn text(multiplies: bool) -> String {
    let product = if multiplies { PRODUCT } else { &[] };
    PARTS.iter().chain(product).copied().collect::<Vec<_>>().join("\n")
}
