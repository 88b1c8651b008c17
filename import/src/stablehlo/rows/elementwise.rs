//! Operations element by element, comparisons and conversions. On scalars that are dims they compute dims.

use super::super::call::{Call, Row};
use super::super::syntax::Attribute;
use crate::argument::Arg;
use crate::builder::V;
use crate::operators::activation::{exp_minus_one, like, log_plus_one};
use crate::operators::arithmetic::{broadcast_call, pair};
use crate::operators::elementwise::convert;
use crate::reason::{Done, invalid, unsupported};
use relax_semantics::tensor::{Number, Tensor};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};

macro_rules! unary {
    ($($name:literal => $operator:literal),* ; $($rest:tt)*) => {
        &[$(($name, |call: &mut Call| one(call, $operator))),*, $($rest)*]
    };
}

pub(super) const ROWS: &[(&str, Row)] = unary! {
    "abs" => "abs", "ceil" => "ceil", "cosine" => "cos", "exponential" => "exp", "floor" => "floor",
    "is_finite" => "isfinite", "log" => "log", "logistic" => "sigmoid", "negate" => "negative",
    "round_nearest_even" => "round", "rsqrt" => "rsqrt", "sine" => "sin", "sqrt" => "sqrt", "tan" => "tan",
    "tanh" => "tanh", "chlo.acos" => "acos", "chlo.acosh" => "acosh", "chlo.asin" => "asin",
    "chlo.asinh" => "asinh", "chlo.atan" => "atan", "chlo.atanh" => "atanh", "chlo.cosh" => "cosh",
    "chlo.erf" => "erf", "chlo.sinh" => "sinh", "chlo.square" => "square", "chlo.tan" => "tan";
    ("sign", sign),
    ("exponential_minus_one", |call| {
        let x = call.arg(0)?;
        Ok(vec![exp_minus_one(call, x)?])
    }),
    ("log_plus_one", |call| {
        let x = call.arg(0)?;
        Ok(vec![log_plus_one(call, x)?])
    }),
    ("cbrt", cube_root),
    ("round_nearest_afz", round_from_zero),
    ("add", |call| two(call, "add", "logical_or")),
    ("subtract", |call| two(call, "subtract", "logical_xor")),
    ("multiply", |call| two(call, "multiply", "logical_and")),
    ("divide", |call| two(call, "divide", "")),
    ("remainder", |call| two(call, "mod", "")),
    ("maximum", |call| two(call, "maximum", "logical_or")),
    ("minimum", |call| two(call, "minimum", "logical_and")),
    ("power", |call| two(call, "power", "")),
    ("atan2", |call| two(call, "atan2", "")),
    ("compare", compare),
    ("select", select),
    ("clamp", clamp),
    ("convert", |call| {
        let (_, dtype) = call.result(0)?;
        let x = call.arg(0)?;
        let value = convert(call, x, dtype)?;
        follow_source(call, x, value, |call, source| convert(call, source, dtype))?;
        Ok(vec![value])
    }),
    ("optimization_barrier", identity),
    ("reduce_precision", reduce_precision),
    ("get_dimension_size", |call| {
        let x = call.arg(0)?;
        let axis = call.axis(&["dim", "dimension"], call.rank(x))?;
        let dim = call.dims(x)[axis].clone();
        Ok(vec![call.integers(vec![dim], 0, DType::I32)])
    }),
};

pub(super) fn identity(call: &mut Call) -> Done<Vec<V>> {
    Ok(call.args.clone())
}

/// What is computed of a broadcast is also the broadcast of what is computed of its source.
fn follow_source(
    call: &mut Call,
    x: V,
    value: V,
    compute: impl FnOnce(&mut Call, V) -> Done<V>,
) -> Done<()> {
    if let Some(&source) = call.walk.sources.get(&x) {
        let source = compute(call, source)?;
        call.walk.sources.insert(value, source);
    }
    Ok(())
}

fn one(call: &mut Call, operator: &'static str) -> Done<Vec<V>> {
    let x = call.arg(0)?;
    let is_dim = call.elements(x).is_some() && call.tensor(x).is_none();
    if operator == "negative" && is_dim {
        let dtype = call.dtype(x);
        let zero = call.integers(vec![Dim::Int(0)], 0, dtype);
        return Ok(vec![pair(call, "subtract", zero, x)?]);
    }
    let value = call.call(operator, &[x.into()])?;
    follow_source(call, x, value, |call, source| call.call(operator, &[source.into()]))?;
    Ok(vec![value])
}

