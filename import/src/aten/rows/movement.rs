//! Views and other movements of elements. Views are values: nothing that a program computes changes an operand.

use super::reduce::difference;
use crate::argument::{Arg, key};
use crate::aten::call::{Argument, Call, Row};
use crate::aten::guards::require;
use crate::builder::V;
use crate::operators::arithmetic::broadcast_call;
use crate::operators::elementwise::convert;
use crate::operators::shape::{concatenated, left_over, parts, permuted, reshape};
use crate::operators::slice::{pad_open, part};
use crate::reason::{Done, Reason, invalid, unsupported};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};

pub(super) const ROWS: &[(&str, Row)] = &[
    ("view.default", view),
    ("reshape", view),
    ("_unsafe_view", view),
    ("_reshape_alias", view),
    ("permute", permute),
    ("transpose.int", transpose),
    ("t", |call| {
        let x = call.tensor("self")?;
        let axes: Vec<i64> = (0..call.rank(x) as i64).rev().collect();
        Ok(vec![permuted(call, x, &axes)?])
    }),
    ("expand", expand),
    ("unsqueeze", unsqueeze),
    ("squeeze", squeeze),
    ("slice.Tensor", slice),
    ("narrow", narrow),
    ("select.int", select),
    ("cat", cat),
    ("stack", stack),
    ("split_with_sizes", split_with_sizes),
    ("split.Tensor", split),
    ("repeat", repeat),
    ("flip", flip),
    ("unfold", unfold),
    ("copy", copy),
    ("as_strided", as_strided),
    ("diagonal", diagonal),
    ("constant_pad_nd", constant_pad),
    ("reflection_pad1d", |call| mirrored_pad(call, "reflect")),
    ("reflection_pad2d", |call| mirrored_pad(call, "reflect")),
    ("reflection_pad3d", |call| mirrored_pad(call, "reflect")),
    ("replication_pad1d", |call| mirrored_pad(call, "replicate")),
    ("replication_pad2d", |call| mirrored_pad(call, "replicate")),
    ("replication_pad3d", |call| mirrored_pad(call, "replicate")),
];

/// Windows of `size` elements along an axis, every `step` elements; the elements of a window lie along a new last axis.
fn unfold(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let rank = call.rank(x);
    let axis = call.axis_of("dimension", rank)?;
    let (size, step) = (call.dim_of("size")?, call.int("step")?);
    if step < 1 {
        return unsupported("windows without a step");
    }
    if rank == 0 {
        // A vector of one element or of none, and no window more.
        let row = reshape(call, x, vec![Dim::Int(1)])?;
        let message = format!("windows of {size} elements in a scalar");
        require(call.builder, &Claim::new(size.clone(), Relation::AtMost, 1), &message)?;
        return Ok(vec![part(call, row, vec![0], vec![Dim::Int(0)], vec![size], vec![1])?]);
    }
    let extent = call.dims(x)[axis].clone();
    let message = format!("windows of {size} elements in an axis of {extent}");
    require(call.builder, &Claim::new(size.clone(), Relation::AtMost, extent.clone()), &message)?;
    let room = call.dim(DimOp::Sub, &extent, &size);
    let steps = call.dim(DimOp::FloorDiv, &room, &Dim::Int(step));
    let count = call.dim(DimOp::Add, &steps, &Dim::Int(1));
    let numbers = |call: &mut Call, count: Dim| {
        call.call("arange", &[count.into(), key("dtype", DType::I64)])
    };
    let (starts, within) = (numbers(call, count.clone())?, numbers(call, size)?);
    let step = call.integers(vec![Dim::Int(step)], 0, DType::I64);
    let starts = call.call("multiply", &[starts.into(), step.into()])?;
    let starts = reshape(call, starts, vec![count, Dim::Int(1)])?;
    let places = broadcast_call(call, "add", &[starts, within])?;
    let taken = call.call("take", &[x.into(), places.into(), key("axis", axis)])?;
    let axes = (0..=rank).filter(|&at| at != axis + 1).chain([axis + 1]);
    let axes: Vec<i64> = axes.map(|axis| axis as i64).collect();
    Ok(vec![permuted(call, taken, &axes)?])
}

fn view(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let name = if call.args.contains_key("shape") { "shape" } else { "size" };
    let dims = call.dims_of(name)?;
    Ok(vec![viewed(call, x, dims)?])
}

/// In another shape, in which one -1 may stand.
fn viewed(call: &mut Call, x: V, mut dims: Vec<Dim>) -> Done<V> {
    let own = call.dims(x);
    if let Some(left) = left_over(call, &own, &dims) {
        dims = left;
    }
    reshape(call, x, dims)
}

