//! What every C file begins with: the calling convention, and the operations that C lacks.

use crate::tiles::{Table, plan_text};

/// The parts, in order.
const PARTS: &[&str] = &[
    include_str!("prelude/abi.h"),
    include_str!("prelude/integers.h"),
    include_str!("prelude/rounding.h"),
    include_str!("prelude/floats.h"),
    include_str!("prelude/functions.h"),
    include_str!("prelude/threads.h"),
];
/// Products of matrices, after the plan of how they are cut.
const PRODUCT: &[&str] = &[
    include_str!("prelude/lanes.h"),
    include_str!("prelude/pack.h"),
    include_str!("prelude/gemm.h"),
    include_str!("prelude/choice.h"),
    include_str!("prelude/product.h"),
];

/// The prelude; with products of matrices where some kernel has one, cut as a table of times says.
pub(crate) fn text(multiplies: bool, table: Option<&Table>) -> String {
    let mut parts: Vec<String> = PARTS.iter().map(|&part| part.to_owned()).collect();
    if multiplies {
        parts.push(plan_text(table));
        parts.extend(PRODUCT.iter().map(|&part| part.to_owned()));
    }
    parts.join("\n")
}
