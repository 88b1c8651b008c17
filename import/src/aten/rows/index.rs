//! Elements and slices by index, read and written. PyTorch counts negative indices of `index` and `index_put` from the end, and
//! refuses them elsewhere; the operators of the language do the same.

use super::movement::index_of;
use crate::argument::{Arg, key};
use crate::aten::call::{Argument, Call, Row};
use crate::builder::V;
use crate::operators::arithmetic::broadcast_call;
use crate::operators::elementwise::convert;
use crate::operators::shape::{inverse, permuted, reshape};
use crate::operators::slice::part;
use crate::reason::{Done, invalid, unsupported};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[
    ("embedding", embedding),
    ("index_select", index_select),
    ("index.Tensor", index),
    ("index_put", index_put),
    ("_unsafe_index_put", index_put),
    ("_unsafe_index.Tensor", index),
    ("gather", gather),
    ("slice_scatter", slice_scatter),
    ("select_scatter", select_scatter),
    ("masked_fill", masked_fill),
    ("masked_scatter", masked_scatter),
    ("nonzero", nonzero),
];

fn embedding(call: &mut Call) -> Done<Vec<V>> {
    let (weight, indices) = (call.tensor("weight")?, call.tensor("indices")?);
    Ok(vec![call.call("take", &[weight.into(), indices.into(), key("axis", 0_i64)])?])
}

fn index_select(call: &mut Call) -> Done<Vec<V>> {
    let (x, index) = (call.tensor("self")?, call.tensor("index")?);
    let rank = call.rank(x);
    let axis = call.axis_of("dim", rank)?;
    let (x, index) = (at_least_one(call, x)?, at_least_one(call, index)?);
    let taken = call.call("take", &[x.into(), index.into(), key("axis", axis)])?;
    // Of a scalar PyTorch takes one element, as a scalar.
    Ok(vec![if rank == 0 { reshape(call, taken, Vec::new())? } else { taken }])
}

/// The index tensors and the axes that they index. A mask becomes the places where it is true.
fn places(call: &mut Call) -> Done<(Vec<V>, Vec<usize>)> {
    let Argument::List(items) = call.argument("indices").clone() else {
        return invalid("`indices` is no list");
    };
    let (mut tensors, mut axes) = (Vec::new(), Vec::new());
    let mut axis = 0;
    for item in items {
        match item {
            Argument::None => axis += 1,
            Argument::Tensor(v) if matches!(call.dtype(v), DType::Bool | DType::U8) => {
                let rank = call.rank(v);
                if rank == 0 {
                    return unsupported("a mask of rank 0");
                }
                let found = call.call("nonzero", &[v.into()])?;
                call.values[found.0].dims[0] = Dim::Int(rank as i64);
                for place in 0..rank {
                    let row = call.integers(vec![Dim::Int(place as i64)], 0, DType::I64);
                    let row = call.call("take", &[found.into(), row.into(), key("axis", 0_i64)])?;
                    tensors.push(row);
                    axes.push(axis);
                    axis += 1;
                }
            }
            Argument::Tensor(v) => {
                tensors.push(v);
                axes.push(axis);
                axis += 1;
            }
            other => return invalid(format!("an index {other:?}")),
        }
    }
    Ok((tensors, axes))
}

/// The order of axes with the indexed ones first.
fn indexed_first(rank: usize, axes: &[usize]) -> Vec<i64> {
    let others = (0..rank).filter(|axis| !axes.contains(axis));
    axes.iter().copied().chain(others).map(|axis| axis as i64).collect()
}

fn is_run(axes: &[usize]) -> bool {
    axes.windows(2).all(|pair| pair[0] + 1 == pair[1])
}

/// The dims of index tensors stand in the place of the axes where those are neighbours, and first elsewhere.
fn index(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let rank = call.rank(x);
    let (tensors, axes) = places(call)?;
    if axes.iter().any(|&axis| axis >= rank) {
        return invalid("there are more indices than dims");
    }
    if tensors.is_empty() {
        return Ok(vec![x]);
    }
    let first = axes[0];
    let front = permuted(call, x, &indexed_first(rank, &axes))?;
    let found = call.call("index_tensor", &[front.into(), tensors.clone().into()])?;
    if first == 0 || !is_run(&axes) {
        return Ok(vec![found]);
    }
    // (indices…, before…, after…) to (before…, indices…, after…)
    let width = call.rank(found) + axes.len() - rank;
    let before = (width..width + first).map(|axis| axis as i64);
    let between = (0..width).map(|axis| axis as i64);
    let after = (width + first..call.rank(found)).map(|axis| axis as i64);
    let order: Vec<i64> = before.chain(between).chain(after).collect();
    Ok(vec![permuted(call, found, &order)?])
}

fn index_put(call: &mut Call) -> Done<Vec<V>> {
    let (mut x, mut values) = (call.tensor("self")?, call.tensor("values")?);
    let rank = call.rank(x);
    let dtype = call.dtype(x);
    if call.dtype(values) != dtype {
        return unsupported("values of another dtype");
    }
    let accumulate = call.bool("accumulate")?;
    if accumulate && dtype == DType::Bool {
        // Whether any is true.
        (x, values) = (convert(call, x, DType::I64)?, convert(call, values, DType::I64)?);
    }
    let (tensors, axes) = places(call)?;
    if tensors.is_empty() || axes.iter().any(|&axis| axis >= rank) {
        return unsupported("no index, or more than there are dims");
    }
    let order = indexed_first(rank, &axes);
    let width = tensors.iter().map(|&v| call.rank(v)).max().unwrap_or(0);
    if is_run(&axes) && axes[0] > 0 {
        // The values have the dims before the indices first: (before…, indices…, after…).
        let full = width + rank - axes.len();
        let mut dims = vec![Dim::Int(1); full.saturating_sub(call.rank(values))];
        dims.extend(call.dims(values));
        values = reshape(call, values, dims)?;
        let first = axes[0];
        let between = (first..first + width).map(|axis| axis as i64);
        let before = (0..first).map(|axis| axis as i64);
        let after = (first + width..full).map(|axis| axis as i64);
        let turned: Vec<i64> = between.chain(before).chain(after).collect();
        values = permuted(call, values, &turned)?;
    }
    let front = permuted(call, x, &order)?;
    let mut args = vec![front.into(), tensors.into(), values.into()];
    if accumulate {
        args.push(key("accumulate", true));
    }
    let result = call.call("index_put", &args)?;
    let result = convert(call, result, dtype)?;
    Ok(vec![permuted(call, result, &inverse(&order))?])
}