fn permute(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let axes = call.axes_of("dims", call.rank(x))?;
    if axes.len() != call.rank(x) {
        return invalid("`dims` does not name every dim");
    }
    let axes: Vec<i64> = axes.into_iter().map(|axis| axis as i64).collect();
    Ok(vec![permuted(call, x, &axes)?])
}

fn transpose(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let rank = call.rank(x);
    let (a, b) = (call.axis_of("dim0", rank)?, call.axis_of("dim1", rank)?);
    let mut axes: Vec<i64> = (0..rank as i64).collect();
    if rank > 0 {
        axes.swap(a, b);
    }
    Ok(vec![permuted(call, x, &axes)?])
}

fn expand(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let own = call.dims(x);
    let mut dims = call.dims_of("size")?;
    let Some(added) = dims.len().checked_sub(own.len()) else {
        return invalid("`size` has fewer dims than the tensor");
    };
    for (place, dim) in dims.iter_mut().enumerate() {
        if *dim == Dim::Int(-1) {
            let Some(kept) = place.checked_sub(added) else {
                return invalid("a new dim of -1");
            };
            *dim = own[kept].clone();
        }
    }
    if dims == own {
        return Ok(vec![x]);
    }
    Ok(vec![call.call("broadcast_to", &[x.into(), Arg::Shape(dims)])?])
}

fn unsqueeze(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let rank = call.rank(x) + 1;
    let axis = call.axis_of("dim", rank)?;
    if rank == 1
        && let Some(elements) = call.elements(x)
    {
        let dtype = call.dtype(x);
        return Ok(vec![call.integers(elements, 1, dtype)]);
    }
    Ok(vec![call.call("expand_dims", &[x.into(), key("axis", vec![axis as i64])])?])
}

/// Dims of 1 among those given. A symbolic dim stays, as in the trace of PyTorch.
fn squeeze(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let dims = call.dims(x);
    let axes = match call.argument("dim") {
        Argument::None => (0..dims.len()).collect(),
        _ => call.axes_of("dim", dims.len())?,
    };
    let one = |axis: &usize| dims.get(*axis) == Some(&Dim::Int(1));
    let axes: Vec<i64> = axes.into_iter().filter(one).map(|axis| axis as i64).collect();
    if axes.is_empty() {
        return Ok(vec![x]);
    }
    let dims = (0..dims.len()).filter(|&axis| !axes.contains(&(axis as i64)));
    let own = call.dims(x);
    let dims = dims.map(|axis| own[axis].clone()).collect();
    Ok(vec![reshape(call, x, dims)?])
}

fn slice(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let axis = call.axis_of("dim", call.rank(x))?;
    let start = if call.has("start") { call.dim_of("start")? } else { Dim::Int(0) };
    let end = if call.has("end") { call.dim_of("end")? } else { Dim::Int(i64::MAX) };
    let step = call.int("step")?;
    if step < 1 {
        return invalid("`step` must be at least 1");
    }
    if start == Dim::Int(0)
        && step == 1
        && (end == Dim::Int(i64::MAX) || call.dims(x).get(axis) == Some(&end))
    {
        return Ok(vec![x]);
    }
    Ok(vec![part(call, x, vec![axis as i64], vec![start], vec![end], vec![step])?])
}

fn narrow(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let axis = call.axis_of("dim", call.rank(x))?;
    let start = call.dim_of("start")?;
    let length = call.dim_of("length")?;
    let end = call.dim(DimOp::Add, &start, &length);
    Ok(vec![part(call, x, vec![axis as i64], vec![start], vec![end], vec![1])?])
}

/// One slice along an axis; a negative index counts from the end.
fn select(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let axis = call.axis_of("dim", call.rank(x))?;
    let index = call.dim_of("index")?;
    if let (Some(elements), Some(at), 1) = (call.elements(x), index.as_int(), call.rank(x)) {
        let place = if at < 0 { at + elements.len() as i64 } else { at };
        let element = usize::try_from(place).ok().and_then(|place| elements.get(place).cloned());
        let Some(element) = element else { return invalid(format!("index {at} is out of range")) };
        let dtype = call.dtype(x);
        return Ok(vec![call.integers(vec![element], 0, dtype)]);
    }
    let place = index_of(call, x, axis, index)?;
    let index = call.integers(vec![place], 0, DType::I64);
    Ok(vec![call.call("take", &[x.into(), index.into(), key("axis", axis)])?])
}

pub(super) fn index_of(call: &mut Call, x: V, axis: usize, index: Dim) -> Done<Dim> {
    let extent = call.dims(x)[axis].clone();
    match index.as_int() {
        Some(at) if at < 0 => Ok(call.dim(DimOp::Add, &extent, &index)),
        Some(_) => Ok(index),
        None if call.at_least(&index, 0) => Ok(index),
        None => unsupported(format!("the index {index}, of which the sign is not known")),
    }
}

