//! Operators that PyTorch's gradients are made of.

use crate::argument::{Arg, key};
use crate::aten::call::{Argument, Call, Row};
use crate::builder::V;
use crate::operators::arithmetic::{broadcast_call, pair};
use crate::reason::{Done, invalid, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dim::Dim;

pub(super) const ROWS: &[(&str, Row)] = &[
    ("embedding_dense_backward", embedding),
    ("native_layer_norm_backward", layer_norm),
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

fn mean(call: &mut Call, x: V, axes: &[i64]) -> Done<V> {
    call.call("mean", &[x.into(), key("axis", axes), key("keepdims", true)])
}

/// Of `y = u * weight + bias` with `u = (x - mean) * rstd`: of x `rstd * (g - mean(g) - u * mean(g * u))` with `g = dy * weight`.
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
    let level = mean(call, weighted, &axes)?;
    let product = pair(call, "multiply", weighted, unit)?;
    let slope = mean(call, product, &axes)?;
    let slope = pair(call, "multiply", unit, slope)?;
    let rest = pair(call, "subtract", weighted, level)?;
    let rest = pair(call, "subtract", rest, slope)?;
    let of_x = pair(call, "multiply", rest, inverse)?;
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