/// Tensors of rank 0 count as vectors of one element.
pub(super) fn at_least_one(call: &mut Call, v: V) -> Done<V> {
    if call.rank(v) == 0 { reshape(call, v, vec![Dim::Int(1)]) } else { Ok(v) }
}

fn gather(call: &mut Call) -> Done<Vec<V>> {
    let (x, index) = (call.tensor("self")?, call.tensor("index")?);
    let axis = call.axis_of("dim", call.rank(x))?;
    let dims = call.dims(index);
    // Without an index PyTorch compares no dims.
    if dims.contains(&Dim::Int(0)) {
        let dtype = call.dtype(x);
        return Ok(vec![call.call("zeros", &[Arg::Shape(dims), dtype.into()])?]);
    }
    let (x, index) = (at_least_one(call, x)?, at_least_one(call, index)?);
    let found = call.call("gather_elements", &[x.into(), index.into(), key("axis", axis)])?;
    Ok(vec![reshape(call, found, dims)?])
}

fn slice_scatter(call: &mut Call) -> Done<Vec<V>> {
    let (x, src) = (call.tensor("self")?, call.tensor("src")?);
    let axis = call.axis_of("dim", call.rank(x))?;
    let start = if call.has("start") { call.dim_of("start")? } else { Dim::Int(0) };
    let end = if call.has("end") { call.dim_of("end")? } else { Dim::Int(i64::MAX) };
    let step = call.int("step")?;
    let dtype = call.dtype(x);
    let src = convert(call, src, dtype)?;
    let args = [x.into(), src.into(), start.into(), end.into(), step.into(), key("axis", axis)];
    Ok(vec![call.call("slice_scatter", &args)?])
}

fn select_scatter(call: &mut Call) -> Done<Vec<V>> {
    let (x, src) = (call.tensor("self")?, call.tensor("src")?);
    let axis = call.axis_of("dim", call.rank(x))?;
    let index = call.dim_of("index")?;
    let start = index_of(call, x, axis, index)?;
    let end = call.dim(DimOp::Add, &start, &Dim::Int(1));
    let dtype = call.dtype(x);
    let src = convert(call, src, dtype)?;
    let src = call.call("expand_dims", &[src.into(), key("axis", vec![axis as i64])])?;
    let one = Arg::from(1_i64);
    let args = [x.into(), src.into(), start.into(), end.into(), one, key("axis", axis)];
    Ok(vec![call.call("slice_scatter", &args)?])
}

fn masked_fill(call: &mut Call) -> Done<Vec<V>> {
    let (x, mask) = (call.tensor("self")?, call.tensor("mask")?);
    let dtype = call.dtype(x);
    let value = call.operand("value", dtype)?;
    Ok(vec![broadcast_call(call, "where", &[mask, value, x])?])
}

/// The elements where the mask is true become those of the source, in row-major order. Elsewhere its first one is read, which the
/// `where` drops.
fn masked_scatter(call: &mut Call) -> Done<Vec<V>> {
    let (own, mask, source) = (call.tensor("self")?, call.tensor("mask")?, call.tensor("source")?);
    // Each of both may be the one that is stretched.
    let x = if call.rank(mask) > call.rank(own) {
        broadcast_call(call, "where", &[mask, own, own])?
    } else {
        own
    };
    let dims = call.dims(x);
    let mask = if call.dims(mask) == dims {
        mask
    } else {
        call.call("broadcast_to", &[mask.into(), Arg::Shape(dims.clone())])?
    };
    let flat = call.call("flatten", &[mask.into()])?;
    let places = call.call(
        "cumsum",
        &[flat.into(), key("axis", 0_i64), key("dtype", DType::I64), key("exclusive", true)],
    )?;
    let zero = call.of_number(relax_semantics::tensor::Number::Int(0), DType::I64);
    let places = call.call("where", &[flat.into(), places.into(), zero.into()])?;
    let source = call.call("flatten", &[source.into()])?;
    if call.dims(source)[0] == Dim::Int(0) {
        return unsupported("an empty source");
    }
    let taken = call.call("take", &[source.into(), places.into(), key("axis", 0_i64)])?;
    let taken = reshape(call, taken, dims)?;
    Ok(vec![call.call("where", &[mask.into(), taken.into(), x.into()])?])
}

/// PyTorch has an index a row, and for a tensor of rank 0 rows of no element.
fn nonzero(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let rank = call.rank(x);
    let x = at_least_one(call, x)?;
    let mut found = call.call("nonzero", &[x.into()])?;
    call.values[found.0].dims[0] = Dim::Int(rank.max(1) as i64);
    if rank == 0 {
        found = part(call, found, vec![0], vec![Dim::Int(0)], vec![Dim::Int(0)], vec![1])?;
    }
    Ok(vec![permuted(call, found, &[1, 0])?])
}
