//! Bits of integers, and truth values.

use super::super::call::{Call, Row};
use super::elementwise::{applied, scalar};
use crate::builder::V;
use crate::operators::elementwise::convert;
use crate::reason::{Done, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dtype::{Class, DType};

pub(super) const ROWS: &[(&str, Row)] = &[
    ("and", |call| bits(call, "logical_and", "bitwise_and")),
    ("or", |call| bits(call, "logical_or", "bitwise_or")),
    ("xor", |call| bits(call, "logical_xor", "bitwise_xor")),
    ("not", not),
    ("shift_left", |call| shift(call, "left_shift")),
    ("shift_right_arithmetic", |call| shift(call, "right_shift")),
    ("shift_right_logical", shift_right_logical),
];

fn bits(call: &mut Call, of_bools: &'static str, of_integers: &'static str) -> Done<Vec<V>> {
    let (x, y) = call.two()?;
    if call.dtype(x) != DType::Bool {
        return Ok(vec![applied(call, of_integers, x, y)?]);
    }
    // One known side decides, or says nothing.
    let decides = Number::Int(i128::from(of_bools == "logical_or"));
    if of_bools != "logical_xor" {
        for (side, other) in [(x, y), (y, x)] {
            if let Some(known) = call.tensor(side).filter(|known| known.rank() == 0) {
                let result = if known.number(0) == decides { side } else { other };
                return Ok(vec![result]);
            }
        }
    }
    Ok(vec![applied(call, of_bools, x, y)?])
}

fn not(call: &mut Call) -> Done<Vec<V>> {
    let x = call.arg(0)?;
    let operator = if call.dtype(x) == DType::Bool { "logical_not" } else { "bitwise_not" };
    let value = call.call(operator, &[x.into()])?;
    if let Some(claim) = call.walk.claims.get(&x).map(relax_syntax::facts::Claim::opposite) {
        call.walk.claims.insert(value, claim);
    }
    Ok(vec![value])
}

/// A shift by the width or more leaves 0, or copies of the sign.
fn shift(call: &mut Call, operator: &'static str) -> Done<Vec<V>> {
    let (x, by) = call.two()?;
    let dtype = call.dtype(x);
    if !dtype.is_integer() {
        return unsupported(format!("a shift of {dtype}"));
    }
    let width = 8 * dtype.size() as i64;
    let known = call.tensor(by);
    let is_inside = known.is_some_and(|known| {
        known.to_ints().iter().all(|&value| (0..i128::from(width)).contains(&value))
    });
    if is_inside {
        return Ok(vec![applied(call, operator, x, by)?]);
    }
    let (zero, last) = (scalar(call, x, 0), scalar(call, x, width - 1));
    let low = call.call("less", &[by.into(), zero.clone()])?;
    let high = call.call("greater", &[by.into(), last.clone()])?;
    let outside = call.call("logical_or", &[low.into(), high.into()])?;
    let most = if operator == "right_shift" { last } else { zero.clone() };
    let safe = call.call("where", &[outside.into(), most, by.into()])?;
    let shifted = call.call(operator, &[x.into(), safe.into()])?;
    if operator == "right_shift" && dtype.class() == Class::Signed {
        return Ok(vec![shifted]);
    }
    Ok(vec![call.call("where", &[outside.into(), zero, shifted.into()])?])
}

/// Of a signed integer the shift of the same bits without a sign.
fn shift_right_logical(call: &mut Call) -> Done<Vec<V>> {
    let (x, by) = call.two()?;
    let signed = call.dtype(x);
    let unsigned = match signed {
        DType::I8 => DType::U8,
        DType::I16 => DType::U16,
        DType::I32 => DType::U32,
        DType::I64 => DType::U64,
        other => other,
    };
    call.args = vec![convert(call, x, unsigned)?, convert(call, by, unsigned)?];
    let shifted = shift(call, "right_shift")?[0];
    Ok(vec![convert(call, shifted, signed)?])
}