/// Vectors of no elements fit to tensors of any rank.
fn cat(call: &mut Call) -> Done<Vec<V>> {
    let tensors = call.tensors("tensors")?;
    let dtype = call.result()?;
    let empty = |call: &Call, v: V| call.dims(v) == [Dim::Int(0)];
    let rank = tensors.iter().map(|&v| call.rank(v)).max().unwrap_or(0);
    let kept: Vec<V> = tensors.iter().copied().filter(|&v| rank == 1 || !empty(call, v)).collect();
    let Some(&first) = kept.first() else {
        return tensors
            .first()
            .map(|&v| vec![v])
            .ok_or_else(|| Reason::Invalid("no tensor".into()));
    };
    let axis = call.axis_of("dim", call.rank(first))?;
    let kept = kept.into_iter().map(|v| convert(call, v, dtype)).collect::<Done<Vec<V>>>()?;
    Ok(vec![concatenated(call, kept, axis as i64)?])
}

fn stack(call: &mut Call) -> Done<Vec<V>> {
    let tensors = call.tensors("tensors")?;
    let dtype = call.result()?;
    let Some(&first) = tensors.first() else { return invalid("no tensor") };
    let axis = call.axis_of("dim", call.rank(first) + 1)?;
    let tensors = tensors.into_iter().map(|v| convert(call, v, dtype)).collect::<Done<Vec<V>>>()?;
    Ok(vec![call.call("stack", &[tensors.into(), key("axis", axis)])?])
}

fn split_with_sizes(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let axis = call.axis_of("dim", call.rank(x))?;
    let sizes = call.dims_of("split_sizes")?;
    let mut cuts = Vec::new();
    let mut cut = Dim::Int(0);
    for size in &sizes[..sizes.len().saturating_sub(1)] {
        cut = call.dim(DimOp::Add, &cut, size);
        cuts.push(cut.clone());
    }
    parts(call, x, axis, cuts)
}

/// Parts of `split_size`, the last one what is left. Their number must be known.
fn split(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let axis = call.axis_of("dim", call.rank(x))?;
    let size = call.dim_of("split_size")?;
    let count = call.results.len() as i64;
    let mut cuts = Vec::new();
    for place in 1..count {
        cuts.push(call.dim(DimOp::Mul, &size, &Dim::Int(place)));
    }
    parts(call, x, axis, cuts)
}

fn repeat(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let repeats = call.dims_of("repeats")?;
    let mut dims = vec![Dim::Int(1); repeats.len().saturating_sub(call.rank(x))];
    dims.extend(call.dims(x));
    let x = reshape(call, x, dims)?;
    if repeats.iter().all(|count| *count == Dim::Int(1)) {
        return Ok(vec![x]);
    }
    Ok(vec![call.call("tile", &[x.into(), Arg::Dims(repeats)])?])
}

fn flip(call: &mut Call) -> Done<Vec<V>> {
    let mut x = call.tensor("self")?;
    let rank = call.rank(x);
    for axis in call.axes_of("dims", rank)? {
        if rank > 0 {
            x = call.call("flip", &[x.into(), key("axis", axis)])?;
        }
    }
    Ok(vec![x])
}

/// The elements of `src` in the shape and dtype of `self`.
fn copy(call: &mut Call) -> Done<Vec<V>> {
    let (x, src) = (call.tensor("self")?, call.tensor("src")?);
    let dtype = call.dtype(x);
    let dims = call.dims(x);
    let src = convert(call, src, dtype)?;
    if call.dims(src) == dims {
        return Ok(vec![src]);
    }
    Ok(vec![call.call("broadcast_to", &[src.into(), Arg::Shape(dims)])?])
}

/// A view by strides is a gather from the elements in row-major order; where the strides are those of the shape, a reshape.
fn as_strided(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let (size, stride) = (call.dims_of("size")?, call.dims_of("stride")?);
    let offset =
        if call.has("storage_offset") { call.dim_of("storage_offset")? } else { Dim::Int(0) };
    if size.len() != stride.len() {
        return invalid("`size` and `stride` differ in length");
    }
    let mut places = call.integers(vec![offset.clone()], 0, DType::I64);
    let mut row_major = Dim::Int(1);
    let mut is_dense = offset == Dim::Int(0);
    for axis in (0..size.len()).rev() {
        is_dense &= size[axis] == Dim::Int(1) || call.same(&stride[axis], &row_major);
        row_major = call.dim(DimOp::Mul, &row_major, &size[axis]);
    }
    let total = Dim::product(&call.dims(x));
    if is_dense && call.same(&row_major, &total) {
        return Ok(vec![reshape(call, x, size)?]);
    }
    for axis in 0..size.len() {
        let along = call.call("arange", &[size[axis].clone().into(), key("dtype", DType::I64)])?;
        let step = call.integers(vec![stride[axis].clone()], 0, DType::I64);
        let along = call.call("multiply", &[along.into(), step.into()])?;
        let mut dims = vec![Dim::Int(1); size.len()];
        dims[axis] = size[axis].clone();
        let along = reshape(call, along, dims)?;
        places = broadcast_call(call, "add", &[places, along])?;
    }
    let flat = call.call("flatten", &[x.into()])?;
    Ok(vec![call.call("take", &[flat.into(), places.into(), key("axis", 0_i64)])?])
}

