//! Normalization.

use super::activation::{plus, scaled};
use super::arithmetic::pair;
use super::elementwise::convert;
use super::shape::reshape;
use crate::argument::{Arg, key};
use crate::builder::V;
use crate::node::{Importer, Node};
use crate::reason::{Done, unsupported};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

pub(super) const OPERATORS: &[(&str, Importer)] = &[
    ("BatchNormalization", batch),
    ("InstanceNormalization", instance),
    ("LayerNormalization", layer),
    ("GroupNormalization", group),
    ("RMSNormalization", rms),
    ("MeanVarianceNormalization", mean_variance),
    ("LpNormalization", lp),
    ("LRN", local_response),
];

/// The dtype in which the statistics are computed.
fn stash(node: &Node) -> Done<DType> {
    Ok(node.dtype_attribute("stash_type")?.unwrap_or(DType::F32))
}

fn mean(node: &mut Node, x: V, axes: &[i64]) -> Done<V> {
    node.call("mean", &[x.into(), key("axis", axes), key("keepdims", true)])
}

/// The values in the middle of the broadcast: `(c,)` as `(c, 1, 1)`.
fn by_channel(node: &mut Node, v: V, rank: usize) -> Done<V> {
    let mut dims = node.dims(v);
    dims.extend(vec![Dim::Int(1); rank.saturating_sub(2)]);
    reshape(node, v, dims)
}

fn batch(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let rank = node.rank(x);
    let (mut center, mut spread) = (node.input(3)?, node.input(4)?);
    let mut results = Vec::new();
    if node.int("training_mode", 0) != 0 {
        let momentum = node.float("momentum", 0.9);
        let axes: Vec<i64> = (0..rank as i64).filter(|&axis| axis != 1).collect();
        let now = node.call("mean", &[x.into(), key("axis", axes.as_slice())])?;
        let varied = node.call("variance", &[x.into(), key("axis", axes)])?;
        for (old, new) in [(center, now), (spread, varied)] {
            let old = scaled(node, old, momentum)?;
            let dtype = node.dtype(old);
            let new = convert(node, new, dtype)?;
            let new = scaled(node, new, 1.0 - momentum)?;
            results.push(pair(node, "add", old, new)?);
        }
        (center, spread) = (now, varied);
    }
    let epsilon = node.float("epsilon", 1e-5);
    let mut columns = Vec::new();
    for v in [node.input(1)?, node.input(2)?, center, spread] {
        let column = by_channel(node, v, rank)?;
        let own = node.dtype(x);
        columns.push(convert(node, column, own)?);
    }
    let away = pair(node, "subtract", x, columns[2])?;
    let spread = plus(node, columns[3], epsilon)?;
    let spread = node.call("sqrt", &[spread.into()])?;
    let unit = pair(node, "divide", away, spread)?;
    let stretched = pair(node, "multiply", unit, columns[0])?;
    results.insert(0, pair(node, "add", stretched, columns[1])?);
    Ok(results)
}

fn instance(node: &mut Node) -> Done<Vec<V>> {
    let (x, gamma, beta) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let axes: Vec<i64> = (2..node.rank(x) as i64).collect();
    let epsilon = node.float("epsilon", 1e-5);
    let args = [
        x.into(),
        gamma.into(),
        beta.into(),
        key("channel_axis", 1_i64),
        key("axes", axes),
        key("epsilon", epsilon),
    ];
    Ok(vec![node.call("instance_norm", &args)?])
}

/// With the statistics as further results, so that it is composed.
fn layer(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let (rank, own, dtype) = (node.rank(x), node.dtype(x), stash(node)?);
    let first = node.axis(node.int("axis", -1), rank)?;
    let axes: Vec<i64> = (first as i64..rank as i64).collect();
    let epsilon = node.float("epsilon", 1e-5);
    let wide = convert(node, x, dtype)?;
    let center = mean(node, wide, &axes)?;
    let away = pair(node, "subtract", wide, center)?;
    let squares = node.call("square", &[away.into()])?;
    let spread = mean(node, squares, &axes)?;
    let spread = plus(node, spread, epsilon)?;
    let inverse = node.call("rsqrt", &[spread.into()])?;
    let unit = pair(node, "multiply", away, inverse)?;
    let unit = convert(node, unit, own)?;
    let scale = node.input(1)?;
    let mut result = pair(node, "multiply", unit, scale)?;
    if let Some(bias) = node.optional(2) {
        result = pair(node, "add", result, bias)?;
    }
    Ok(vec![result, center, inverse])
}

