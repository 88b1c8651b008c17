//! Order and prefix: `TopK`, `ArgMax`, `Unique`, `CumSum` and their like.

use crate::argument::{Arg, key};
use crate::builder::V;
use crate::node::{Importer, Node};
use crate::reason::{Done, Reason};
use relax_semantics::tensor::Number;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

pub(super) const OPERATORS: &[(&str, Importer)] = &[
    ("TopK", topk),
    ("ArgMax", |node| best(node, "argmax")),
    ("ArgMin", |node| best(node, "argmin")),
    ("CumSum", cumulative),
    ("Hardmax", hardmax),
    ("Unique", unique),
];

fn topk(node: &mut Node) -> Done<Vec<V>> {
    let (x, k) = (node.input(0)?, node.input(1)?);
    let axis = node.axis(node.int("axis", -1), node.rank(x))?;
    let k = node.extents(k, "K")?;
    let k = k.first().cloned().ok_or_else(|| Reason::Invalid("`K` is empty".to_owned()))?;
    if !node.at_least(&k, 1) {
        return Err(node.unknown(node.input(1)?, "K"));
    }
    let largest = node.int("largest", 1) != 0;
    let args = [
        x.into(),
        key("k", k),
        key("axis", axis),
        key("largest", largest),
        key("dtype", DType::I64),
    ];
    node.call_many("topk", &args)
}

/// Of equal elements the first one, or the last: then the axis is looked at from its end.
fn best(node: &mut Node, operator: &str) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let axis = node.axis(node.int("axis", 0), node.rank(x))?;
    let keepdims = node.int("keepdims", 1) != 0;
    let last = node.int("select_last_index", 0) != 0;
    let seen = if last { node.call("flip", &[x.into(), key("axis", axis)])? } else { x };
    let mut args = vec![seen.into(), key("axis", axis)];
    if keepdims {
        args.push(key("keepdims", true));
    }
    let place = node.call(operator, &args)?;
    if !last {
        return Ok(vec![place]);
    }
    let extent = node.dims(x)[axis].clone();
    let end = node.dim(DimOp::Sub, &extent, &Dim::Int(1));
    let end = node.integers(vec![end], 0, DType::I64);
    Ok(vec![node.call("subtract", &[end.into(), place.into()])?])
}

fn cumulative(node: &mut Node) -> Done<Vec<V>> {
    let (x, axis) = (node.input(0)?, node.input(1)?);
    let axis = node.known_number(axis, "axis")? as i64;
    let axis = node.axis(axis, node.rank(x))?;
    let (exclusive, reverse) = (node.int("exclusive", 0) != 0, node.int("reverse", 0) != 0);
    let mirrored = |node: &mut Node, x: V| -> Done<V> {
        if reverse { node.call("flip", &[x.into(), key("axis", axis)]) } else { Ok(x) }
    };
    let seen = mirrored(node, x)?;
    let mut args = vec![seen.into(), key("axis", axis)];
    if exclusive {
        args.push(key("exclusive", true));
    }
    let sums = node.call("cumsum", &args)?;
    Ok(vec![mirrored(node, sums)?])
}

/// 1 at the first greatest element of each row, 0 elsewhere.
fn hardmax(node: &mut Node) -> Done<Vec<V>> {
    let mut x = node.input(0)?;
    let dims = node.dims(x);
    let dtype = node.dtype(x);
    let axis = node.axis(node.int("axis", if node.opset < 13 { 1 } else { -1 }), dims.len())?;
    let flat = node.opset < 13;
    if flat {
        let (before, after) = dims.split_at(axis);
        x = super::shape::reshape(node, x, vec![Dim::product(before), Dim::product(after)])?;
    }
    let axis = if flat { 1 } else { axis };
    let extent = node.dims(x)[axis].clone();
    let place = node.call("argmax", &[x.into(), key("axis", axis)])?;
    let (one, zero) =
        (Arg::Scalar(dtype, Number::Float(1.0)), Arg::Scalar(dtype, Number::Float(0.0)));
    let hot = node.call("one_hot", &[place.into(), one, zero, extent.into(), key("axis", axis)])?;
    Ok(vec![super::shape::reshape(node, hot, dims)?])
}

fn unique(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let sorted = node.int("sorted", 1) != 0;
    let mut args = vec![
        x.into(),
        key("sorted", sorted),
        key("return_index", true),
        key("return_inverse", true),
        key("return_counts", true),
    ];
    if let Some(axis) = node.optional_int("axis") {
        let axis = node.axis(axis, node.rank(x))?;
        args.push(key("axis", axis));
    }
    node.call_many("unique", &args)
}

/// A tensor with one axis moved to the end.
pub(super) fn axis_last(node: &mut Node, x: V, axis: usize) -> Done<V> {
    let rank = node.rank(x);
    let mut axes: Vec<i64> = (0..rank).filter(|&a| a != axis).map(|a| a as i64).collect();
    axes.push(axis as i64);
    super::shape::permuted(node, x, &axes)
}