/// The elements (…, i, i + offset), along a new last dim.
fn diagonal(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let rank = call.rank(x);
    let (a, b) = (call.axis_of("dim1", rank)?, call.axis_of("dim2", rank)?);
    if a == b || rank < 2 {
        return invalid("the diagonal of one dim");
    }
    let offset = call.int("offset")?;
    let mut axes: Vec<i64> =
        (0..rank as i64).filter(|&axis| axis != a as i64 && axis != b as i64).collect();
    axes.extend([a as i64, b as i64]);
    let x = permuted(call, x, &axes)?;
    let dims = call.dims(x);
    let (rows, columns) = (dims[rank - 2].clone(), dims[rank - 1].clone());
    let (first_row, first_column) = (Dim::Int((-offset).max(0)), Dim::Int(offset.max(0)));
    let height = difference(call, &rows, &first_row);
    let width = difference(call, &columns, &first_column);
    let length = call.dim(DimOp::Min, &height, &width);
    let total = call.dim(DimOp::Mul, &rows, &columns);
    let mut flat_dims = dims[..rank - 2].to_vec();
    flat_dims.push(total);
    let flat = reshape(call, x, flat_dims)?;
    let along = call.call("arange", &[length.into(), key("dtype", DType::I64)])?;
    let step = call.dim(DimOp::Add, &columns, &Dim::Int(1));
    let step = call.integers(vec![step], 0, DType::I64);
    let start = call.dim(DimOp::Mul, &first_row, &columns);
    let start = call.dim(DimOp::Add, &start, &first_column);
    let start = call.integers(vec![start], 0, DType::I64);
    let places = call.call("multiply", &[along.into(), step.into()])?;
    let places = call.call("add", &[places.into(), start.into()])?;
    Ok(vec![call.call("take", &[flat.into(), places.into(), key("axis", rank - 2)])?])
}

/// Widths by axis out of those of PyTorch, which begin at the last axis. Negative ones cut.
fn widths(call: &mut Call, x: &mut V, name: &str) -> Done<Vec<Dim>> {
    let pads = call.dims_of(name)?;
    let rank = call.rank(*x);
    if pads.len() % 2 != 0 || pads.len() / 2 > rank {
        return invalid("`pad` has two entries an axis");
    }
    let mut widths = vec![Dim::Int(0); 2 * rank];
    for (place, pair) in pads.chunks(2).enumerate() {
        let axis = rank - 1 - place;
        for (side, width) in pair.iter().enumerate() {
            match width.as_int() {
                Some(negative) if negative < 0 => {
                    let (begin, end) = if side == 0 {
                        (Dim::Int(-negative), Dim::Int(i64::MAX))
                    } else {
                        let end = call.dims(*x)[axis].clone();
                        (Dim::Int(0), call.dim(DimOp::Add, &end, &Dim::Int(negative)))
                    };
                    *x = part(call, *x, vec![axis as i64], vec![begin], vec![end], vec![1])?;
                }
                Some(_) => widths[2 * axis + side] = width.clone(),
                None if call.at_least(width, 0) => widths[2 * axis + side] = width.clone(),
                None => return unsupported(format!("padding by {width}, which may be negative")),
            }
        }
    }
    Ok(widths)
}

fn constant_pad(call: &mut Call) -> Done<Vec<V>> {
    let mut x = call.tensor("self")?;
    let widths = widths(call, &mut x, "pad")?;
    let dtype = call.dtype(x);
    let value = call.operand("value", dtype)?;
    Ok(vec![pad_open(call, x, &widths, "constant", value)?])
}

fn mirrored_pad(call: &mut Call, mode: &str) -> Done<Vec<V>> {
    let mut x = call.tensor("self")?;
    let widths = widths(call, &mut x, "padding")?;
    if widths.iter().any(|width| width.as_int().is_none()) {
        return unsupported("symbolic padding in this mode");
    }
    Ok(vec![call.call("pad", &[x.into(), Arg::Dims(widths), key("pad_mode", mode)])?])
}

/// With a batch of 1 before it where it has one dim less than `rank`.
pub(super) fn without_batch(call: &mut Call, x: V, rank: usize) -> Done<(V, bool)> {
    if call.rank(x) + 1 != rank {
        return Ok((x, false));
    }
    let mut dims = vec![Dim::Int(1)];
    dims.extend(call.dims(x));
    Ok((reshape(call, x, dims)?, true))
}
