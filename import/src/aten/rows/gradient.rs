//! Operators that PyTorch's gradients are made of.

use super::conv_gradient::by_channel as sum_by_channel;
use super::norm::{by_channel, mean, other_axes};
use crate::argument::{Arg, key};
use crate::aten::call::{Argument, Call, Row};
use crate::builder::V;
use crate::operators::activation::plus;
use crate::operators::arithmetic::{broadcast_call, pair};
use crate::operators::elementwise::convert;
use crate::operators::shape::reshape;
use crate::reason::{Done, invalid, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dim::{Dim, DimOp};

pub(super) const ROWS: &[(&str, Row)] = &[
    ("embedding_dense_backward", embedding),
    ("native_layer_norm_backward", layer_norm),
    ("native_batch_norm_backward", batch_norm),
    ("native_group_norm_backward", group_norm),
    ("_softmax_backward_data", softmax),
    ("_log_softmax_backward_data", log_softmax),
];

/// The sums of the gradients by index, without those of the padding index.
fn embedding(call: &mut Call) -> Done<Vec<V>> {
    let (gradient, indices) = (call.tensor("grad_output")?, call.tensor("indices")?);
    if call.bool("scale_grad_by_freq")? {
        return unsupported("scale_grad_by_freq");
    }
    let rows = call.dim_of("num_weights")?;
    let padding = call.int("padding_idx")?;
    let dtype = call.dtype(gradient);
    let width = call.dims(gradient).last().cloned();
    let Some(width) = width else { return invalid("a gradient of rank 0") };
    let mut values = gradient;
    if padding >= 0 {
        let own = call.dtype(indices);
        let skipped = call.integers(vec![Dim::Int(padding)], 0, own);
        let kept = call.call("not_equal", &[indices.into(), skipped.into()])?;
        let last = call.rank(indices) as i64;
        let kept = call.call("expand_dims", &[kept.into(), key("axis", vec![last])])?;
        let zero = call.of_number(Number::Int(0), dtype);
        values = broadcast_call(call, "where", &[kept, values, zero])?;
    }
    let base = call.call("zeros", &[Arg::Shape(vec![rows, width]), dtype.into()])?;
    let args = [base.into(), vec![indices].into(), values.into(), key("accumulate", true)];
    Ok(vec![call.call("index_put", &args)?])
}

/// Of `y = u * weight + bias` with `u = (x - mean) * rstd`, `g = dy * weight` and the mean over the axes:
/// of x `rstd * (g - mean(g) - u * mean(g * u))`.
fn of_unit(call: &mut Call, g: V, unit: V, inverse: V, axes: &[i64]) -> Done<V> {
    let level = mean(call, g, axes)?;
    let product = pair(call, "multiply", g, unit)?;
    let slope = mean(call, product, axes)?;
    let slope = pair(call, "multiply", unit, slope)?;
    let rest = pair(call, "subtract", g, level)?;
    let rest = pair(call, "subtract", rest, slope)?;
    pair(call, "multiply", rest, inverse)
}

/// Of the data, and of the weight and the bias by channel. Without training the statistics are weights.
fn batch_norm(call: &mut Call) -> Done<Vec<V>> {
    let (g, x) = (call.tensor("grad_out")?, call.tensor("input")?);
    let (rank, dtype) = (call.rank(x), call.dtype(x));
    let is_training = call.bool("train")?;
    let (center, inverse) = if is_training {
        (call.tensor("save_mean")?, call.tensor("save_invstd")?)
    } else {
        let spread = call.tensor("running_var")?;
        let epsilon = call.float("eps")?;
        let spread = plus(call, spread, epsilon)?;
        (call.tensor("running_mean")?, call.call("rsqrt", &[spread.into()])?)
    };
    let mut columns = Vec::new();
    for v in [center, inverse] {
        let column = by_channel(call, v, rank)?;
        columns.push(convert(call, column, dtype)?);
    }
    let away = pair(call, "subtract", x, columns[0])?;
    let unit = pair(call, "multiply", away, columns[1])?;
    let weighted = weighted(call, g, rank)?;
    let of_x = if is_training {
        of_unit(call, weighted, unit, columns[1], &other_axes(rank))?
    } else {
        pair(call, "multiply", weighted, columns[1])?
    };
    let by_unit = pair(call, "multiply", g, unit)?;
    Ok(vec![of_x, sum_by_channel(call, by_unit)?, sum_by_channel(call, g)?])
}

/// A gradient times the weight of its channel, where there is one.
fn weighted(call: &mut Call, g: V, rank: usize) -> Done<V> {
    let Some(weight) = call.optional_tensor("weight")? else { return Ok(g) };
    let (weight, dtype) = (by_channel(call, weight, rank)?, call.dtype(g));
    let weight = convert(call, weight, dtype)?;
    pair(call, "multiply", g, weight)
}

/// The channels are in groups, each with its statistics.
fn group_norm(call: &mut Call) -> Done<Vec<V>> {
    let (g, x) = (call.tensor("grad_out")?, call.tensor("input")?);
    let (center, inverse) = (call.tensor("mean")?, call.tensor("rstd")?);
    let dims = call.dims(x);
    if dims.len() < 2 {
        return invalid("data without channels");
    }
    let groups = Dim::Int(call.int("group")?);
    let size = call.dim(DimOp::FloorDiv, &dims[1], &groups);
    let mut split = vec![dims[0].clone(), groups.clone(), size];
    split.extend_from_slice(&dims[2..]);
    let axes: Vec<i64> = (2..split.len() as i64).collect();
    let mut small = vec![dims[0].clone(), groups];
    small.resize(split.len(), Dim::Int(1));
    let grouped = reshape(call, x, split.clone())?;
    let center = reshape(call, center, small.clone())?;
    let inverse = reshape(call, inverse, small)?;
    let away = pair(call, "subtract", grouped, center)?;
    let unit = pair(call, "multiply", away, inverse)?;
    let weighted = weighted(call, g, dims.len())?;
    let weighted = reshape(call, weighted, split)?;
    let of_x = of_unit(call, weighted, unit, inverse, &axes)?;
    let (of_x, unit) = (reshape(call, of_x, dims.clone())?, reshape(call, unit, dims)?);
    let by_unit = pair(call, "multiply", g, unit)?;
    Ok(vec![of_x, sum_by_channel(call, by_unit)?, sum_by_channel(call, g)?])
}

fn layer_norm(call: &mut Call) -> Done<Vec<V>> {
    let (gradient, x) = (call.tensor("grad_out")?, call.tensor("input")?);
    let (center, inverse) = (call.tensor("mean")?, call.tensor("rstd")?);
    let rank = call.rank(x);
    let count = call.dims_of("normalized_shape")?.len();
    let Some(first) = rank.checked_sub(count) else { return invalid("`normalized_shape`") };
    let axes: Vec<i64> = (first as i64..rank as i64).collect();
    let outer: Vec<i64> = (0..first as i64).collect();
    let away = pair(call, "subtract", x, center)?;
    let unit = pair(call, "multiply", away, inverse)?;
    let mut weighted = gradient;
    if let Argument::Tensor(weight) = *call.argument("weight") {
        weighted = pair(call, "multiply", gradient, weight)?;
    }
    let of_x = of_unit(call, weighted, unit, inverse, &axes)?;
    let total = |call: &mut Call, v: V| {
        if outer.is_empty() {
            return Ok(v);
        }
        call.call("sum", &[v.into(), key("axis", outer.clone())])
    };
    let by_unit = pair(call, "multiply", gradient, unit)?;
    let of_weight = total(call, by_unit)?;
    let of_bias = total(call, gradient)?;
    Ok(vec![of_x, of_weight, of_bias])
}

fn softmax(call: &mut Call) -> Done<Vec<V>> {
    let (gradient, y) = (call.tensor("grad_output")?, call.tensor("output")?);
    let axis = call.axis_of("dim", call.rank(y))?;
    let product = pair(call, "multiply", gradient, y)?;
    let sum = along(call, product, axis)?;
    let away = pair(call, "subtract", gradient, sum)?;
    Ok(vec![pair(call, "multiply", y, away)?])
}

fn log_softmax(call: &mut Call) -> Done<Vec<V>> {
    let (gradient, y) = (call.tensor("grad_output")?, call.tensor("output")?);
    let axis = call.axis_of("dim", call.rank(y))?;
    let sum = along(call, gradient, axis)?;
    let shares = call.call("exp", &[y.into()])?;
    let shares = pair(call, "multiply", shares, sum)?;
    Ok(vec![pair(call, "subtract", gradient, shares)?])
}

fn along(call: &mut Call, x: V, axis: usize) -> Done<V> {
    call.call("sum", &[x.into(), key("axis", axis), key("keepdims", true)])
}