fn sign(call: &mut Call) -> Done<Vec<V>> {
    let x = call.arg(0)?;
    if let (Some([dim]), None, 0) = (call.elements(x).as_deref(), call.tensor(x), call.rank(x)) {
        let dtype = call.dtype(x);
        if call.at_least(dim, 1) {
            return Ok(vec![call.integers(vec![Dim::Int(1)], 0, dtype)]);
        }
        if call.proves(&Claim::new(dim.clone(), Relation::Less, 0)) {
            return Ok(vec![call.integers(vec![Dim::Int(-1)], 0, dtype)]);
        }
    }
    let value = call.call("sign", &[x.into()])?;
    call.walk.follow("sign", [x, x], value);
    Ok(vec![value])
}

/// The real cube root.
fn cube_root(call: &mut Call) -> Done<Vec<V>> {
    let x = call.arg(0)?;
    let dtype = call.dtype(x);
    let wide = convert(call, x, DType::F64)?;
    let size = call.call("abs", &[wide.into()])?;
    let third = like(call, size, 1.0 / 3.0);
    let root = call.call("power", &[size.into(), third])?;
    let sign = call.call("sign", &[wide.into()])?;
    let root = call.call("multiply", &[root.into(), sign.into()])?;
    Ok(vec![convert(call, root, dtype)?])
}

/// The nearest integer, of two the one farther from 0.
fn round_from_zero(call: &mut Call) -> Done<Vec<V>> {
    let x = call.arg(0)?;
    let whole = call.call("trunc", &[x.into()])?;
    let rest = call.call("subtract", &[x.into(), whole.into()])?;
    let twice = call.call("add", &[rest.into(), rest.into()])?;
    let more = call.call("trunc", &[twice.into()])?;
    let rounded = call.call("add", &[whole.into(), more.into()])?;
    // An infinity less itself is NaN.
    let infinite = call.call("isinf", &[x.into()])?;
    Ok(vec![call.call("where", &[infinite.into(), x.into(), rounded.into()])?])
}

/// Operands without broadcasts that the operator makes by itself: one of them must have all dims.
pub(super) fn plain(call: &Call, args: &[V]) -> Vec<V> {
    let sources = &call.walk.sources;
    let whole = args.iter().position(|v| !sources.contains_key(v)).unwrap_or(0);
    let all = args.iter().enumerate();
    all.map(|(at, v)| if at == whole { *v } else { *sources.get(v).unwrap_or(v) }).collect()
}

pub(super) fn applied(call: &mut Call, operator: &str, x: V, y: V) -> Done<V> {
    let plain = plain(call, &[x, y]);
    let value = pair(call, operator, plain[0], plain[1])?;
    if let (Some(&a), Some(&b)) = (call.walk.sources.get(&x), call.walk.sources.get(&y))
        && call.rank(a) == 0
        && call.rank(b) == 0
    {
        let source = pair(call, operator, a, b)?;
        call.walk.sources.insert(value, source);
    }
    call.walk.follow(operator, [x, y], value);
    Ok(value)
}

/// Of bools the operator for truth values.
fn two(call: &mut Call, operator: &'static str, of_bools: &'static str) -> Done<Vec<V>> {
    let (x, y) = call.two()?;
    let operator = match call.dtype(x) {
        DType::Bool if of_bools.is_empty() => return unsupported("bools"),
        DType::Bool => of_bools,
        _ => operator,
    };
    Ok(vec![applied(call, operator, x, y)?])
}

/// Which comparison, and of which kind.
pub(super) fn direction(op: &super::super::syntax::Op) -> Done<(&str, &str)> {
    let of = |name: &str| match op.attributes.get(name) {
        Some(Attribute::Word(_, inner)) => match &**inner {
            Attribute::Text(text) => text.split_whitespace().last(),
            _ => None,
        },
        _ => None,
    };
    let direction = of("comparison_direction").or(op.words.first().map(String::as_str));
    let kind = of("compare_type").or(op.words.get(1).map(String::as_str)).unwrap_or_default();
    let Some(direction) = direction else { return invalid("a comparison without a direction") };
    // Another kind, as a later version may have, orders floats in its own way.
    match kind {
        "" | "NOTYPE" | "FLOAT" | "SIGNED" | "UNSIGNED" | "TOTALORDER" => Ok((direction, kind)),
        other => unsupported(format!("comparisons of the kind {other}")),
    }
}

