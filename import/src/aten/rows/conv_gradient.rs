//! Gradients of convolutions, which are linear in data and in weight. That of the data is the transposed convolution, and the other
//! way round. That of the weight is a convolution of the data, whose channels are then the batch, with the gradient as weight, strides
//! and dilation exchanged.

use super::conv::{Windows, plain, transposed};
use super::movement::without_batch;
use super::norm::other_axes;
use crate::argument::key;
use crate::aten::call::{Argument, Call, Row};
use crate::builder::V;
use crate::operators::shape::{permuted, reshape};
use crate::operators::slice::{pad_open, part};
use crate::reason::{Done, invalid, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dim::{Dim, DimOp};

pub(super) const ROWS: &[(&str, Row)] = &[("convolution_backward", convolution)];

/// Of data, weight and bias, as `output_mask` asks for them.
fn convolution(call: &mut Call) -> Done<Vec<V>> {
    let (g, x, w) = (call.tensor("grad_output")?, call.tensor("input")?, call.tensor("weight")?);
    let count = call.rank(w).saturating_sub(2);
    if !(1..=2).contains(&count) {
        return unsupported(format!("{count} spatial dims"));
    }
    let own = call.dims(x);
    let (x, _) = without_batch(call, x, count + 2)?;
    let (g, _) = without_batch(call, g, count + 2)?;
    if call.rank(x) != count + 2 || call.rank(g) != count + 2 {
        return invalid("the weight does not have the rank of the data");
    }
    let windows = Windows::of(call, count)?;
    let groups = call.int("groups")?;
    let is_transposed = call.bool("transposed")?;
    let mut results = vec![g; 3];
    if wants(call, 0) {
        let of_x = if is_transposed {
            plain(call, g, w, &windows, groups)?
        } else {
            of_data(call, (x, w, g), &windows, groups)?
        };
        results[0] = reshape(call, of_x, own)?;
    }
    if wants(call, 1) {
        let (read, made) = if is_transposed { (g, x) } else { (x, g) };
        results[1] = of_weight(call, read, made, w, (&windows, groups))?;
    }
    if wants(call, 2) {
        results[2] = by_channel(call, g)?;
    }
    Ok(results)
}

/// Whether a result is asked for, and read.
fn wants(call: &Call, result: usize) -> bool {
    let asked = match call.argument("output_mask") {
        Argument::List(items) => !matches!(items.get(result), Some(Argument::Bool(false))),
        _ => true,
    };
    asked && call.is_read(result)
}

/// The sums over all axes but that of channels.
pub(super) fn by_channel(call: &mut Call, x: V) -> Done<V> {
    let axes = other_axes(call.rank(x));
    call.call("sum", &[x.into(), key("axis", axes)])
}

/// The extents of the data that no window reaches, as strides leave them over at the end.
fn left_over(call: &mut Call, x: V, w: V, windows: &Windows) -> Vec<Dim> {
    let (dims, kernel) = (call.dims(x), call.dims(w));
    let mut over = Vec::new();
    for axis in 0..windows.strides.len() {
        let less = call.dim(DimOp::Sub, &kernel[axis + 2], &Dim::Int(1));
        let reach = call.dim(DimOp::Mul, &less, &Dim::Int(windows.dilation[axis]));
        let room = call.dim(DimOp::Add, &dims[axis + 2], &Dim::Int(2 * windows.padding[axis] - 1));
        let room = call.dim(DimOp::Sub, &room, &reach);
        over.push(call.dim(DimOp::FloorMod, &room, &Dim::Int(windows.strides[axis])));
    }
    over
}

/// The operator takes literal numbers as `output_padding`. Where they are symbolic, nothing is cut off at the end, zeros are joined
/// on, and the extents of the data are kept of it.
fn of_data(call: &mut Call, (x, w, g): (V, V, V), windows: &Windows, groups: i64) -> Done<V> {
    let over = left_over(call, x, w, windows);
    let dims = call.dims(x);
    let both = windows.padding.iter().chain(&windows.padding).copied();
    if let Some(added) = over.iter().map(Dim::as_int).collect::<Option<Vec<i64>>>() {
        let pads = both.collect();
        return transposed(call, g, w, &Windows { added, ..windows.clone() }, (pads, groups));
    }
    let count = windows.strides.len();
    let pads = both.take(count).chain(vec![0; count]).collect();
    let windows = Windows { added: vec![0; count], ..windows.clone() };
    let mut made = transposed(call, g, w, &windows, (pads, groups))?;
    let dtype = call.dtype(made);
    let zero = call.of_number(Number::Int(0), dtype);
    for (axis, over) in over.into_iter().enumerate() {
        let mut widths = vec![Dim::Int(0); 2 * (count + 2)];
        widths[2 * axis + 5] = over;
        made = pad_open(call, made, &widths, "constant", zero)?;
        made = first(call, made, axis + 2, &dims[axis + 2])?;
    }
    Ok(made)
}

/// The first elements along an axis.
fn first(call: &mut Call, x: V, axis: usize, extent: &Dim) -> Done<V> {
    if call.dims(x)[axis] == *extent {
        return Ok(x);
    }
    part(call, x, vec![axis as i64], vec![Dim::Int(0)], vec![extent.clone()], vec![1])
}

/// The gradient of the weight (o, i / groups, …) of a convolution that takes `read`, of i channels, to `made`, of o.
fn of_weight(
    call: &mut Call,
    read: V,
    made: V,
    w: V,
    (windows, groups): (&Windows, i64),
) -> Done<V> {
    let (from, kernel) = (call.dims(read), call.dims(w));
    let count = kernel.len() - 2;
    let own = kernel[1].clone();
    let mut split = vec![from[0].clone(), Dim::Int(groups), own.clone()];
    split.extend_from_slice(&from[2..]);
    let read = reshape(call, read, split)?;
    let mut axes = vec![2, 1, 0];
    axes.extend(3..3 + count as i64);
    let read = permuted(call, read, &axes)?;
    let channels = call.dim(DimOp::Mul, &Dim::Int(groups), &from[0]);
    let mut joined = vec![own, channels];
    joined.extend_from_slice(&from[2..]);
    let read = reshape(call, read, joined)?;
    let mut swapped = vec![1, 0];
    swapped.extend(2..2 + count as i64);
    let made = permuted(call, made, &swapped)?;
    let exchanged = Windows {
        strides: windows.dilation.clone(),
        dilation: windows.strides.clone(),
        ..windows.clone()
    };
    let mut given = plain(call, read, made, &exchanged, groups)?;
    // Elements that strides skip at the end of the data make windows beyond the kernel.
    for (axis, extent) in kernel.iter().enumerate().skip(2) {
        given = first(call, given, axis, extent)?;
    }
    permuted(call, given, &swapped)
}
