//! Sorts by one key, and the greatest elements.

use super::super::call::{Call, Row, int};
use super::super::syntax::{Attribute, Op, Region};
use super::elementwise::direction;
use super::pattern::summary;
use crate::argument::{Arg, key};
use crate::builder::V;
use crate::operators::elementwise::convert;
use crate::reason::{Done, Reason, invalid, unsupported};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[("sort", sort), ("chlo.top_k", top_k)];

/// By which operand, and whether the greatest come first.
fn order(region: &Region) -> Option<(usize, bool)> {
    let [ops @ .., end] = region.ops.as_slice() else { return None };
    let [result] = end.operands.as_slice() else { return None };
    let made = |name: &str| ops.iter().find(|op| op.result.as_deref() == Some(name));
    let compare = made(&result.name).filter(|op| op.name == "stablehlo.compare")?;
    let descending = match direction(compare).ok()?.0 {
        "LT" => false,
        "GT" => true,
        _ => return None,
    };
    let [left, right] = compare.operands.as_slice() else { return None };
    let (left, right) = (key_of(region, ops, &left.name)?, key_of(region, ops, &right.name)?);
    (right == left + 1 && left % 2 == 0).then_some((left / 2, descending))
}

/// The parameter that a side of the comparison is, maybe with one zero and one NaN, as JAX makes them.
fn key_of(region: &Region, ops: &[Op], name: &str) -> Option<usize> {
    if let Some(place) = region.params.iter().position(|param| param.name == name) {
        return Some(place);
    }
    let made = |name: &str| ops.iter().find(|op| op.result.as_deref() == Some(name));
    let select = made(name).filter(|op| op.name == "stablehlo.select")?;
    let [condition, _, otherwise] = select.operands.as_slice() else { return None };
    let place = key_of(region, ops, &otherwise.name)?;
    let compare = made(&condition.name).filter(|op| op.name == "stablehlo.compare")?;
    let [x, y] = compare.operands.as_slice() else { return None };
    let own = &region.params[place].name;
    // Of a NaN: it differs from itself. Of a zero: it equals a constant from outside.
    match direction(compare).ok()?.0 {
        "NE" if x.name == *own && y.name == *own => Some(place),
        "EQ" if x.name == *own && made(&y.name).is_none() => Some(place),
        _ => None,
    }
}

fn sort(call: &mut Call) -> Done<Vec<V>> {
    let region = call.region(0)?;
    let Some((by, descending)) = order(region).filter(|(by, _)| *by < call.args.len()) else {
        return unsupported(format!("its region: {}", summary(region)));
    };
    let keys = call.args[by];
    let axis = call.axis(&["dimension"], call.rank(keys))?;
    if descending && call.dtype(keys).is_float() {
        let order = descending_order(call, keys, axis)?;
        return gathered(call, order, axis);
    }
    if call.args.len() == 1 && !descending {
        return Ok(vec![call.call("sort", &[keys.into(), key("axis", axis)])?]);
    }
    let wide = if call.dtype(keys) == DType::Bool { convert(call, keys, DType::I8)? } else { keys };
    let order = argsort(call, wide, axis, descending)?;
    gathered(call, order, axis)
}

fn argsort(call: &mut Call, x: V, axis: usize, descending: bool) -> Done<V> {
    let dtype = key("dtype", DType::I64);
    call.call("argsort", &[x.into(), key("axis", axis), key("descending", descending), dtype])
}

fn gathered(call: &mut Call, order: V, axis: usize) -> Done<Vec<V>> {
    let mut sorted = Vec::new();
    for x in call.args.clone() {
        sorted.push(call.call("gather_elements", &[x.into(), order.into(), key("axis", axis)])?);
    }
    Ok(sorted)
}

/// Places of the elements in descending order. NaNs come first in StableHLO and last in `argsort`: what is sorted is whether an
/// element is a number, after a sort by value.
fn descending_order(call: &mut Call, x: V, axis: usize) -> Done<V> {
    let order = argsort(call, x, axis, true)?;
    let sorted = call.call("gather_elements", &[x.into(), order.into(), key("axis", axis)])?;
    let unknown = call.call("isnan", &[sorted.into()])?;
    let unknown = convert(call, unknown, DType::I8)?;
    let again = argsort(call, unknown, axis, true)?;
    call.call("gather_elements", &[order.into(), again.into(), key("axis", axis)])
}

/// The `k` greatest elements along the last axis and their places.
fn top_k(call: &mut Call) -> Done<Vec<V>> {
    let x = call.arg(0)?;
    let k = match call.attribute("composite_attributes") {
        Some(Attribute::Dictionary(fields)) => fields.get("k"),
        _ => call.attribute("k"),
    };
    let k = k.and_then(int).ok_or_else(|| Reason::Invalid("`k` is missing".to_owned()))?;
    let Some(axis) = call.rank(x).checked_sub(1) else { return invalid("a tensor of rank 0") };
    let extent = call.dims(x)[axis].clone();
    let over = call.dim(DimOp::Sub, &Dim::Int(k), &extent);
    if k < 0 || over.as_int().is_some_and(|over| over > 0) {
        return invalid(format!("{k} elements of {extent}"));
    }
    let (_, dtype) = call.result(1)?;
    let order = if call.dtype(x).is_float() {
        descending_order(call, x, axis)?
    } else {
        argsort(call, x, axis, true)?
    };
    let args =
        [order.into(), Arg::from(vec![axis as i64]), Arg::from(vec![0_i64]), Arg::from(vec![k])];
    let places = call.call("strided_slice", &args)?;
    let values = call.call("gather_elements", &[x.into(), places.into(), key("axis", axis)])?;
    Ok(vec![values, convert(call, places, dtype)?])
}