fn compare(call: &mut Call) -> Done<Vec<V>> {
    let (x, y) = call.two()?;
    let (direction, kind) = direction(call.op)?;
    if kind == "TOTALORDER" && call.dtype(x).is_float() {
        return unsupported("the total order of floats, outside of a sort");
    }
    let operator = match direction {
        "EQ" => "equal",
        "NE" => "not_equal",
        "LT" => "less",
        "LE" => "less_equal",
        "GT" => "greater",
        "GE" => "greater_equal",
        other => return invalid(format!("the comparison {other}")),
    };
    if let (Some([a]), Some([b])) = (call.elements(x).as_deref(), call.elements(y).as_deref())
        && call.rank(x) == 0
        && (call.tensor(x).is_none() || call.tensor(y).is_none())
    {
        let claim = match operator {
            "equal" => Claim::new(a.clone(), Relation::Equal, b.clone()),
            "not_equal" => Claim::new(a.clone(), Relation::NotEqual, b.clone()),
            "less" => Claim::new(a.clone(), Relation::Less, b.clone()),
            "less_equal" => Claim::new(a.clone(), Relation::AtMost, b.clone()),
            "greater" => Claim::new(b.clone(), Relation::Less, a.clone()),
            _ => Claim::new(b.clone(), Relation::AtMost, a.clone()),
        };
        for (claim, value) in [(claim.clone(), 1), (claim.opposite(), 0)] {
            if call.proves(&claim) {
                return Ok(vec![call.constant(Tensor::scalar(DType::Bool, Number::Int(value)))]);
            }
        }
        let value = call.call(operator, &[x.into(), y.into()])?;
        call.walk.claims.insert(value, claim);
        call.walk.follow(operator, [x, y], value);
        return Ok(vec![value]);
    }
    Ok(vec![applied(call, operator, x, y)?])
}

fn select(call: &mut Call) -> Done<Vec<V>> {
    let (condition, then, otherwise) = (call.arg(0)?, call.arg(1)?, call.arg(2)?);
    if let Some(floor) = call.walk.floor(condition, then, otherwise) {
        return Ok(vec![floor]);
    }
    if let Some(known) = call.tensor(condition).filter(|known| known.rank() == 0) {
        return Ok(vec![if known.number(0) == Number::Int(0) { otherwise } else { then }]);
    }
    // A condition of rank 0 has no dims to give.
    let args = match call.rank(condition) {
        0 => {
            let plain = plain(call, &[then, otherwise]);
            vec![condition, plain[0], plain[1]]
        }
        _ => plain(call, &[condition, then, otherwise]),
    };
    Ok(vec![broadcast_call(call, "where", &args)?])
}

fn clamp(call: &mut Call) -> Done<Vec<V>> {
    let (least, x, greatest) = (call.arg(0)?, call.arg(1)?, call.arg(2)?);
    let (above, below) = match call.dtype(x) {
        DType::Bool => ("logical_or", "logical_and"),
        _ => ("maximum", "minimum"),
    };
    let low = applied(call, above, x, least)?;
    Ok(vec![applied(call, below, low, greatest)?])
}

/// Of f32 to the digits of bf16, or to what it has.
fn reduce_precision(call: &mut Call) -> Done<Vec<V>> {
    let x = call.arg(0)?;
    let format = match call.attribute("format") {
        Some(Attribute::Word(format, _)) => format.clone(),
        _ => format!("e{}m{}", call.int("exponent_bits")?, call.int("mantissa_bits")?),
    };
    match (call.dtype(x), format.as_str()) {
        (DType::F32, "e8m23") | (DType::F64, "e11m52") | (DType::BF16, "e8m7") => Ok(vec![x]),
        (DType::F32, "e8m7") => {
            let narrow = convert(call, x, DType::BF16)?;
            Ok(vec![convert(call, narrow, DType::F32)?])
        }
        // Numbers below all normal ones are zeros there.
        (DType::F32, "e5m10") => {
            let narrow = convert(call, x, DType::F16)?;
            let wide = convert(call, narrow, DType::F32)?;
            let (size, least) =
                (call.call("abs", &[wide.into()])?, like(call, wide, 2_f64.powi(-14)));
            let is_small = call.call("less", &[size.into(), least])?;
            let zero = like(call, wide, 0.0);
            let zero = call.call("multiply", &[wide.into(), zero])?;
            Ok(vec![call.call("where", &[is_small.into(), zero.into(), wide.into()])?])
        }
        (dtype, format) => unsupported(format!("{dtype} to {format}")),
    }
}

/// A scalar of the dtype of a value.
pub(super) fn scalar(call: &Call, like: V, value: i64) -> Arg {
    Arg::Scalar(call.dtype(like), Number::Int(value.into()))
}
