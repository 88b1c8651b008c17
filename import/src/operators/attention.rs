//! Attention with its cache, and rotary embeddings.

use super::activation::scaled;
use super::arithmetic::{broadcast_call, pair};
use super::elementwise::convert;
use super::shape::{permuted, reshape};
use super::slice::along;
use crate::argument::{Arg, key};
use crate::builder::V;
use crate::node::{Importer, Node};
use crate::reason::{Done, Reason, invalid, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

pub(super) const OPERATORS: &[(&str, Importer)] =
    &[("Attention", attention), ("RotaryEmbedding", rotary)];

/// `(b, s, h * d)` as `(b, h, s, d)`.
fn by_head(node: &mut Node, x: V, heads: &str) -> Done<V> {
    if node.rank(x) == 4 {
        return Ok(x);
    }
    let dims = node.dims(x);
    let count = node.optional_int(heads).filter(|&count| count > 0 && dims.len() == 3);
    let count = count.ok_or_else(|| Reason::Invalid(format!("`{heads}` is missing")))?;
    let width = node.dim(DimOp::FloorDiv, &dims[2], &Dim::Int(count));
    let split = vec![dims[0].clone(), dims[1].clone(), Dim::Int(count), width];
    let x = reshape(node, x, split)?;
    permuted(node, x, &[0, 2, 1, 3])
}

fn attention(node: &mut Node) -> Done<Vec<V>> {
    let (q, k, v) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let flat = node.rank(q) == 3;
    let own = node.dtype(q);
    let q = by_head(node, q, "q_num_heads")?;
    let mut k = by_head(node, k, "kv_num_heads")?;
    let mut v = by_head(node, v, "kv_num_heads")?;
    let past = node.optional(4).map(|past| node.dims(past)[2].clone());
    for (now, index) in [(&mut k, 4), (&mut v, 5)] {
        if let Some(past) = node.optional(index) {
            *now = node.call("concat", &[vec![past, *now].into(), key("axis", 2_i64)])?;
        }
    }
    let (present_k, present_v) = (k, v);
    let (heads, shared) = (node.dims(q)[1].clone(), node.dims(k)[1].clone());
    let groups = node.dim(DimOp::FloorDiv, &heads, &shared);
    if groups != Dim::Int(1) {
        for now in [&mut k, &mut v] {
            *now =
                node.call("repeat", &[(*now).into(), groups.clone().into(), key("axis", 1_i64)])?;
        }
    }
    let scores = products(node, q, k)?;
    let capped = capped(node, scores)?;
    let masked = masked(node, capped, past)?;
    let precise = node.dtype_attribute("softmax_precision")?.unwrap_or(own);
    let wide = convert(node, masked, precise)?;
    let weights = node.call("softmax", &[wide.into(), key("axis", -1_i64)])?;
    let weights = convert(node, weights, own)?;
    let weights = seen(node, weights)?;
    let shown = match node.int("qk_matmul_output_mode", 0) {
        0 => scores,
        1 => capped,
        2 => masked,
        _ => weights,
    };
    let mut y = node.call("matmul", &[weights.into(), v.into()])?;
    if flat {
        y = permuted(node, y, &[0, 2, 1, 3])?;
        let dims = node.dims(y);
        let dims = vec![dims[0].clone(), dims[1].clone(), Dim::product(&dims[2..])];
        y = reshape(node, y, dims)?;
    }
    Ok(vec![y, present_k, present_v, shown])
}

/// `(q * sqrt(scale)) @ (k * sqrt(scale))^T`
fn products(node: &mut Node, q: V, k: V) -> Done<V> {
    let root = match (node.optional_float("scale"), node.dims(q)[3].as_int()) {
        (Some(scale), _) => scale.sqrt(),
        (None, Some(width)) => (1.0 / (width as f64).sqrt()).sqrt(),
        (None, None) => return unsupported("heads of symbolic width without a scale"),
    };
    let q = scaled(node, q, root)?;
    let k = scaled(node, k, root)?;
    let k = permuted(node, k, &[0, 1, 3, 2])?;
    node.call("matmul", &[q.into(), k.into()])
}

/// Scores limited by `softcap`: before the mask, as the definition says since its errata.
fn capped(node: &mut Node, scores: V) -> Done<V> {
    let cap = node.float("softcap", 0.0);
    if cap <= 0.0 {
        return Ok(scores);
    }
    let limit = Arg::Scalar(node.dtype(scores), Number::Float(cap));
    let parts = node.call("divide", &[scores.into(), limit.clone()])?;
    let parts = node.call("tanh", &[parts.into()])?;
    node.call("multiply", &[parts.into(), limit])
}

fn masked(node: &mut Node, scores: V, past: Option<Dim>) -> Done<V> {
    let mut y = scores;
    let dtype = node.dtype(y);
    let infinite = node.scalar(dtype, f64::NEG_INFINITY);
    if let Some(mask) = node.optional(3) {
        y = if node.dtype(mask) == DType::Bool {
            broadcast_call(node, "where", &[mask, y, infinite])?
        } else {
            pair(node, "add", y, mask)?
        };
    }
    if let Some(lengths) = node.optional(6) {
        let dims = node.dims(y);
        let ends = key_ends(node, lengths, &dims)?;
        let places = node.call("arange", &[dims[3].clone().into(), key("dtype", DType::I64)])?;
        let kept = node.call("less", &[places.into(), ends.into()])?;
        return broadcast_call(node, "where", &[kept, y, infinite]);
    }
    if node.int("is_causal", 0) != 0 {
        let dims = node.dims(y);
        let square = Arg::Shape(dims[2..].to_vec());
        let ones = node.call("ones", &[square, DType::I8.into()])?;
        let seen = node.call("tril", &[ones.into(), key("k", past.unwrap_or(Dim::Int(0)))])?;
        let seen = node.call("astype", &[seen.into(), DType::Bool.into()])?;
        y = broadcast_call(node, "where", &[seen, y, infinite])?;
    }
    Ok(y)
}

/// Before which key each query ends, where lengths without padding are given (operator set 24): `(b, 1, q or 1, 1)`. The
/// last query of a causal product sees all keys of its batch.
fn key_ends(node: &mut Node, lengths: V, scores: &[Dim]) -> Done<V> {
    let one = Dim::Int(1);
    let lengths =
        reshape(node, lengths, vec![scores[0].clone(), one.clone(), one.clone(), one.clone()])?;
    if node.int("is_causal", 0) == 0 {
        return Ok(lengths);
    }
    let queries = node.call("arange", &[scores[2].clone().into(), key("dtype", DType::I64)])?;
    let queries = reshape(node, queries, vec![scores[2].clone(), one])?;
    let before = node.dim(DimOp::Sub, &Dim::Int(1), &scores[2]);
    let before = node.integers(vec![before], 0, DType::I64);
    let after = node.call("add", &[queries.into(), before.into()])?;
    node.call("add", &[lengths.into(), after.into()])
}

/// Weights of queries that see no key are 0.
fn seen(node: &mut Node, weights: V) -> Done<V> {
    let Some(lengths) = node.optional(6) else { return Ok(weights) };
    let dims = node.dims(weights);
    let ends = key_ends(node, lengths, &dims)?;
    let some = node.call("greater", &[ends.into(), Arg::Scalar(DType::I64, Number::Int(0))])?;
    let dtype = node.dtype(weights);
    let zero = node.scalar(dtype, 0.0);
    broadcast_call(node, "where", &[some, weights, zero])
}

/// The elements from `begin` to `end` of the last axis, every `stride`-th.
fn last(node: &mut Node, x: V, begin: i64, end: i64, stride: i64) -> Done<V> {
    let axis = node.rank(x) - 1;
    along(node, x, axis, (begin, end, stride))
}

fn rotary(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let flat = node.rank(x) == 3;
    let dims = node.dims(x);
    let x = by_head(node, x, "num_heads")?;
    // (b, s, h, d)
    let x = permuted(node, x, &[0, 2, 1, 3])?;
    let width = node.dims(x)[3].as_int();
    let width = width.ok_or_else(|| Reason::Unsupported("heads of symbolic width".to_owned()))?;
    let turned = match node.int("rotary_embedding_dim", 0) {
        0 => width,
        some if (0..=width).contains(&some) => some,
        _ => return invalid("rotary_embedding_dim is wider than a head"),
    };
    let mut caches = Vec::new();
    for index in [1, 2] {
        let mut cache = node.input(index)?;
        if let Some(places) = node.optional(3) {
            cache = node.call("take", &[cache.into(), places.into(), key("axis", 0_i64)])?;
        }
        // A cache may be made for wider heads than are turned.
        if node.dims(cache).last().is_some_and(|width| *width != Dim::Int(turned / 2)) {
            cache = last(node, cache, 0, turned / 2, 1)?;
        }
        caches.push(node.call("expand_dims", &[cache.into(), key("axis", vec![2_i64])])?);
    }
    let (cos, sin) = (caches[0], caches[1]);
    let interleaved = node.int("interleaved", 0) != 0;
    let (a, b) = if interleaved {
        (last(node, x, 0, turned, 2)?, last(node, x, 1, turned, 2)?)
    } else {
        (last(node, x, 0, turned / 2, 1)?, last(node, x, turned / 2, turned, 1)?)
    };
    let (ca, sb) = (pair(node, "multiply", cos, a)?, pair(node, "multiply", sin, b)?);
    let (sa, cb) = (pair(node, "multiply", sin, a)?, pair(node, "multiply", cos, b)?);
    let (real, imaginary) = (pair(node, "subtract", ca, sb)?, pair(node, "add", sa, cb)?);
    let mut y = if interleaved {
        let both = node.call("stack", &[vec![real, imaginary].into(), key("axis", -1_i64)])?;
        let mut dims = node.dims(x);
        dims[3] = Dim::Int(turned);
        reshape(node, both, dims)?
    } else {
        node.call("concat", &[vec![real, imaginary].into(), key("axis", -1_i64)])?
    };
    if turned < width {
        let rest = last(node, x, turned, width, 1)?;
        y = node.call("concat", &[vec![y, rest].into(), key("axis", -1_i64)])?;
    }
    if flat {
        return Ok(vec![reshape(node, y, dims)?]);
    }
    Ok(vec![permuted(node, y, &[0, 2, 1, 3])?])
}