fn rms(node: &mut Node) -> Done<Vec<V>> {
    let (x, scale) = (node.input(0)?, node.input(1)?);
    let (rank, own, dtype) = (node.rank(x), node.dtype(x), stash(node)?);
    let first = node.axis(node.int("axis", -1), rank)?;
    let axes: Vec<i64> = (first as i64..rank as i64).collect();
    let epsilon = node.float("epsilon", 1e-5);
    let wide = convert(node, x, dtype)?;
    let unit = node.call("rms_norm", &[wide.into(), key("axes", axes), key("epsilon", epsilon)])?;
    let unit = convert(node, unit, own)?;
    Ok(vec![pair(node, "multiply", unit, scale)?])
}

fn group(node: &mut Node) -> Done<Vec<V>> {
    let (x, gamma, beta) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let (dims, own, dtype) = (node.dims(x), node.dtype(x), stash(node)?);
    let groups = Dim::Int(node.int("num_groups", 1));
    if node.rank(x) < 2 {
        return unsupported("a vector");
    }
    let wide = convert(node, x, dtype)?;
    let per_group = node.dim(DimOp::FloorDiv, &dims[1], &groups);
    let mut split = vec![dims[0].clone(), groups.clone(), per_group.clone()];
    split.extend_from_slice(&dims[2..]);
    let axes: Vec<i64> = (2..split.len() as i64).collect();
    let split = reshape(node, wide, split)?;
    let center = mean(node, split, &axes)?;
    let away = pair(node, "subtract", split, center)?;
    let squares = node.call("square", &[away.into()])?;
    let spread = mean(node, squares, &axes)?;
    let epsilon = node.float("epsilon", 1e-5);
    let spread = plus(node, spread, epsilon)?;
    let spread = node.call("sqrt", &[spread.into()])?;
    let unit = pair(node, "divide", away, spread)?;
    let unit = reshape(node, unit, dims.clone())?;
    let unit = convert(node, unit, own)?;
    let mut columns = Vec::new();
    for v in [gamma, beta] {
        // Before operator set 21 there is one value a group.
        let v = if node.opset < 21 && node.dims(v) != vec![dims[1].clone()] {
            node.call("repeat", &[v.into(), per_group.clone().into(), key("axis", 0_i64)])?
        } else {
            v
        };
        columns.push(by_channel(node, v, dims.len())?);
    }
    let stretched = pair(node, "multiply", unit, columns[0])?;
    Ok(vec![pair(node, "add", stretched, columns[1])?])
}

fn mean_variance(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let axes = node.ints("axes").unwrap_or_else(|| vec![0, 2, 3]);
    let center = mean(node, x, &axes)?;
    let away = pair(node, "subtract", x, center)?;
    let spread = node.call("std", &[x.into(), key("axis", axes), key("keepdims", true)])?;
    let spread = plus(node, spread, 1e-9)?;
    Ok(vec![pair(node, "divide", away, spread)?])
}

fn lp(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let axis = node.axis(node.int("axis", -1), node.rank(x))?;
    let sizes = match node.int("p", 2) {
        1 => node.call("abs", &[x.into()])?,
        2 => node.call("square", &[x.into()])?,
        other => return unsupported(format!("p = {other}")),
    };
    let sum = node.call("sum", &[sizes.into(), key("axis", axis), key("keepdims", true)])?;
    let length = if node.int("p", 2) == 2 { node.call("sqrt", &[sum.into()])? } else { sum };
    Ok(vec![pair(node, "divide", x, length)?])
}

/// The sum of squares over the channels around each one, as an average over a window of channels.
fn local_response(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let dims = node.dims(x);
    let size = node.int("size", 1);
    if dims.len() < 2 || size < 1 {
        return unsupported("a vector, or a size of 0");
    }
    let squares = node.call("square", &[x.into()])?;
    let rest = Dim::product(&dims[2..]);
    let flat = reshape(node, squares, vec![dims[0].clone(), Dim::Int(1), dims[1].clone(), rest])?;
    let before = (size - 1) / 2;
    let args = [
        flat.into(),
        key("pool_size", vec![size, 1]),
        key("padding", vec![before, 0, size - 1 - before, 0]),
        key("count_include_pad", true),
    ];
    let averages = node.call("avg_pool2d", &args)?;
    let averages = reshape(node, averages, dims)?;
    let (alpha, beta) = (node.float("alpha", 1e-4), node.float("beta", 0.75));
    let grown = scaled(node, averages, alpha)?;
    let bias = node.float("bias", 1.0);
    let grown = plus(node, grown, bias)?;
    let beta = Arg::Scalar(node.dtype(x), relax_semantics::tensor::Number::Float(beta));
    let divisor = node.call("power", &[grown.into(), beta])?;
    Ok(vec![pair(node, "divide", x, divisor)?])
}
