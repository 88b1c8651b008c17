//! Tensors that the text spells.

use crate::denotation::program::{float, integer};
use crate::denotation::term::{Domain, Term};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
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

/// The number that an element is: where all are the same, or the indices are numbers.
pub(super) fn element(constant: &Constant, at: &[Dim]) -> Option<Term> {
    let same = match &constant.data {
        Literals::Int(values) => values.iter().all(|value| *value == values[0]),
        Literals::Float(values) => {
            values.iter().all(|value| value.to_bits() == values[0].to_bits())
        }
    };
    number(constant, if same { 0 } else { place(constant, at)? })
}

/// The place of an element in row-major order.
fn place(constant: &Constant, at: &[Dim]) -> Option<usize> {
    let mut place = 0_usize;
    for (index, &extent) in at.iter().zip(&constant.shape) {
        let index = usize::try_from(index.as_int()?).ok().filter(|&index| index < extent)?;
        place = place.checked_mul(extent)?.checked_add(index)?;
    }
    (at.len() == constant.shape.len()).then_some(place)
}

fn number(constant: &Constant, place: usize) -> Option<Term> {
    Some(match &constant.data {
        Literals::Int(values) if constant.dtype == DType::Bool => {
            Term::Number(Domain::Bits, f64::from(u8::from(*values.get(place)? != 0)))
        }
        Literals::Int(values) => {
            // As exact as f64 tells.
            let small = |value: &i64| value.unsigned_abs() < 1 << 50;
            integer(i64::try_from(*values.get(place)?).ok().filter(small)?, constant.dtype)
        }
        Literals::Float(values) => float(*values.get(place)?, constant.dtype),
    })
}
