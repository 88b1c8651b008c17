//! Convolutions. PyTorch has one padding an axis, for both sides.

use super::movement::without_batch;
use crate::argument::{Arg, key};
use crate::aten::call::{Call, Row};
use crate::builder::V;
use crate::operators::arithmetic::pair;
use crate::operators::shape::reshape;
use crate::operators::slice::{pad_open, part};
use crate::reason::{Done, invalid, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[("convolution", convolution)];

#[derive(Clone)]
pub(super) struct Windows {
    pub(super) strides: Vec<i64>,
    pub(super) padding: Vec<i64>,
    pub(super) dilation: Vec<i64>,
    pub(super) added: Vec<i64>,
}

impl Windows {
    pub(super) fn of(call: &Call, count: usize) -> Done<Self> {
        Ok(Self {
            strides: call.ints_for("stride", count)?,
            padding: call.ints_for("padding", count)?,
            dilation: call.ints_for("dilation", count)?,
            added: if call.bool("transposed")? {
                call.ints_for("output_padding", count)?
            } else {
                vec![0; count]
            },
        })
    }
}

fn convolution(call: &mut Call) -> Done<Vec<V>> {
    let (x, w) = (call.tensor("input")?, call.tensor("weight")?);
    let count = call.rank(w).saturating_sub(2);
    let (x, is_alone) = without_batch(call, x, count + 2)?;
    if call.rank(w) != call.rank(x) {
        return invalid("the weight does not have the rank of the data");
    }
    let windows = Windows::of(call, count)?;
    let groups = call.int("groups")?;
    let mut y = match (count, call.bool("transposed")?) {
        (1 | 2, false) => plain(call, x, w, &windows, groups)?,
        (1 | 2, true) => transposed(call, x, w, &windows, (both_sides(&windows.padding), groups))?,
        (3, false) => in_space(call, x, w, &windows, groups)?,
        (3, true) => transposed_in_space(call, x, w, &windows, groups)?,
        _ => return unsupported(format!("{count} spatial dims")),
    };
    if let Some(bias) = call.optional_tensor("bias")? {
        let mut dims = call.dims(bias);
        dims.extend(vec![Dim::Int(1); count]);
        let bias = reshape(call, bias, dims)?;
        y = pair(call, "add", y, bias)?;
    }
    if is_alone {
        let dims = call.dims(y)[1..].to_vec();
        y = reshape(call, y, dims)?;
    }
    Ok(vec![y])
}

fn both_sides(padding: &[i64]) -> Vec<i64> {
    padding.iter().chain(padding).copied().collect()
}

pub(super) fn plain(call: &mut Call, x: V, w: V, windows: &Windows, groups: i64) -> Done<V> {
    let operator = format!("conv{}d", windows.strides.len());
    let args = [
        x.into(),
        w.into(),
        key("strides", windows.strides.as_slice()),
        key("padding", both_sides(&windows.padding)),
        key("dilation", windows.dilation.as_slice()),
        key("groups", groups),
    ];
    call.call(&operator, &args)
}

/// With pads before and after each axis.
pub(super) fn transposed(
    call: &mut Call,
    x: V,
    w: V,
    windows: &Windows,
    (pads, groups): (Vec<i64>, i64),
) -> Done<V> {
    let operator = format!("conv{}d_transpose", windows.strides.len());
    let (x, added) = below_stride(call, x, windows)?;
    let args = [
        x.into(),
        w.into(),
        key("strides", windows.strides.as_slice()),
        key("padding", pads),
        key("output_padding", added),
        key("dilation", windows.dilation.as_slice()),
        key("groups", groups),
    ];
    call.call(&operator, &args)
}

/// The output padding without whole strides. An element of zeros behind the data is a stride of the result.
fn below_stride(call: &mut Call, x: V, windows: &Windows) -> Done<(V, Vec<i64>)> {
    let steps = windows.added.iter().zip(&windows.strides);
    let (wholes, added): (Vec<i64>, Vec<i64>) =
        steps.map(|(&added, &stride)| (added / stride.max(1), added % stride.max(1))).unzip();
    if wholes.iter().all(|&whole| whole == 0) {
        return Ok((x, added));
    }
    let mut widths = vec![Dim::Int(0); 4];
    widths.extend(wholes.iter().flat_map(|&whole| [Dim::Int(0), Dim::Int(whole)]));
    let zero = call.of_number(Number::Int(0), call.dtype(x));
    Ok((pad_open(call, x, &widths, "constant", zero)?, added))
}

/// The largest extent of a kernel in depth: one convolution over planes for each of its layers.
const DEEPEST: i64 = 16;

fn depth_of(call: &Call, w: V) -> Done<i64> {
    match call.dims(w)[2].as_int().filter(|&depth| depth <= DEEPEST) {
        Some(depth) => Ok(depth),
        None => unsupported(format!("a kernel of more than {DEEPEST} layers, or a symbolic one")),
    }
}

/// The windows over planes.
fn planes(windows: &Windows) -> Windows {
    Windows {
        strides: windows.strides[1..].to_vec(),
        padding: windows.padding[1..].to_vec(),
        dilation: windows.dilation[1..].to_vec(),
        added: windows.added[1..].to_vec(),
    }
}

/// Over three dims: the sum over the layers of the kernel of convolutions over planes.
fn in_space(call: &mut Call, x: V, w: V, windows: &Windows, groups: i64) -> Done<V> {
    let depth = depth_of(call, w)?;
    let x = padded_in_depth(call, x, windows.padding[0], windows.padding[0])?;
    let order: Vec<i64> = (0..depth).collect();
    let steps = (windows.strides[0], windows.dilation[0]);
    let planes = planes(windows);
    layers(call, (x, w), &order, steps, |call, x, w| plain(call, x, w, &planes, groups))
}

/// Transposed: zeros between the layers of the data, the layers of the kernel from the last to the first, with steps of 1.
fn transposed_in_space(call: &mut Call, x: V, w: V, windows: &Windows, groups: i64) -> Done<V> {
    let depth = depth_of(call, w)?;
    let (stride, dilation) = (windows.strides[0], windows.dilation[0]);
    if stride < 1 {
        return invalid("a stride must be at least 1");
    }
    let dims = call.dims(x);
    // (…, d, …) to (…, d, stride, …) and (…, d * stride, …), of which the last zeros are cut.
    let mut apart = dims.clone();
    apart.insert(3, Dim::Int(1));
    let apart = reshape(call, x, apart)?;
    let mut widths = vec![Dim::Int(0); 12];
    widths[7] = Dim::Int(stride - 1);
    let zero = call.of_number(Number::Int(0), call.dtype(x));
    let apart = pad_open(call, apart, &widths, "constant", zero)?;
    let mut joined = dims;
    joined[2] = call.dim(DimOp::Mul, &joined[2], &Dim::Int(stride));
    let joined = reshape(call, apart, joined)?;
    let reach = (depth - 1) * dilation - windows.padding[0];
    let x = padded_in_depth(call, joined, reach, reach + windows.added[0] + 1 - stride)?;
    let order: Vec<i64> = (0..depth).rev().collect();
    let (planes, pads) = (planes(windows), both_sides(&windows.padding[1..]));
    layers(call, (x, w), &order, (1, dilation), |call, x, w| {
        transposed(call, x, w, &planes, (pads.clone(), groups))
    })
}

/// With zeros before and after the layers; a negative width cuts.
fn padded_in_depth(call: &mut Call, x: V, before: i64, after: i64) -> Done<V> {
    let zero = call.of_number(Number::Int(0), call.dtype(x));
    let mut widths = vec![Dim::Int(0); 10];
    (widths[4], widths[5]) = (Dim::Int(before.max(0)), Dim::Int(after.max(0)));
    let x = pad_open(call, x, &widths, "constant", zero)?;
    if before >= 0 && after >= 0 {
        return Ok(x);
    }
    let layers = call.dims(x)[2].clone();
    let end = call.dim(DimOp::Add, &layers, &Dim::Int(after.min(0)));
    part(call, x, vec![2], vec![Dim::Int((-before).max(0))], vec![end], vec![1])
}

/// The sum of what a convolution over planes makes of the layers of the data, `dilation` layers farther for each layer of the kernel.
fn layers(
    call: &mut Call,
    (x, w): (V, V),
    order: &[i64],
    (stride, dilation): (i64, i64),
    over_planes: impl Fn(&mut Call, V, V) -> Done<V>,
) -> Done<V> {
    let dims = call.dims(x);
    let reach = Dim::Int((order.len() as i64 - 1) * dilation);
    let span = call.dim(DimOp::Sub, &dims[2], &reach);
    if !call.at_least(&span, 1) {
        return unsupported("a depth that may be smaller than the kernel");
    }
    let mut sum: Option<V> = None;
    for (place, &layer) in (0..).zip(order) {
        let begin = place * dilation;
        let end = call.dim(DimOp::Add, &span, &Dim::Int(begin));
        let axis = vec![2_i64];
        let slab = part(call, x, axis, vec![Dim::Int(begin)], vec![end], vec![stride])?;
        let slab_dims = call.dims(slab);
        // (n, c, d, h, w) to (n * d, c, h, w)
        let turned =
            call.call("permute_dims", &[slab.into(), key("axes", vec![0_i64, 2, 1, 3, 4])])?;
        let batch = Dim::product(&[slab_dims[0].clone(), slab_dims[2].clone()]);
        let flat = vec![batch, dims[1].clone(), dims[3].clone(), dims[4].clone()];
        let flat = reshape(call, turned, flat)?;
        let at = call.integers(vec![Dim::Int(layer)], 0, DType::I64);
        let plane = call.call("take", &[w.into(), at.into(), key("axis", 2_i64)])?;
        let y = over_planes(call, flat, plane)?;
        let made = call.dims(y);
        let mut shape = slab_dims[..1].to_vec();
        shape.push(slab_dims[2].clone());
        shape.extend_from_slice(&made[1..]);
        let y = call.call("reshape", &[y.into(), Arg::Shape(shape)])?;
        sum = Some(match sum {
            None => y,
            Some(sum) => pair(call, "add", sum, y)?,
        });
    }
    let Some(sum) = sum else { return invalid("a kernel without layers") };
    call.call("permute_dims", &[sum.into(), key("axes", vec![0_i64, 2, 1, 3, 4])])
}
