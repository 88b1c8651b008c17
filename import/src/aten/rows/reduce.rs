//! Reductions, softmax and prefix sums.

use crate::argument::{Arg, key};
use crate::aten::call::{Argument, Call, Row};
use crate::aten::promote::DEFAULT;
use crate::builder::V;
use crate::operators::activation::like;
use crate::operators::arithmetic::pair;
use crate::operators::elementwise::convert;
use crate::operators::shape::reshape;
use crate::reason::{Done, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[
    ("sum", |call| total(call, "sum")),
    ("prod", |call| total(call, "prod")),
    ("mean", mean),
    ("amax", |call| plain(call, "max")),
    ("amin", |call| plain(call, "min")),
    ("max.default", |call| plain(call, "max")),
    ("min.default", |call| plain(call, "min")),
    ("max.dim", |call| with_place(call, "max", "argmax")),
    ("min.dim", |call| with_place(call, "min", "argmin")),
    ("any", |call| truth(call, "max")),
    ("all", |call| truth(call, "min")),
    ("argmax", |call| place(call, "argmax")),
    ("argmin", |call| place(call, "argmin")),
    ("var", variance),
    ("var_mean", variance_and_mean),
    ("cumsum", |call| prefix(call, "cumsum")),
    ("cumprod", |call| prefix(call, "cumprod")),
    ("_softmax", |call| soft(call, "softmax")),
    ("_log_softmax", |call| soft(call, "log_softmax")),
    ("softmax.int", |call| soft(call, "softmax")),
    ("log_softmax.int", |call| soft(call, "log_softmax")),
];

/// The axes of a reduction: none given, or an empty list, are all of them.
fn axes(call: &Call, rank: usize) -> Done<Vec<i64>> {
    let all = match call.argument("dim") {
        Argument::None => true,
        Argument::List(items) => items.is_empty(),
        _ => false,
    };
    let axes = if all { (0..rank).collect() } else { call.axes_of("dim", rank)? };
    Ok(if rank == 0 { Vec::new() } else { axes.into_iter().map(|axis| axis as i64).collect() })
}

/// A tensor of rank 0 has nothing to reduce.
fn reduced(call: &mut Call, operator: &str, x: V, axes: &[i64], keepdim: bool) -> Done<V> {
    let mut args = vec![x.into(), key("axis", axes)];
    if axes.is_empty() {
        args = vec![x.into()];
    } else if keepdim {
        args.push(key("keepdims", true));
    }
    call.call(operator, &args)
}

/// Sums and products of integers and bools are i64.
fn total(call: &mut Call, operator: &str) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let own = call.dtype(x);
    let wide = if own.is_float() { own } else { DType::I64 };
    let dtype = call.dtype_of("dtype")?.unwrap_or(wide);
    let x = convert(call, x, dtype)?;
    let axes = axes(call, call.rank(x))?;
    let keepdim = call.bool("keepdim")?;
    Ok(vec![reduced(call, operator, x, &axes, keepdim)?])
}

fn mean(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let dtype = call.dtype_of("dtype")?.unwrap_or(call.dtype(x));
    if !dtype.is_float() {
        return unsupported("the mean of integers");
    }
    let x = convert(call, x, dtype)?;
    let axes = axes(call, call.rank(x))?;
    let keepdim = call.bool("keepdim")?;
    Ok(vec![reduced(call, "mean", x, &axes, keepdim)?])
}

fn plain(call: &mut Call, operator: &str) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let axes = axes(call, call.rank(x))?;
    let keepdim = call.bool("keepdim")?;
    Ok(vec![reduced(call, operator, x, &axes, keepdim)?])
}

/// The extreme elements along an axis, and where the first of them is.
fn with_place(call: &mut Call, operator: &str, place: &str) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let axes = axes(call, call.rank(x))?;
    let keepdim = call.bool("keepdim")?;
    let best = reduced(call, operator, x, &axes, keepdim)?;
    let at = first(call, place, x, axes.first().copied(), keepdim)?;
    Ok(vec![best, at])
}

fn first(call: &mut Call, operator: &str, x: V, axis: Option<i64>, keepdim: bool) -> Done<V> {
    let x = if call.dtype(x) == DType::Bool { convert(call, x, DType::U8)? } else { x };
    if call.rank(x) == 0 {
        return Ok(call.of_number(Number::Int(0), DType::I64));
    }
    let mut args: Vec<Arg> = vec![x.into()];
    args.extend(axis.map(|axis| key("axis", axis)));
    if keepdim {
        args.push(key("keepdims", true));
    }
    call.call(operator, &args)
}

