//! Normalization, with the statistics as further results.

use crate::argument::{Arg, key};
use crate::aten::call::{Call, Row};
use crate::builder::V;
use crate::operators::activation::{plus, scaled};
use crate::operators::arithmetic::pair;
use crate::operators::elementwise::convert;
use crate::operators::shape::reshape;
use crate::reason::{Done, invalid, unsupported};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[
    ("native_layer_norm", layer_norm),
    ("layer_norm", layer_norm),
    ("native_group_norm", group_norm),
    ("_native_batch_norm_legit_no_training", batch_norm),
    ("_native_batch_norm_legit.no_stats", batch_norm_of_batch),
    ("_native_batch_norm_legit_functional", batch_norm_with_updates),
    ("_fused_rms_norm", rms_norm),
];

pub(super) fn mean(call: &mut Call, x: V, axes: &[i64]) -> Done<V> {
    call.call("mean", &[x.into(), key("axis", axes), key("keepdims", true)])
}

/// The mean of the squares of what is centered.
fn variance(call: &mut Call, away: V, axes: &[i64]) -> Done<V> {
    let squares = call.call("square", &[away.into()])?;
    mean(call, squares, axes)
}

/// Centered and scaled over the axes, the mean and the inverse deviation; the last two keep the axes as 1.
fn unit(call: &mut Call, x: V, axes: &[i64], epsilon: f64) -> Done<(V, V, V)> {
    let center = mean(call, x, axes)?;
    let away = pair(call, "subtract", x, center)?;
    let spread = variance(call, away, axes)?;
    let spread = plus(call, spread, epsilon)?;
    let inverse = call.call("rsqrt", &[spread.into()])?;
    Ok((pair(call, "multiply", away, inverse)?, center, inverse))
}

/// As many axes at the end as the normalized shape has. Only the first result: the operator of the language.
fn layer_norm(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("input")?;
    let (rank, dtype) = (call.rank(x), call.dtype(x));
    let shape = call.dims_of("normalized_shape")?;
    let Some(first) = rank.checked_sub(shape.len()).filter(|_| !shape.is_empty()) else {
        return invalid("`normalized_shape` does not fit");
    };
    let axes: Vec<i64> = (first as i64..rank as i64).collect();
    let epsilon = call.float("eps")?;
    let (weight, bias) = (call.optional_tensor("weight")?, call.optional_tensor("bias")?);
    if let (Some(weight), Some(bias)) = (weight, bias)
        && !call.is_read(1)
        && !call.is_read(2)
        && call.dtype(weight) == dtype
    {
        let args =
            [x.into(), weight.into(), bias.into(), key("axes", axes), key("epsilon", epsilon)];
        return Ok(vec![call.call("layer_norm", &args)?]);
    }
    let (mut result, center, inverse) = unit(call, x, &axes, epsilon)?;
    if let Some(weight) = weight {
        result = pair(call, "multiply", result, weight)?;
    }
    if let Some(bias) = bias {
        result = pair(call, "add", result, bias)?;
    }
    Ok(vec![result, center, inverse])
}

fn rms_norm(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("input")?;
    let rank = call.rank(x);
    let shape = call.dims_of("normalized_shape")?;
    let Some(first) = rank.checked_sub(shape.len()) else {
        return invalid("`normalized_shape` does not fit");
    };
    let axes: Vec<i64> = (first as i64..rank as i64).collect();
    let epsilon = if call.has("eps") { call.float("eps")? } else { f64::from(f32::EPSILON) };
    let args = [x.into(), key("axes", axes), key("epsilon", epsilon)];
    let mut result = call.call("rms_norm", &args)?;
    if let Some(weight) = call.optional_tensor("weight")? {
        result = pair(call, "multiply", result, weight)?;
    }
    Ok(vec![result])
}

/// `(c,)` in the middle of the broadcast: `(c, 1, 1)`.
pub(super) fn by_channel(call: &mut Call, v: V, rank: usize) -> Done<V> {
    let mut dims = call.dims(v);
    dims.extend(vec![Dim::Int(1); rank.saturating_sub(2)]);
    reshape(call, v, dims)
}

fn affine(call: &mut Call, mut x: V) -> Done<V> {
    let (rank, dtype) = (call.rank(x), call.dtype(x));
    for (name, operator) in [("weight", "multiply"), ("bias", "add")] {
        if let Some(v) = call.optional_tensor(name)? {
            let column = by_channel(call, v, rank)?;
            let column = convert(call, column, dtype)?;
            x = pair(call, operator, x, column)?;
        }
    }
    Ok(x)
}

