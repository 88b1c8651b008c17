//! Sorts, and the greatest elements.

use super::super::call::{Call, Row, int};
use super::super::syntax::{Attribute, Op, Region};
use super::elementwise::direction;
use super::pattern::summary;
use crate::argument::key;
use crate::builder::V;
use crate::operators::elementwise::convert;
use crate::operators::slice::along;
use crate::reason::{Done, Reason, invalid, unsupported};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[("sort", sort), ("chlo.top_k", top_k)];

/// By which operands, the first one first, and whether the greatest come first.
fn keys(region: &Region) -> Option<Vec<(usize, bool)>> {
    let [all @ .., end] = region.ops.as_slice() else { return None };
    let [result] = end.operands.as_slice() else { return None };
    let mut keys = Vec::new();
    let (mut ops, mut name) = (all, result.name.as_str());
    // `a < a' or a = a' and …`
    loop {
        let place = position(ops, name)?;
        let op = &ops[place];
        // Only what stands before it can be its operand.
        ops = &ops[..place];
        let made = |name: &str| position(ops, name).map(|place| &ops[place]);
        if op.name != "stablehlo.or" {
            let (key, direction) = compared(region, ops, op)?;
            keys.push((key, is_descending(direction)?));
            return Some(keys);
        }
        let [first, rest] = op.operands.as_slice() else { return None };
        let (key, direction) = compared(region, ops, made(&first.name)?)?;
        let and = made(&rest.name).filter(|op| op.name == "stablehlo.and")?;
        let [same, next] = and.operands.as_slice() else { return None };
        if compared(region, ops, made(&same.name)?)? != (key, "EQ") {
            return None;
        }
        keys.push((key, is_descending(direction)?));
        name = &next.name;
    }
}

/// Where the operation is that gives a value.
fn position(ops: &[Op], name: &str) -> Option<usize> {
    ops.iter().position(|op| op.result.as_deref() == Some(name))
}

fn is_descending(direction: &str) -> Option<bool> {
    match direction {
        "LT" => Some(false),
        "GT" => Some(true),
        _ => None,
    }
}

/// The operand whose two elements are compared, and how.
fn compared<'r>(region: &Region, ops: &[Op], op: &'r Op) -> Option<(usize, &'r str)> {
    let direction = Some(op).filter(|op| op.name == "stablehlo.compare")?;
    let direction = direction_of(direction)?;
    let [left, right] = op.operands.as_slice() else { return None };
    let (left, right) = (key_of(region, ops, &left.name)?, key_of(region, ops, &right.name)?);
    (right == left + 1 && left % 2 == 0).then_some((left / 2, direction))
}

fn direction_of(op: &Op) -> Option<&str> {
    direction(op).ok().map(|(direction, _)| direction)
}

/// The parameter that a side of the comparison is, maybe with one zero and one NaN, as JAX makes them.
fn key_of(region: &Region, ops: &[Op], name: &str) -> Option<usize> {
    if let Some(place) = region.params.iter().position(|param| param.name == name) {
        return Some(place);
    }
    let select = position(ops, name)?;
    let (ops, select) = (&ops[..select], &ops[select]);
    let made = |name: &str| position(ops, name).map(|place| &ops[place]);
    if select.name != "stablehlo.select" {
        return None;
    }
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
    let is_there = |by: &Vec<(usize, bool)>| by.iter().all(|(key, _)| *key < call.args.len());
    let Some(by) = keys(region).filter(is_there) else {
        return unsupported(format!("its region: {}", summary(region)));
    };
    let axis = call.axis(&["dimension"], call.rank(call.args[by[0].0]))?;
    if let ([(0, false)], 1) = (by.as_slice(), call.args.len()) {
        let x = call.arg(0)?;
        return Ok(vec![call.call("sort", &[x.into(), key("axis", axis)])?]);
    }
    // By the last key first: sorts by the others keep its order.
    let mut order: Option<V> = None;
    for (place, is_descending) in by.into_iter().rev() {
        let keys = call.args[place];
        let keys = match order {
            None => keys,
            Some(order) => at(call, keys, order, axis)?,
        };
        let next = ordered(call, keys, axis, is_descending)?;
        order = Some(match order {
            None => next,
            Some(order) => at(call, order, next, axis)?,
        });
    }
    match order {
        Some(order) => gathered(call, order, axis),
        None => invalid("there is no key"),
    }
}

