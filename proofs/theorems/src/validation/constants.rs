//! Tensors that the text spells.

use relax_syntax::ir::Constant;
use relax_syntax::ir::graph::Literals;

/// What tells a constant from all others, bit for bit.
pub(super) fn key(constant: &Constant) -> String {
    let data = match &constant.data {
        Literals::Int(values) => format!("{values:?}"),
        Literals::Float(values) => {
            let bits: Vec<u64> = values.iter().map(|value| value.to_bits()).collect();
            format!("{bits:x?}")
        }
    };
    format!("const {:?} {} {data}", constant.shape, constant.dtype)
}

/// Whether every element is an integer for which something holds.
pub(super) fn all_integers(constant: &Constant, holds: impl Fn(i128) -> bool) -> bool {
    match &constant.data {
        Literals::Int(values) => values.iter().all(|&value| holds(value)),
        Literals::Float(_) => false,
    }
}
