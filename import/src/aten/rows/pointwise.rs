//! Operators on one tensor, element by element.

use super::binary::broadcast;
use crate::argument::key;
use crate::aten::call::{Call, Row};
use crate::builder::V;
use crate::operators::activation::{exp_minus_one, like, log_plus_one, scaled};
use crate::operators::elementwise::convert;
use crate::reason::{Done, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dtype::DType;

macro_rules! floats {
    ($($name:literal => $operator:literal),* ; $($rest:tt)*) => {
        &[$(($name, |call: &mut Call| of_floats(call, $operator))),*, $($rest)*]
    };
}

pub(super) const ROWS: &[(&str, Row)] = floats! {
    "acos" => "acos", "acosh" => "acosh", "asin" => "asin", "asinh" => "asinh", "atan" => "atan",
    "atanh" => "atanh", "cos" => "cos", "cosh" => "cosh", "erf" => "erf", "exp" => "exp", "log" => "log",
    "rsqrt" => "rsqrt", "sigmoid" => "sigmoid", "sin" => "sin", "sinh" => "sinh", "sqrt" => "sqrt",
    "tan" => "tan", "tanh" => "tanh";
    ("abs", |call| of_numbers(call, "abs")),
    ("ceil", |call| whole(call, "ceil")),
    ("floor", |call| whole(call, "floor")),
    ("trunc", |call| whole(call, "trunc")),
    ("round.default", |call| whole(call, "round")),
    ("neg", |call| of_numbers(call, "negative")),
    ("sign", sign),
    ("relu", relu),
    ("logical_not", |call| same(call, "logical_not")),
    ("bitwise_not", |call| same(call, "bitwise_not")),
    ("isnan", |call| class(call, "isnan")),
    ("isinf", |call| class(call, "isinf")),
    ("reciprocal", reciprocal),
    ("exp2", exp2),
    ("expm1", expm1),
    ("log1p", log1p),
    ("log2", |call| logarithm(call, std::f64::consts::LN_2)),
    ("log10", |call| logarithm(call, std::f64::consts::LN_10)),
    ("gelu", gelu),
    ("silu", |call| same(call, "silu")),
    ("leaky_relu", leaky_relu),
    ("elu", elu),
    ("hardtanh", |call| limited(call, "min_val", "max_val", "self")),
    ("clamp", |call| limited(call, "min", "max", "min")),
    ("_to_copy", to_copy),
    ("prims.convert_element_type", |call| converted(call, "a")),
    ("to.device", to_copy),
    ("to.dtype", to_copy),
    ("to.dtype_layout", to_copy),
    ("dropout", plain_dropout),
    ("clone", identity),
    ("alias", identity),
    ("detach", identity),
    ("lift_fresh_copy", identity),
    ("contiguous", identity),
    ("native_dropout", dropout),
    ("where.self", where_),
};

fn same(call: &mut Call, operator: &str) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    Ok(vec![call.call(operator, &[x.into()])?])
}

fn of_floats(call: &mut Call, operator: &str) -> Done<Vec<V>> {
    let x = call.floating("self")?;
    Ok(vec![call.call(operator, &[x.into()])?])
}

fn of_numbers(call: &mut Call, operator: &str) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    if call.dtype(x) == DType::Bool {
        return unsupported("a tensor of bools");
    }
    same(call, operator)
}

fn whole(call: &mut Call, operator: &str) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    if call.dtype(x).is_float() { same(call, operator) } else { Ok(vec![x]) }
}

fn sign(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    match call.dtype(x) {
        DType::Bool => Ok(vec![x]),
        dtype if dtype.is_float() => {
            // PyTorch gives 0 for NaN.
            let sign = call.call("sign", &[x.into()])?;
            let unknown = call.call("isnan", &[x.into()])?;
            let zero = call.of_number(Number::Int(0), dtype);
            Ok(vec![call.call("where", &[unknown.into(), zero.into(), sign.into()])?])
        }
        _ => same(call, "sign"),
    }
}

fn relu(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    if call.dtype(x) == DType::Bool {
        return unsupported("a tensor of bools");
    }
    same(call, "relu")
}

fn class(call: &mut Call, operator: &str) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    if call.dtype(x).is_float() {
        return same(call, operator);
    }
    Ok(vec![call.call("zeros_like", &[x.into(), DType::Bool.into()])?])
}

