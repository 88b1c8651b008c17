//! Products of matrices, and attention.

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
    ("mm", |call| product(call, "self", "mat2")),
    ("bmm", |call| product(call, "self", "mat2")),
    ("matmul", |call| product(call, "self", "other")),
    ("mv", |call| product(call, "self", "vec")),
    ("dot", |call| product(call, "self", "tensor")),
    ("addmm", |call| added(call, "mat1", "mat2")),
    ("baddbmm", |call| added(call, "batch1", "batch2")),
    ("linear", linear),
    ("scaled_dot_product_attention", attention),
];

fn product(call: &mut Call, first: &str, second: &str) -> Done<Vec<V>> {
    let (x, y) = (call.tensor(first)?, call.tensor(second)?);
    if call.dtype(x) == DType::Bool {
        return unsupported("a product of bools");
    }
    Ok(vec![call.call("matmul", &[x.into(), y.into()])?])
}

fn is_one(number: Number) -> bool {
    matches!(number, Number::Int(1)) || number == Number::Float(1.0)
}

/// `beta * self + alpha * (a @ b)`; with beta 0 NaN in `self` does not count.
fn added(call: &mut Call, first: &str, second: &str) -> Done<Vec<V>> {
    let base = call.tensor("self")?;
    let mut sum = product(call, first, second)?[0];
    let dtype = call.dtype(sum);
    let (alpha, beta) = (call.number("alpha")?, call.number("beta")?);
    if !is_one(alpha) {
        let alpha = call.of_number(alpha, dtype);
        sum = pair(call, "multiply", sum, alpha)?;
    }
    if matches!(beta, Number::Int(0)) || beta == Number::Float(0.0) {
        return Ok(vec![sum]);
    }
    let mut base = base;
    if !is_one(beta) {
        let beta = call.of_number(beta, dtype);
        base = pair(call, "multiply", base, beta)?;
    }
    Ok(vec![pair(call, "add", sum, base)?])
}

fn linear(call: &mut Call) -> Done<Vec<V>> {
    let (x, weight) = (call.tensor("input")?, call.tensor("weight")?);
    let turned = if call.rank(weight) == 2 { permuted(call, weight, &[1, 0])? } else { weight };
    let product = call.call("matmul", &[x.into(), turned.into()])?;
    match call.optional_tensor("bias")? {
        Some(bias) => Ok(vec![pair(call, "add", product, bias)?]),
        None => Ok(vec![product]),
    }
}

/// `softmax(q @ k^T * scale + mask) @ v`. A row that sees nothing is 0 in PyTorch, and NaN in the softmax of the language.
fn attention(call: &mut Call) -> Done<Vec<V>> {
    let (q, k, v) = (call.tensor("query")?, call.tensor("key")?, call.tensor("value")?);
    if call.has("dropout_p") && call.float("dropout_p")? != 0.0 {
        return unsupported(
            "dropout in training, which is random: export the model after `model.eval()`",
        );
    }
    let rank = call.rank(k);
    if call.bool("enable_gqa")? || rank < 2 {
        return unsupported("groups of heads in the operator");
    }
    let mut axes: Vec<i64> = (0..rank as i64).collect();
    axes.swap(rank - 1, rank - 2);
    let turned = permuted(call, k, &axes)?;
    let scores = call.call("matmul", &[q.into(), turned.into()])?;
    let scale = if call.has("scale") {
        call.float("scale")?
    } else {
        let width = call.dims(q).last().and_then(Dim::as_int);
        match width.filter(|&width| width > 0) {
            Some(width) => 1.0 / (width as f64).sqrt(),
            None => return unsupported("a symbolic width of heads"),
        }
    };
    let mut scores = scaled(call, scores, scale)?;
    let dtype = call.dtype(scores);
    let least: Arg = call.of_number(Number::Float(f64::NEG_INFINITY), dtype).into();
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
    let soft = call.call("softmax", &[scores.into(), key("axis", -1_i64)])?;
    let hidden = call.call("equal", &[scores.into(), least])?;
    // The product of bools is whether all are true.
    let blind = call.call("prod", &[hidden.into(), key("axis", -1_i64), key("keepdims", true)])?;
    let zero = call.of_number(Number::Int(0), dtype);
    let soft = broadcast_call(call, "where", &[blind, zero, soft])?;
    Ok(vec![call.call("matmul", &[soft.into(), v.into()])?])
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