/// Places in the order of the elements, equal ones as they are.
fn ordered(call: &mut Call, keys: V, axis: usize, is_descending: bool) -> Done<V> {
    match call.dtype(keys) {
        dtype if is_descending && dtype.is_float() => descending_order(call, keys, axis),
        DType::Bool => {
            let wide = convert(call, keys, DType::I8)?;
            argsort(call, wide, axis, is_descending)
        }
        _ => argsort(call, keys, axis, is_descending),
    }
}

fn at(call: &mut Call, x: V, order: V, axis: usize) -> Done<V> {
    call.call("gather_elements", &[x.into(), order.into(), key("axis", axis)])
}

fn argsort(call: &mut Call, x: V, axis: usize, descending: bool) -> Done<V> {
    let dtype = key("dtype", DType::I64);
    call.call("argsort", &[x.into(), key("axis", axis), key("descending", descending), dtype])
}

fn gathered(call: &mut Call, order: V, axis: usize) -> Done<Vec<V>> {
    let mut sorted = Vec::new();
    for x in call.args.clone() {
        sorted.push(at(call, x, order, axis)?);
    }
    Ok(sorted)
}

/// Places of the elements in descending order. NaNs come first in StableHLO and last in `argsort`: what is sorted is whether an
/// element is a number, after a sort by value.
fn descending_order(call: &mut Call, x: V, axis: usize) -> Done<V> {
    let order = argsort(call, x, axis, true)?;
    let sorted = at(call, x, order, axis)?;
    let unknown = call.call("isnan", &[sorted.into()])?;
    let unknown = convert(call, unknown, DType::I8)?;
    let again = argsort(call, unknown, axis, true)?;
    at(call, order, again, axis)
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
    greatest(call, x, axis, k, true)
}

/// The first `k` elements in that order and their places.
fn greatest(call: &mut Call, x: V, axis: usize, k: i64, is_descending: bool) -> Done<Vec<V>> {
    let (_, dtype) = call.result(1)?;
    let order = ordered(call, x, axis, is_descending)?;
    let places = along(call, order, axis, (0, k, 1))?;
    let values = at(call, x, places, axis)?;
    Ok(vec![values, convert(call, places, dtype)?])
}

/// The greatest or least elements and their places, all of which are found: an exact result is one with any recall.
pub(super) fn approximate_top_k(call: &mut Call) -> Done<Vec<V>> {
    let (x, places) = call.two()?;
    let Some(Attribute::Dictionary(fields)) = call.attribute("mhlo.backend_config") else {
        return invalid("`mhlo.backend_config` is missing");
    };
    let number = |name: &str| {
        fields
            .get(name)
            .and_then(int)
            .ok_or_else(|| Reason::Invalid(format!("`{name}` is missing")))
    };
    let (axis, k) = (number("reduction_dim")?, number("top_k")?);
    let axis = usize::try_from(axis).ok().filter(|&axis| axis < call.rank(x));
    let Some(axis) = axis else { return invalid("`reduction_dim` is no dim of its operand") };
    // Two more operands are the symbolic shapes of the results.
    let is_symbolic = call.attribute("indices_of_shape_operands").is_some();
    if call.args.len() != if is_symbolic { 6 } else { 4 }
        || call.walk.counts.get(&places) != Some(&axis)
    {
        return unsupported("other operands than elements and their places");
    }
    let name = match call.attribute("called_computations") {
        Some(Attribute::List(items)) => match items.as_slice() {
            [Attribute::Symbol(name)] => name,
            _ => return invalid("it must have one computation"),
        },
        _ => return invalid("its computation is missing"),
    };
    let compare = call.walk.module.functions.get(name).and_then(|function| {
        let [op, end] = function.ops.as_slice() else { return None };
        let params: Vec<&str> = function.params.iter().map(|param| param.name.as_str()).collect();
        let read: Vec<&str> = op.operands.iter().map(|operand| operand.name.as_str()).collect();
        let gives = end.operands.len() == 1 && op.result.as_ref() == Some(&end.operands[0].name);
        let is_plain =
            gives && params.get(..2) == Some(&read[..]) && op.name == "stablehlo.compare";
        is_plain.then(|| direction_of(op)).flatten().and_then(is_descending)
    });
    let Some(is_descending) = compare else {
        return unsupported(format!("the computation @{name}"));
    };
    let (made, _) = call.result(0)?;
    if made.get(axis) != Some(&Some(k)) {
        return unsupported("results that are not aggregated");
    }
    greatest(call, x, axis, k, is_descending)
}
