//! Elements written at indices along an axis, and reduced there.

use super::index::at_least_one;
use crate::argument::{Arg, key};
use crate::aten::call::{Argument, Call, Row};
use crate::builder::V;
use crate::operators::activation::like;
use crate::operators::arithmetic::pair;
use crate::operators::elementwise::convert;
use crate::operators::reduce::neutral;
use crate::operators::shape::reshape;
use crate::reason::{Done, invalid, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[
    ("scatter.src", |call| scatter(call, "src", "update")),
    ("scatter.value", |call| scatter(call, "value", "update")),
    ("scatter.reduce", |call| scatter_by(call, "src")),
    ("scatter.value_reduce", |call| scatter_by(call, "value")),
    ("scatter_add", |call| scatter(call, "src", "add")),
    ("scatter_reduce.two", scatter_reduce),
    ("index_reduce", index_reduce),
];

/// Only the part of the updates that the indices cover is written.
fn covered(call: &mut Call, updates: V, index: V) -> Done<V> {
    let (own, wanted) = (call.dims(updates), call.dims(index));
    if own == wanted {
        return Ok(updates);
    }
    let axes: Vec<i64> = (0..own.len() as i64).collect();
    let args = [
        updates.into(),
        Arg::from(axes.clone()),
        Arg::from(vec![0_i64; own.len()]),
        Arg::Dims(wanted),
    ];
    call.call("strided_slice", &args)
}

fn scatter(call: &mut Call, source: &str, reduction: &str) -> Done<Vec<V>> {
    let (x, index) = (call.tensor("self")?, call.tensor("index")?);
    let axis = call.axis_of("dim", call.rank(x))?;
    let dtype = call.dtype(x);
    let dims = call.dims(x);
    let (x, index) = (at_least_one(call, x)?, at_least_one(call, index)?);
    let updates = match call.argument(source) {
        Argument::Tensor(v) => {
            let v = at_least_one(call, *v)?;
            covered(call, v, index)?
        }
        _ => {
            let value = call.operand(source, dtype)?;
            let dims = call.dims(index);
            call.call("broadcast_to", &[value.into(), Arg::Shape(dims)])?
        }
    };
    let result = written(call, (x, index, updates), axis, reduction)?;
    Ok(vec![reshape(call, result, dims)?])
}

fn written(call: &mut Call, (x, index, updates): (V, V, V), axis: usize, by: &str) -> Done<V> {
    let dtype = call.dtype(x);
    let is_bool = dtype == DType::Bool && by != "update";
    let (x, updates) = if is_bool {
        (convert(call, x, DType::U8)?, convert(call, updates, DType::U8)?)
    } else {
        (x, updates)
    };
    // The sum of bools is whether any is true.
    let by = if is_bool && by == "add" { "max" } else { by };
    let mut args = vec![x.into(), index.into(), updates.into(), key("axis", axis)];
    if by != "update" {
        args.push(key("reduction", by));
    }
    let result = call.call("scatter_elements", &args)?;
    convert(call, result, dtype)
}

/// By `add` or `multiply`, as older versions of the operator call them.
fn scatter_by(call: &mut Call, source: &str) -> Done<Vec<V>> {
    let by = match call.string("reduce")?.as_str() {
        "add" => "add",
        "multiply" => "mul",
        other => return unsupported(format!("reduce = {other:?}")),
    };
    scatter(call, source, by)
}

fn scatter_reduce(call: &mut Call) -> Done<Vec<V>> {
    let (x, index, src) = (call.tensor("self")?, call.tensor("index")?, call.tensor("src")?);
    let axis = call.axis_of("dim", call.rank(x))?;
    let dims = call.dims(x);
    let (x, index) = (at_least_one(call, x)?, at_least_one(call, index)?);
    let src = at_least_one(call, src)?;
    let updates = covered(call, src, index)?;
    let result = reduced(call, (x, index, updates), axis)?;
    Ok(vec![reshape(call, result, dims)?])
}

/// A slice of the source along the axis is combined with the slice of the tensor that the index names.
fn index_reduce(call: &mut Call) -> Done<Vec<V>> {
    let (x, index, source) = (call.tensor("self")?, call.tensor("index")?, call.tensor("source")?);
    let axis = call.axis_of("dim", call.rank(x))?;
    let dims = call.dims(x);
    let (x, source) = (at_least_one(call, x)?, at_least_one(call, source)?);
    let index = at_least_one(call, index)?;
    let whole = call.dims(source);
    if whole.len() != call.rank(x) {
        return invalid("the source has another rank");
    }
    let mut along = vec![Dim::Int(1); whole.len()];
    along[axis] = call.dims(index)[0].clone();
    let index = reshape(call, index, along)?;
    let index = call.call("broadcast_to", &[index.into(), Arg::Shape(whole)])?;
    let result = reduced(call, (x, index, source), axis)?;
    Ok(vec![reshape(call, result, dims)?])
}

/// With `reduce` and `include_self` of the call. Without the latter an element counts only where nothing is written to it.
fn reduced(call: &mut Call, (x, index, updates): (V, V, V), axis: usize) -> Done<V> {
    let reduce = call.string("reduce")?;
    let (by, operator) = match reduce.as_str() {
        "sum" | "mean" => ("add", "add"),
        "prod" => ("mul", "multiply"),
        "amax" => ("max", "maximum"),
        "amin" => ("min", "minimum"),
        other => return unsupported(format!("reduce = {other:?}")),
    };
    let dtype = call.dtype(x);
    let (is_mean, with_own) = (reduce == "mean", call.bool("include_self")?);
    if is_mean && dtype == DType::Bool {
        return unsupported("the mean of bools");
    }
    if with_own && !is_mean {
        return written(call, (x, index, updates), axis, by);
    }
    let count = counts(call, x, index, axis)?;
    let mut base = x;
    if !with_own {
        let zero = like(call, count, 0.0);
        let is_hit = call.call("greater", &[count.into(), zero])?;
        let neutral = Arg::Scalar(dtype, neutral(operator, dtype));
        base = call.call("where", &[is_hit.into(), neutral, x.into()])?;
    }
    let result = written(call, (base, index, updates), axis, by)?;
    if !is_mean {
        return Ok(result);
    }
    let one = like(call, count, 1.0);
    let operator = if with_own { "add" } else { "maximum" };
    let count = call.call(operator, &[count.into(), one])?;
    let count = convert(call, count, dtype)?;
    pair(call, if dtype.is_float() { "divide" } else { "floor_divide" }, result, count)
}

/// How many updates each element gets, as i64.
fn counts(call: &mut Call, x: V, index: V, axis: usize) -> Done<V> {
    let none = call.call("zeros_like", &[x.into(), DType::I64.into()])?;
    let one = call.of_number(Number::Int(1), DType::I64);
    let dims = call.dims(index);
    let ones = call.call("broadcast_to", &[one.into(), Arg::Shape(dims)])?;
    written(call, (none, index, ones), axis, "add")
}