fn place(call: &mut Call, operator: &str) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let rank = call.rank(x);
    let axis = if call.has("dim") { Some(call.axis_of("dim", rank)? as i64) } else { None };
    let keepdim = call.bool("keepdim")?;
    Ok(vec![first(call, operator, x, axis, keepdim)?])
}

/// Whether any, or all, are true; of nothing: false, or true. Of u8 PyTorch gives u8.
fn truth(call: &mut Call, operator: &str) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let own = call.dtype(x);
    let flags = convert(call, x, DType::Bool)?;
    let axes = axes(call, call.rank(x))?;
    let keepdim = call.bool("keepdim")?;
    // Sums of bools are `or`, products `and`, and both are defined of nothing.
    let operator = if operator == "max" { "sum" } else { "prod" };
    let result = reduced(call, operator, flags, &axes, keepdim)?;
    let dtype = if own == DType::U8 { DType::U8 } else { DType::Bool };
    Ok(vec![convert(call, result, dtype)?])
}

/// The sum of the squared distances from the mean, by the count less the correction; and the mean.
fn spread(call: &mut Call) -> Done<(V, V)> {
    let x = call.tensor("self")?;
    let dtype = call.dtype(x);
    if !dtype.is_float() {
        return unsupported("the variance of integers");
    }
    let correction = match (call.has("correction"), call.args.get("unbiased")) {
        (true, _) => call.float("correction")?,
        (false, Some(Argument::Bool(false))) => 0.0,
        _ => 1.0,
    };
    let axes = axes(call, call.rank(x))?;
    let keepdim = call.bool("keepdim")?;
    let wide = convert(call, x, DType::F64)?;
    let center = reduced(call, "mean", wide, &axes, true)?;
    let away = pair(call, "subtract", wide, center)?;
    let squares = call.call("square", &[away.into()])?;
    let sum = reduced(call, "sum", squares, &axes, keepdim)?;
    let dims = call.dims(x);
    let counted: Vec<Dim> = axes.iter().map(|&axis| dims[axis as usize].clone()).collect();
    let count = call.integers(vec![Dim::product(&counted)], 0, DType::I64);
    let count = convert(call, count, DType::F64)?;
    let less = like(call, count, correction);
    let count = call.call("subtract", &[count.into(), less])?;
    let zero = like(call, count, 0.0);
    let count = call.call("maximum", &[count.into(), zero])?;
    let spread = call.call("divide", &[sum.into(), count.into()])?;
    let spread = convert(call, spread, dtype)?;
    let center = if keepdim { center } else { reduced(call, "mean", wide, &axes, false)? };
    Ok((spread, convert(call, center, dtype)?))
}

fn variance(call: &mut Call) -> Done<Vec<V>> {
    Ok(vec![spread(call)?.0])
}

fn variance_and_mean(call: &mut Call) -> Done<Vec<V>> {
    let (spread, center) = spread(call)?;
    Ok(vec![spread, center])
}

fn prefix(call: &mut Call, operator: &str) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let own = call.dtype(x);
    let wide = if own.is_float() { own } else { DType::I64 };
    let dtype = call.dtype_of("dtype")?.unwrap_or(wide);
    let rank = call.rank(x);
    let axis = call.axis_of("dim", rank)?;
    let x = convert(call, x, dtype)?;
    if rank == 0 {
        return Ok(vec![x]);
    }
    Ok(vec![call.call(operator, &[x.into(), key("axis", axis)])?])
}

fn soft(call: &mut Call, operator: &str) -> Done<Vec<V>> {
    let mut x = call.tensor("self")?;
    if call.bool("half_to_float")? {
        x = convert(call, x, DEFAULT)?;
    }
    if let Some(dtype) = call.dtype_of("dtype")? {
        x = convert(call, x, dtype)?;
    }
    let rank = call.rank(x);
    let axis = call.axis_of("dim", rank)?;
    if rank == 0 {
        let row = reshape(call, x, vec![Dim::Int(1)])?;
        let soft = call.call(operator, &[row.into(), key("axis", 0_i64)])?;
        return Ok(vec![reshape(call, soft, Vec::new())?]);
    }
    Ok(vec![call.call(operator, &[x.into(), key("axis", axis)])?])
}

pub(super) fn difference(call: &mut Call, a: &Dim, b: &Dim) -> Dim {
    let difference = call.dim(DimOp::Sub, a, b);
    call.dim(DimOp::Max, &difference, &Dim::Int(0))
}