/// The channels in groups of equal size. The statistics have the shape (batch, group).
fn group_norm(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("input")?;
    let dims = call.dims(x);
    if dims.len() < 2 {
        return unsupported("a vector");
    }
    let groups = Dim::Int(call.int("group")?);
    let size = call.dim(DimOp::FloorDiv, &dims[1], &groups);
    let mut split = vec![dims[0].clone(), groups.clone(), size];
    split.extend_from_slice(&dims[2..]);
    let axes: Vec<i64> = (2..split.len() as i64).collect();
    let grouped = reshape(call, x, split)?;
    let epsilon = call.float("eps")?;
    let (unit, center, inverse) = unit(call, grouped, &axes, epsilon)?;
    let unit = reshape(call, unit, dims.clone())?;
    let result = affine(call, unit)?;
    let small = vec![dims[0].clone(), groups];
    let center = reshape(call, center, small.clone())?;
    Ok(vec![result, center, reshape(call, inverse, small)?])
}

/// With statistics that are weights; the further results are empty.
fn batch_norm(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("input")?;
    let (rank, dtype) = (call.rank(x), call.dtype(x));
    let (mean, variance) = (call.tensor("running_mean")?, call.tensor("running_var")?);
    let mean = by_channel(call, mean, rank)?;
    let mean = convert(call, mean, dtype)?;
    let variance = convert(call, variance, dtype)?;
    let epsilon = call.float("eps")?;
    let spread = plus(call, variance, epsilon)?;
    let inverse = call.call("rsqrt", &[spread.into()])?;
    let inverse = by_channel(call, inverse, rank)?;
    let away = pair(call, "subtract", x, mean)?;
    let unit = pair(call, "multiply", away, inverse)?;
    let result = affine(call, unit)?;
    let nothing = call.call("zeros", &[Arg::Shape(vec![Dim::Int(0)]), dtype.into()])?;
    Ok(vec![result, nothing, nothing])
}

/// All axes but that of the channels.
pub(super) fn other_axes(rank: usize) -> Vec<i64> {
    (0..rank as i64).filter(|&axis| axis != 1).collect()
}

/// With the new running statistics as further results. That of the variance counts one element less, as PyTorch does.
fn batch_norm_with_updates(call: &mut Call) -> Done<Vec<V>> {
    let (mean, spread) = (call.tensor("running_mean")?, call.tensor("running_var")?);
    if !call.bool("training")? {
        let mut results = batch_norm(call)?;
        results.extend([mean, spread]);
        return Ok(results);
    }
    let x = call.tensor("input")?;
    let mut results = batch_norm_of_batch(call)?;
    let (dims, dtype) = (call.dims(x), call.dtype(x));
    let axes = other_axes(dims.len());
    let center = by_channel(call, results[1], dims.len())?;
    let away = pair(call, "subtract", x, center)?;
    let own = variance(call, away, &axes)?;
    let own = reshape(call, own, vec![dims[1].clone()])?;
    let counted: Vec<Dim> = axes.iter().map(|&axis| dims[axis as usize].clone()).collect();
    let count = Dim::product(&counted);
    let less = call.dim(DimOp::Sub, &count, &Dim::Int(1));
    let [count, less] = [count, less].map(|dim| call.integers(vec![dim], 0, DType::I64));
    let (count, less) = (convert(call, count, dtype)?, convert(call, less, dtype)?);
    let own = pair(call, "multiply", own, count)?;
    let own = pair(call, "divide", own, less)?;
    let momentum = call.float("momentum")?;
    for (old, new) in [(mean, results[1]), (spread, own)] {
        let old = scaled(call, old, 1.0 - momentum)?;
        let new = scaled(call, new, momentum)?;
        results.push(pair(call, "add", old, new)?);
    }
    Ok(results)
}

fn batch_norm_of_batch(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("input")?;
    let dims = call.dims(x);
    if !call.bool("training")? || dims.len() < 2 {
        return unsupported("no statistics");
    }
    let axes = other_axes(dims.len());
    let epsilon = call.float("eps")?;
    let (unit, center, inverse) = unit(call, x, &axes, epsilon)?;
    let result = affine(call, unit)?;
    let center = reshape(call, center, vec![dims[1].clone()])?;
    Ok(vec![result, center, reshape(call, inverse, vec![dims[1].clone()])?])
}
