//! Attention, and its gradient.

use crate::argument::{Arg, key};
use crate::aten::call::{Call, Row};
use crate::builder::V;
use crate::operators::activation::scaled;
use crate::operators::arithmetic::{broadcast_call, pair};
use crate::operators::elementwise::convert;
use crate::operators::shape::permuted;
use crate::reason::{Done, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[
    ("scaled_dot_product_attention", attention),
    ("_scaled_dot_product_flash_attention_for_cpu", with_logarithms),
    ("_scaled_dot_product_flash_attention_for_cpu_backward", backward),
];

/// `softmax(q @ k^T * scale + mask) @ v`
fn attention(call: &mut Call) -> Done<Vec<V>> {
    let scores = scores(call)?;
    Ok(vec![attended(call, scores)?])
}

fn attended(call: &mut Call, scores: V) -> Done<V> {
    let v = call.tensor("value")?;
    let shares = shares(call, scores)?;
    call.call("matmul", &[shares.into(), v.into()])
}

/// The second result: the logarithm of the sum of exponentials of each row of scores.
fn with_logarithms(call: &mut Call) -> Done<Vec<V>> {
    let scores = scores(call)?;
    let mut results = vec![attended(call, scores)?];
    if call.is_read(1) {
        results.push(logarithms(call, scores)?);
    }
    Ok(results)
}

fn logarithms(call: &mut Call, scores: V) -> Done<V> {
    let axis = || key("axis", -1_i64);
    let top = call.call("max", &[scores.into(), axis(), key("keepdims", true)])?;
    // A row that sees nothing has no finite maximum.
    let dtype = call.dtype(scores);
    let least = call.of_number(Number::Float(f64::NEG_INFINITY), dtype);
    let zero = call.of_number(Number::Int(0), dtype);
    let blind = call.call("equal", &[top.into(), least.into()])?;
    let top = broadcast_call(call, "where", &[blind, zero, top])?;
    let away = pair(call, "subtract", scores, top)?;
    let powers = call.call("exp", &[away.into()])?;
    let sums = call.call("sum", &[powers.into(), axis()])?;
    let sums = call.call("log", &[sums.into()])?;
    let top = call.call("squeeze", &[top.into(), key("axis", vec![-1_i64])])?;
    pair(call, "add", sums, top)
}

/// Of `o = p @ v` with the shares p: `dv = p^T @ do`, and of the scores `p * (do @ v^T - sum(do * o))`.
fn backward(call: &mut Call) -> Done<Vec<V>> {
    let (g, out) = (call.tensor("grad_out")?, call.tensor("out")?);
    let (q, k, v) = (call.tensor("query")?, call.tensor("key")?, call.tensor("value")?);
    let scores = scores(call)?;
    let shares = shares(call, scores)?;
    let rows = turned(call, shares)?;
    let of_v = call.call("matmul", &[rows.into(), g.into()])?;
    let columns = turned(call, v)?;
    let of_shares = call.call("matmul", &[g.into(), columns.into()])?;
    let product = pair(call, "multiply", g, out)?;
    let level = call.call("sum", &[product.into(), key("axis", -1_i64), key("keepdims", true)])?;
    let away = pair(call, "subtract", of_shares, level)?;
    let of_scores = pair(call, "multiply", shares, away)?;
    let scale = scale(call)?;
    let of_scores = scaled(call, of_scores, scale)?;
    let of_q = call.call("matmul", &[of_scores.into(), k.into()])?;
    let of_scores = turned(call, of_scores)?;
    let of_k = call.call("matmul", &[of_scores.into(), q.into()])?;
    Ok(vec![of_q, of_k, of_v])
}

/// The last two axes exchanged.
fn turned(call: &mut Call, x: V) -> Done<V> {
    let rank = call.rank(x);
    let mut axes: Vec<i64> = (0..rank as i64).collect();
    axes.swap(rank - 1, rank - 2);
    permuted(call, x, &axes)
}

fn scale(call: &Call) -> Done<f64> {
    if call.has("scale") {
        return call.float("scale");
    }
    let width = call.dims(call.tensor("query")?).last().and_then(Dim::as_int);
    match width.filter(|&width| width > 0) {
        Some(width) => Ok(1.0 / (width as f64).sqrt()),
        None => unsupported("a symbolic width of heads"),
    }
}

/// `q @ k^T * scale + mask`
fn scores(call: &mut Call) -> Done<V> {
    let (q, k) = (call.tensor("query")?, call.tensor("key")?);
    if call.has("dropout_p") && call.float("dropout_p")? != 0.0 {
        return unsupported(
            "dropout in training, which is random: export the model after `model.eval()`",
        );
    }
    if call.bool("enable_gqa")? || call.rank(k) < 2 {
        return unsupported("groups of heads in the operator");
    }
    let columns = turned(call, k)?;
    let scores = call.call("matmul", &[q.into(), columns.into()])?;
    let scale = scale(call)?;
    let mut scores = scaled(call, scores, scale)?;
    if let Some(mask) = call.optional_tensor("attn_mask")? {
        scores = masked(call, scores, mask)?;
    }
    if call.bool("is_causal")? {
        let dims = call.dims(scores);
        let shape = dims[dims.len() - 2..].to_vec();
        let ones = call.call("ones", &[Arg::Shape(shape), DType::U8.into()])?;
        let seen = call.call("tril", &[ones.into()])?;
        let seen = convert(call, seen, DType::Bool)?;
        scores = masked(call, scores, seen)?;
    }
    Ok(scores)
}

/// The softmax of each row. A row that sees nothing is 0 in PyTorch, and NaN in the softmax of the language.
fn shares(call: &mut Call, scores: V) -> Done<V> {
    let dtype = call.dtype(scores);
    let least: Arg = call.of_number(Number::Float(f64::NEG_INFINITY), dtype).into();
    let soft = call.call("softmax", &[scores.into(), key("axis", -1_i64)])?;
    let hidden = call.call("equal", &[scores.into(), least])?;
    // The product of bools is whether all are true.
    let blind = call.call("prod", &[hidden.into(), key("axis", -1_i64), key("keepdims", true)])?;
    let zero = call.of_number(Number::Int(0), dtype);
    broadcast_call(call, "where", &[blind, zero, soft])
}

/// With a mask of floats added, or minus infinity where a mask of bools is false.
fn masked(call: &mut Call, scores: V, mask: V) -> Done<V> {
    if call.dtype(mask) != DType::Bool {
        return pair(call, "add", scores, mask);
    }
    let dtype = call.dtype(scores);
    let least = call.of_number(Number::Float(f64::NEG_INFINITY), dtype);
    broadcast_call(call, "where", &[mask, scores, least])
}
