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
use relax_syntax::dim::Dim;

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
    if windows.added.iter().zip(&windows.strides).any(|(added, stride)| added >= stride) {
        return unsupported("output_padding that is not below the stride");
    }
    let args = [
        x.into(),
        w.into(),
        key("strides", windows.strides.as_slice()),
        key("padding", pads),
        key("output_padding", windows.added.as_slice()),
        key("dilation", windows.dilation.as_slice()),
        key("groups", groups),
    ];
    call.call(&operator, &args)
}

/// The largest extent of a kernel in depth: one convolution over planes for each of its layers.
const DEEPEST: i64 = 16;

/// Over three dims: the sum over the layers of the kernel of convolutions over planes.
fn in_space(call: &mut Call, x: V, w: V, windows: &Windows, groups: i64) -> Done<V> {
    let kernel = call.dims(w);
    let Some(depth) = kernel[2].as_int().filter(|&depth| depth <= DEEPEST) else {
        return unsupported(format!("a kernel of more than {DEEPEST} layers, or a symbolic one"));
    };
    let dtype = call.dtype(x);
    let zero = call.of_number(Number::Int(0), dtype);
    let mut widths = vec![Dim::Int(0); 10];
    (widths[4], widths[5]) = (Dim::Int(windows.padding[0]), Dim::Int(windows.padding[0]));
    let x = pad_open(call, x, &widths, "constant", zero)?;
    let dims = call.dims(x);
    let (stride, dilation) = (windows.strides[0], windows.dilation[0]);
    let reach = Dim::Int((depth - 1) * dilation);
    let span = call.dim(relax_syntax::dim::DimOp::Sub, &dims[2], &reach);
    if !call.at_least(&span, 1) {
        return unsupported("a depth that may be smaller than the kernel");
    }
    let planes = Windows {
        strides: windows.strides[1..].to_vec(),
        padding: windows.padding[1..].to_vec(),
        dilation: windows.dilation[1..].to_vec(),
        added: vec![0; 2],
    };
    let mut sum: Option<V> = None;
    for layer in 0..depth {
        let begin = layer * dilation;
        let end = call.dim(relax_syntax::dim::DimOp::Add, &span, &Dim::Int(begin));
        let axis = vec![2_i64];
        let slab = part(call, x, axis, vec![Dim::Int(begin)], vec![end], vec![stride])?;
        let slab_dims = call.dims(slab);
        // (n, c, d, h, w) to (n * d, c, h, w)
        let turned =
            call.call("permute_dims", &[slab.into(), key("axes", vec![0_i64, 2, 1, 3, 4])])?;
        let batch = Dim::product(&[slab_dims[0].clone(), slab_dims[2].clone()]);
        let flat = vec![batch, dims[1].clone(), dims[3].clone(), dims[4].clone()];
        let flat = reshape(call, turned, flat)?;
        let at = call.integers(vec![Dim::Int(layer)], 0, relax_syntax::dtype::DType::I64);
        let plane = call.call("take", &[w.into(), at.into(), key("axis", 2_i64)])?;
        let y = plain(call, flat, plane, &planes, groups)?;
        let made = call.dims(y);
        let shape = vec![
            slab_dims[0].clone(),
            slab_dims[2].clone(),
            made[1].clone(),
            made[2].clone(),
            made[3].clone(),
        ];
        let y = call.call("reshape", &[y.into(), Arg::Shape(shape)])?;
        sum = Some(match sum {
            None => y,
            Some(sum) => pair(call, "add", sum, y)?,
        });
    }
    let Some(sum) = sum else { return invalid("a kernel without layers") };
    call.call("permute_dims", &[sum.into(), key("axes", vec![0_i64, 2, 1, 3, 4])])
}