fn reciprocal(call: &mut Call) -> Done<Vec<V>> {
    let x = call.floating("self")?;
    let one = like(call, x, 1.0);
    Ok(vec![call.call("divide", &[one, x.into()])?])
}

fn exp2(call: &mut Call) -> Done<Vec<V>> {
    let x = call.floating("self")?;
    let two = like(call, x, 2.0);
    Ok(vec![call.call("power", &[two, x.into()])?])
}

fn expm1(call: &mut Call) -> Done<Vec<V>> {
    let x = call.floating("self")?;
    Ok(vec![exp_minus_one(call, x)?])
}

fn log1p(call: &mut Call) -> Done<Vec<V>> {
    let x = call.floating("self")?;
    Ok(vec![log_plus_one(call, x)?])
}

/// Of an infinite x the logarithm is infinite too.
fn logarithm(call: &mut Call, base: f64) -> Done<Vec<V>> {
    let x = call.floating("self")?;
    let dtype = call.dtype(x);
    let wide = convert(call, x, DType::F64)?;
    let log = call.call("log", &[wide.into()])?;
    let base = like(call, log, base);
    let log = call.call("divide", &[log.into(), base])?;
    Ok(vec![convert(call, log, dtype)?])
}

fn gelu(call: &mut Call) -> Done<Vec<V>> {
    match call.string("approximate")?.as_str() {
        "none" => same(call, "gelu"),
        "tanh" => same(call, "gelu_tanh"),
        other => unsupported(format!("approximate = {other:?}")),
    }
}

fn leaky_relu(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let slope = call.float("negative_slope")?;
    Ok(vec![call.call("leakyrelu", &[x.into(), key("alpha", slope)])?])
}

/// `scale * x` above 0, else `scale * alpha * (exp(x * input_scale) - 1)`
fn elu(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let (alpha, scale) = (call.float("alpha")?, call.float("scale")?);
    let factor = call.float("input_scale")?;
    let input = scaled(call, x, factor)?;
    let low = exp_minus_one(call, input)?;
    let low = scaled(call, low, alpha * scale)?;
    let high = scaled(call, x, scale)?;
    let zero = like(call, x, 0.0);
    let above = call.call("greater", &[x.into(), zero])?;
    Ok(vec![call.call("where", &[above.into(), high.into(), low.into()])?])
}

/// `min(max(x, low), high)`, of which the upper bound wins. NaN among x or the bounds stays.
fn limited(call: &mut Call, low: &str, high: &str, first: &str) -> Done<Vec<V>> {
    let names: &[&str] = if first == "self" { &["self"] } else { &["self", low, high] };
    let dtype = call.promoted(names)?;
    let operators = match dtype {
        DType::Bool => ["logical_or", "logical_and"],
        _ => ["maximum", "minimum"],
    };
    let mut x = call.operand("self", dtype)?;
    for (name, operator) in [low, high].into_iter().zip(operators) {
        if call.has(name) {
            let limit = call.operand(name, dtype)?;
            x = broadcast(call, operator, x, limit)?;
        }
    }
    Ok(vec![x])
}

fn to_copy(call: &mut Call) -> Done<Vec<V>> {
    converted(call, "self")
}

fn converted(call: &mut Call, name: &str) -> Done<Vec<V>> {
    let x = call.tensor(name)?;
    let dtype = call.dtype_of("dtype")?.unwrap_or(call.dtype(x));
    Ok(vec![convert(call, x, dtype)?])
}

fn identity(call: &mut Call) -> Done<Vec<V>> {
    Ok(vec![call.tensor("self")?])
}

fn plain_dropout(call: &mut Call) -> Done<Vec<V>> {
    dropout(call).map(|results| results[..1].to_vec())
}

fn dropout(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("input")?;
    if call.has("train") && !call.bool("train")? || call.float("p")? == 0.0 {
        let mask = call.call("ones_like", &[x.into(), DType::Bool.into()])?;
        return Ok(vec![x, mask]);
    }
    unsupported("dropout in training, which is random: export the model after `model.eval()`")
}

fn where_(call: &mut Call) -> Done<Vec<V>> {
    let condition = call.tensor("condition")?;
    let condition = convert(call, condition, DType::Bool)?;
    let dtype = call.promoted(&["self", "other"])?;
    let (x, y) = (call.operand("self", dtype)?, call.operand("other", dtype)?);
    let args = [condition, x, y];
    Ok(vec![crate::operators::arithmetic::broadcast_call(call, "where", &args)?])
}
