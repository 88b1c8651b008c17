//! Distances of rows, and bags of embeddings.

use crate::argument::{Arg, key};
use crate::aten::call::{Call, Row};
use crate::builder::V;
use crate::operators::arithmetic::{broadcast_call, pair};
use crate::operators::elementwise::convert;
use crate::operators::shape::reshape;
use crate::reason::{Done, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[
    ("_cdist_forward", cdist),
    ("_pdist_forward", pdist),
    ("_embedding_bag", bag),
    ("_embedding_bag_forward_only", bag),
];

fn cdist(call: &mut Call) -> Done<Vec<V>> {
    let (x, y, p) = (call.tensor("x1")?, call.tensor("x2")?, call.float("p")?);
    Ok(vec![distances(call, x, y, p)?])
}

/// The p-norm of the difference of each row of `x` and each of `y`.
fn distances(call: &mut Call, x: V, y: V, p: f64) -> Done<V> {
    let rows = |call: &mut Call, v: V, axis: i64| {
        call.call("expand_dims", &[v.into(), key("axis", vec![axis])])
    };
    let (x, y) = (rows(call, x, -2)?, rows(call, y, -3)?);
    let dtype = call.dtype(x);
    let difference = pair(call, "subtract", x, y)?;
    let fold = |call: &mut Call, operator: &str, v: V| {
        call.call(operator, &[v.into(), key("axis", vec![-1_i64])])
    };
    let sizes = call.call("abs", &[difference.into()])?;
    if p == f64::INFINITY {
        let width = call.dims(sizes).last().cloned().unwrap_or(Dim::Int(0));
        if !call.at_least(&width, 1) {
            return unsupported("the largest difference of rows that may have no elements");
        }
        return fold(call, "max", sizes);
    }
    let number = |call: &mut Call, value: f64| call.of_number(Number::Float(value), dtype);
    if p == 0.0 {
        let zero = number(call, 0.0);
        let differ = pair(call, "not_equal", sizes, zero)?;
        let differ = convert(call, differ, dtype)?;
        return fold(call, "sum", differ);
    }
    if p == 1.0 {
        return fold(call, "sum", sizes);
    }
    if p == 2.0 {
        let squares = call.call("square", &[sizes.into()])?;
        let sum = fold(call, "sum", squares)?;
        return call.call("sqrt", &[sum.into()]);
    }
    let (power, root) = (number(call, p), number(call, 1.0 / p));
    let powers = pair(call, "power", sizes, power)?;
    let sum = fold(call, "sum", powers)?;
    pair(call, "power", sum, root)
}

/// Of the distances of n rows those of row i to each row after it, i by i: n * (n - 1) / 2.
fn pdist(call: &mut Call) -> Done<Vec<V>> {
    let (x, p) = (call.tensor("self")?, call.float("p")?);
    let n = call.dims(x)[0].clone();
    let all = distances(call, x, x, p)?;
    let shape = Arg::Shape(vec![n.clone(), n.clone()]);
    let ones = call.call("ones", &[shape, DType::U8.into()])?;
    let above = call.call("triu", &[ones.into(), key("k", 1_i64)])?;
    let places = call.call("nonzero", &[above.into()])?;
    let before = call.dim(DimOp::Sub, &n, &Dim::Int(1));
    let pairs = call.dim(DimOp::Mul, &n, &before);
    let count = call.dim(DimOp::FloorDiv, &pairs, &Dim::Int(2));
    call.values[places.0].dims = vec![Dim::Int(2), count];
    let of = |call: &mut Call, row: i64| {
        let row = call.integers(vec![Dim::Int(row)], 0, DType::I64);
        call.call("take", &[places.into(), row.into(), key("axis", 0_i64)])
    };
    let (row, column) = (of(call, 0)?, of(call, 1)?);
    Ok(vec![call.call("index_tensor", &[all.into(), vec![row, column].into()])?])
}

/// Sums, means or maxima of runs of rows of a table; an empty run gives zeros. `offsets` tell where runs begin.
fn bag(call: &mut Call) -> Done<Vec<V>> {
    if (1..4).any(|result| call.is_read(result)) {
        return unsupported("the results of `_embedding_bag` that only its gradient needs");
    }
    let (weight, indices) = (call.tensor("weight")?, call.tensor("indices")?);
    let (dtype, mode) = (call.dtype(weight), call.int("mode")?);
    let mut rows = call.call("take", &[weight.into(), indices.into(), key("axis", 0_i64)])?;
    let (run, runs) = runs(call, indices)?;
    if let Some(weights) = call.optional_tensor("per_sample_weights")? {
        let weights = column(call, weights)?;
        rows = pair(call, "multiply", rows, weights)?;
    }
    let of_each = Arg::Shape(call.dims(indices));
    let ones = call.call("ones", &[of_each, dtype.into()])?;
    let mut counted = ones;
    if call.has("padding_idx") && call.int("padding_idx")? >= 0 {
        let padding = Number::Int(call.int("padding_idx")?.into());
        let padding = call.of_number(padding, call.dtype(indices));
        let is_real = pair(call, "not_equal", indices, padding)?;
        counted = convert(call, is_real, dtype)?;
        let is_real = column(call, is_real)?;
        let filling = if mode == 2 { f64::NEG_INFINITY } else { 0.0 };
        let filling = call.of_number(Number::Float(filling), dtype);
        rows = broadcast_call(call, "where", &[is_real, rows, filling])?;
    }
    let width = call.dims(weight)[1].clone();
    let counts = |call: &mut Call| {
        let counts = summed(call, vec![runs.clone()], run, counted)?;
        column(call, counts)
    };
    let shape = vec![runs.clone(), width];
    let result = match mode {
        0 => summed(call, shape, run, rows)?,
        1 => {
            let counts = counts(call)?;
            let sums = summed(call, shape, run, rows)?;
            let one = call.of_number(Number::Float(1.0), dtype);
            let counts = pair(call, "maximum", counts, one)?;
            pair(call, "divide", sums, counts)?
        }
        2 => {
            let counts = counts(call)?;
            let zero = call.of_number(Number::Float(0.0), dtype);
            let least = call.of_number(Number::Float(f64::NEG_INFINITY), dtype);
            let least = call.call("broadcast_to", &[least.into(), Arg::Shape(shape)])?;
            let shape = Arg::Shape(call.dims(rows));
            let run = column(call, run)?;
            let run = call.call("broadcast_to", &[run.into(), shape])?;
            let args = [
                least.into(),
                run.into(),
                rows.into(),
                key("axis", 0_i64),
                key("reduction", "max"),
            ];
            let most = call.call("scatter_elements", &args)?;
            let is_empty = pair(call, "equal", counts, zero)?;
            broadcast_call(call, "where", &[is_empty, zero, most])?
        }
        other => return unsupported(format!("mode {other} of bags")),
    };
    Ok(vec![result])
}

/// Of each index the number of its run, and how many runs there are.
fn runs(call: &mut Call, indices: V) -> Done<(V, Dim)> {
    let offsets = call.tensor("offsets")?;
    let offsets = convert(call, offsets, DType::I64)?;
    let (count, given) = (call.dims(indices)[0].clone(), call.dims(offsets)[0].clone());
    let places = call.call("arange", &[count.into(), key("dtype", DType::I64)])?;
    let begun = call.call("bucketize", &[places.into(), offsets.into(), key("right", true)])?;
    let one = call.of_number(Number::Int(1), DType::I64);
    let run = pair(call, "subtract", begun, one)?;
    let has_last = call.has("include_last_offset") && call.bool("include_last_offset")?;
    let last = Dim::Int(i64::from(has_last));
    Ok((run, call.dim(DimOp::Sub, &given, &last)))
}

fn column(call: &mut Call, v: V) -> Done<V> {
    let mut dims = call.dims(v);
    dims.push(Dim::Int(1));
    reshape(call, v, dims)
}

/// Zeros of a shape, to which each part is added where its number says.
fn summed(call: &mut Call, shape: Vec<Dim>, run: V, parts: V) -> Done<V> {
    let dtype = call.dtype(parts);
    let zeros = call.call("zeros", &[Arg::Shape(shape), dtype.into()])?;
    let args = [zeros.into(), vec![run].into(), parts.into(), key("accumulate", true)];
    call.call("index_put", &args)
}
