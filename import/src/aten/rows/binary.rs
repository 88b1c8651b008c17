//! Operators on two tensors, or a tensor and a number of Python, element by element.

use crate::aten::call::{Argument, Call, Row};
use crate::aten::promote::DEFAULT;
use crate::builder::V;
use crate::operators::arithmetic::pair;
use crate::operators::elementwise::convert;
use crate::reason::{Done, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[
    ("add", |call| sum(call, "add", "self", "other")),
    ("sub", |call| sum(call, "subtract", "self", "other")),
    ("rsub", |call| sum(call, "subtract", "other", "self")),
    ("mul", multiply),
    ("div", divide),
    ("true_divide", divide),
    ("fmod", |call| remainder(call, "mod")),
    ("remainder", |call| remainder(call, "floor_mod")),
    ("pow", power),
    ("atan2", atan2),
    ("maximum", |call| extreme(call, "maximum", "logical_or")),
    ("minimum", |call| extreme(call, "minimum", "logical_and")),
    ("eq", |call| compared(call, "equal")),
    ("ne", |call| compared(call, "not_equal")),
    ("lt", |call| compared(call, "less")),
    ("le", |call| compared(call, "less_equal")),
    ("gt", |call| compared(call, "greater")),
    ("ge", |call| compared(call, "greater_equal")),
    ("logical_and", |call| logical(call, "logical_and")),
    ("logical_or", |call| logical(call, "logical_or")),
    ("logical_xor", |call| logical(call, "logical_xor")),
    ("__and__", |call| bits(call, "bitwise_and")),
    ("bitwise_and", |call| bits(call, "bitwise_and")),
    ("__or__", |call| bits(call, "bitwise_or")),
    ("bitwise_or", |call| bits(call, "bitwise_or")),
    ("__xor__", |call| bits(call, "bitwise_xor")),
    ("bitwise_xor", |call| bits(call, "bitwise_xor")),
];

/// The name of the second operand, which some overloads call otherwise.
const OTHER: &str = "other";

pub(super) fn broadcast(call: &mut Call, operator: &str, x: V, y: V) -> Done<V> {
    pair(call, operator, x, y)
}

fn operands(call: &mut Call, first: &str, second: &str, dtype: DType) -> Done<(V, V)> {
    Ok((call.operand(first, dtype)?, call.operand(second, dtype)?))
}

/// `first + alpha * second`; of bools whether either is true.
fn sum(call: &mut Call, operator: &str, first: &str, second: &str) -> Done<Vec<V>> {
    let dtype = call.promoted(&["self", OTHER])?;
    let (x, mut y) = operands(call, first, second, dtype)?;
    let alpha = if call.has("alpha") { call.number("alpha")? } else { Number::Int(1) };
    if dtype == DType::Bool {
        if operator != "add" || alpha != Number::Int(1) {
            return unsupported("a difference or a multiple of bools");
        }
        return Ok(vec![broadcast(call, "logical_or", x, y)?]);
    }
    if !matches!(alpha, Number::Int(1)) && alpha != Number::Float(1.0) {
        let by = call.of_number(alpha, dtype);
        y = broadcast(call, "multiply", y, by)?;
    }
    Ok(vec![broadcast(call, operator, x, y)?])
}

fn multiply(call: &mut Call) -> Done<Vec<V>> {
    let dtype = call.promoted(&["self", OTHER])?;
    let (x, y) = operands(call, "self", OTHER, dtype)?;
    let operator = if dtype == DType::Bool { "logical_and" } else { "multiply" };
    Ok(vec![broadcast(call, operator, x, y)?])
}

/// Without a rounding mode integers are divided as floats.
fn divide(call: &mut Call) -> Done<Vec<V>> {
    let mode =
        if call.has("rounding_mode") { call.string("rounding_mode")? } else { String::new() };
    let mut dtype = call.promoted(&["self", OTHER])?;
    if mode.is_empty() && !dtype.is_float() {
        dtype = DEFAULT;
    }
    if dtype == DType::Bool {
        return unsupported("a rounded quotient of bools");
    }
    let (x, y) = operands(call, "self", OTHER, dtype)?;
    let quotient = match mode.as_str() {
        "" => broadcast(call, "divide", x, y)?,
        "floor" => broadcast(call, "floor_divide", x, y)?,
        "trunc" => {
            let quotient = broadcast(call, "divide", x, y)?;
            if dtype.is_float() { call.call("trunc", &[quotient.into()])? } else { quotient }
        }
        other => return unsupported(format!("rounding_mode = {other:?}")),
    };
    Ok(vec![quotient])
}

fn remainder(call: &mut Call, operator: &str) -> Done<Vec<V>> {
    let dtype = call.promoted(&["self", OTHER])?;
    if dtype == DType::Bool {
        return unsupported("bools");
    }
    let (x, y) = operands(call, "self", OTHER, dtype)?;
    Ok(vec![broadcast(call, operator, x, y)?])
}

fn power(call: &mut Call) -> Done<Vec<V>> {
    let dtype = call.promoted(&["self", "exponent"])?;
    if dtype == DType::Bool {
        return unsupported("bools");
    }
    let (x, y) = operands(call, "self", "exponent", dtype)?;
    let is_number = !matches!(call.argument("exponent"), Argument::Tensor(_));
    if dtype.is_float() || is_number {
        return Ok(vec![broadcast(call, "power", x, y)?]);
    }
    // An integer to a negative power is 0, but for 1 and -1.
    let zero = call.of_number(Number::Int(0), dtype);
    let one = call.of_number(Number::Int(1), dtype);
    let two = call.of_number(Number::Int(2), dtype);
    let negative = broadcast(call, "less", y, zero)?;
    let odd = broadcast(call, "floor_mod", y, two)?;
    let bounded = broadcast(call, "maximum", y, zero)?;
    let exponent = call.call("where", &[negative.into(), odd.into(), bounded.into()])?;
    let powers = broadcast(call, "power", x, exponent)?;
    let size = call.call("abs", &[x.into()])?;
    let is_unit = broadcast(call, "equal", size, one)?;
    let is_other = call.call("logical_not", &[is_unit.into()])?;
    let vanishes = broadcast(call, "logical_and", negative, is_other)?;
    let args = [vanishes, zero, powers];
    Ok(vec![crate::operators::arithmetic::broadcast_call(call, "where", &args)?])
}

fn atan2(call: &mut Call) -> Done<Vec<V>> {
    let mut dtype = call.promoted(&["self", OTHER])?;
    if !dtype.is_float() {
        dtype = DEFAULT;
    }
    let (x, y) = operands(call, "self", OTHER, dtype)?;
    Ok(vec![broadcast(call, "atan2", x, y)?])
}

fn extreme(call: &mut Call, operator: &str, of_bools: &str) -> Done<Vec<V>> {
    let dtype = call.promoted(&["self", OTHER])?;
    let (x, y) = operands(call, "self", OTHER, dtype)?;
    let operator = if dtype == DType::Bool { of_bools } else { operator };
    Ok(vec![broadcast(call, operator, x, y)?])
}

fn compared(call: &mut Call, operator: &str) -> Done<Vec<V>> {
    let dtype = call.promoted(&["self", OTHER])?;
    let (x, y) = operands(call, "self", OTHER, dtype)?;
    Ok(vec![broadcast(call, operator, x, y)?])
}

fn logical(call: &mut Call, operator: &str) -> Done<Vec<V>> {
    let (x, y) = (call.tensor("self")?, call.tensor(OTHER)?);
    let (x, y) = (convert(call, x, DType::Bool)?, convert(call, y, DType::Bool)?);
    Ok(vec![broadcast(call, operator, x, y)?])
}

fn bits(call: &mut Call, operator: &str) -> Done<Vec<V>> {
    let dtype = call.promoted(&["self", OTHER])?;
    let (x, y) = operands(call, "self", OTHER, dtype)?;
    Ok(vec![broadcast(call, operator, x, y)?])
}
