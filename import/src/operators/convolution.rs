//! Convolutions. Paddings of ONNX are all before, then all after, as in the language.

use super::arithmetic::pair;
use super::elementwise::convert;
use super::linear::{Rows, centered, requantized};
use super::shape::reshape;
use super::slice::pad_open;
use crate::argument::{Arg, key};
use crate::builder::{Builder, V};
use crate::node::{Importer, Node};
use crate::reason::{Done, invalid, unsupported};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

pub(super) const OPERATORS: &[(&str, Importer)] = &[
    ("Conv", conv),
    ("ConvInteger", conv_integer),
    ("QLinearConv", conv_quantized),
    ("ConvTranspose", conv_transpose),
];

/// Attributes that windows over space have.
#[derive(Clone)]
pub(crate) struct Windows {
    pub(crate) kernel: Vec<Dim>,
    pub(crate) strides: Vec<i64>,
    pub(crate) dilations: Vec<i64>,
    /// All before, then all after.
    pub(crate) pads: Vec<Dim>,
}

/// Reads them, for a tensor of these spatial dims.
pub(super) fn windows(node: &mut Node, space: &[Dim], kernel: Vec<Dim>) -> Done<Windows> {
    let count = space.len();
    let ones = || vec![1; count];
    let strides = node.ints("strides").filter(|s| !s.is_empty()).unwrap_or_else(ones);
    let dilations = node.ints("dilations").filter(|d| !d.is_empty()).unwrap_or_else(ones);
    if [kernel.len(), strides.len(), dilations.len()].iter().any(|&length| length != count) {
        return invalid("the kernel, strides or dilations do not have one entry a spatial dim");
    }
    let kind = node.string("auto_pad", "NOTSET")?;
    let pads = match kind.as_str() {
        "NOTSET" => {
            let pads = node.ints("pads").filter(|pads| !pads.is_empty());
            pads.unwrap_or_else(|| vec![0; 2 * count]).into_iter().map(Dim::Int).collect()
        }
        "VALID" => vec![Dim::Int(0); 2 * count],
        "SAME_UPPER" | "SAME_LOWER" => {
            let mut pads = vec![Dim::Int(0); 2 * count];
            for axis in 0..count {
                let (stride, dilation) = (strides[axis], dilations[axis]);
                let total = same_padding(node, &space[axis], &kernel[axis], stride, dilation);
                let less = node.dim(DimOp::FloorDiv, &total, &Dim::Int(2));
                let more = node.dim(DimOp::Sub, &total, &less);
                let upper = kind == "SAME_UPPER";
                (pads[axis], pads[axis + count]) = if upper { (less, more) } else { (more, less) };
            }
            pads
        }
        other => return invalid(format!("auto_pad {other:?}")),
    };
    if pads.len() != 2 * count {
        return invalid("`pads` must have two entries a spatial dim");
    }
    Ok(Windows { kernel, strides, dilations, pads })
}

/// x with its padding around it where that is symbolic; then the windows have none.
pub(crate) fn padded(node: &mut Builder, x: V, windows: &mut Windows, value: V) -> Done<V> {
    if windows.pads.iter().all(|pad| pad.as_int().is_some()) {
        return Ok(x);
    }
    let count = windows.strides.len();
    let mut widths = vec![Dim::Int(0); 4];
    let (before, after) = windows.pads.split_at(count);
    widths.extend(before.iter().zip(after).flat_map(|(a, b)| [a.clone(), b.clone()]));
    windows.pads = vec![Dim::Int(0); 2 * count];
    pad_open(node, x, &widths, "constant", value)
}

/// `max((ceildiv(n, s) - 1) * s + (k - 1) * d + 1 - n, 0)`
fn same_padding(node: &mut Node, extent: &Dim, kernel: &Dim, stride: i64, dilation: i64) -> Dim {
    let count = node.dim(DimOp::CeilDiv, extent, &Dim::Int(stride));
    let last = node.dim(DimOp::Sub, &count, &Dim::Int(1));
    let start = node.dim(DimOp::Mul, &last, &Dim::Int(stride));
    let reach = node.dim(DimOp::Sub, kernel, &Dim::Int(1));
    let reach = node.dim(DimOp::Mul, &reach, &Dim::Int(dilation));
    let end = node.dim(DimOp::Add, &start, &reach);
    let end = node.dim(DimOp::Add, &end, &Dim::Int(1));
    let over = node.dim(DimOp::Sub, &end, extent);
    node.dim(DimOp::Max, &over, &Dim::Int(0))
}

/// A convolution of values that are prepared, by the attributes of the node.
fn convolved(node: &mut Node, x: V, w: V) -> Done<V> {
    let (space, kernel) = (node.dims(x), node.dims(w));
    let operator = match space.len() {
        3 => "conv1d",
        4 => "conv2d",
        rank => return unsupported(format!("data of rank {rank}")),
    };
    if kernel.len() != space.len() {
        return invalid("the weight does not have the rank of the data");
    }
    let mut windows = windows(node, &space[2..], kernel[2..].to_vec())?;
    let dtype = node.dtype(x);
    let zero = node.scalar(dtype, 0.0);
    let x = padded(node, x, &mut windows, zero)?;
    let groups = node.int("group", 1);
    let args = [
        x.into(),
        w.into(),
        key("strides", windows.strides),
        key("padding", windows.pads),
        key("dilation", windows.dilations),
        key("groups", groups),
    ];
    node.call(operator, &args)
}

/// With a value for each channel added.
fn biased(node: &mut Node, y: V, bias: Option<V>) -> Done<V> {
    let Some(bias) = bias else { return Ok(y) };
    let mut dims = node.dims(bias);
    dims.extend(vec![Dim::Int(1); node.rank(y).saturating_sub(2)]);
    let bias = reshape(node, bias, dims)?;
    pair(node, "add", y, bias)
}

fn conv(node: &mut Node) -> Done<Vec<V>> {
    let (x, w) = (node.input(0)?, node.input(1)?);
    let y = convolved(node, x, w)?;
    Ok(vec![biased(node, y, node.optional(2))?])
}

fn conv_integer(node: &mut Node) -> Done<Vec<V>> {
    let (x, w) = (node.input(0)?, node.input(1)?);
    let x = centered(node, x, node.optional(2), Rows::Along)?;
    let w = centered_weight(node, w, node.optional(3))?;
    Ok(vec![convolved(node, x, w)?])
}

/// A vector of zero points has one for each output channel.
fn centered_weight(node: &mut Node, w: V, zero: Option<V>) -> Done<V> {
    let Some(zero) = zero else { return convert(node, w, DType::I32) };
    let mut dims = node.dims(zero);
    if dims.len() == 1 {
        dims.extend(vec![Dim::Int(1); node.rank(w).saturating_sub(1)]);
    }
    let zero = reshape(node, zero, dims)?;
    centered(node, w, Some(zero), Rows::Along)
}

fn conv_quantized(node: &mut Node) -> Done<Vec<V>> {
    let (x, w) = (node.input(0)?, node.input(3)?);
    let x = centered(node, x, node.optional(2), Rows::Along)?;
    let w = centered_weight(node, w, node.optional(5))?;
    let y = convolved(node, x, w)?;
    let y = biased(node, y, node.optional(8))?;
    let mut scale = node.input(4)?;
    if node.rank(scale) == 1 {
        let mut dims = node.dims(scale);
        dims.extend(vec![Dim::Int(1); node.rank(y) - 2]);
        scale = reshape(node, scale, dims)?;
    }
    let scales = [node.input(1)?, scale, node.input(6)?];
    let zero = node.input(7)?;
    Ok(vec![requantized(node, y, scales, zero)?])
}

fn conv_transpose(node: &mut Node) -> Done<Vec<V>> {
    let (x, w) = (node.input(0)?, node.input(1)?);
    let (space, kernel) = (node.dims(x), node.dims(w));
    let operator = match space.len() {
        3 => "conv1d_transpose",
        4 => "conv2d_transpose",
        rank => return unsupported(format!("data of rank {rank}")),
    };
    if kernel.len() != space.len() {
        return invalid("the weight does not have the rank of the data");
    }
    let count = space.len() - 2;
    let added = node.ints("output_padding").unwrap_or_else(|| vec![0; count]);
    if added.len() != count {
        return invalid("output_padding does not have one entry a spatial dim");
    }
    let (windows, added) = transposed_windows(node, &space[2..], kernel[2..].to_vec(), added)?;
    let groups = node.int("group", 1);
    let args = [
        x.into(),
        w.into(),
        key("strides", windows.strides),
        key("padding", windows.pads),
        key("output_padding", Arg::from(added)),
        key("dilation", windows.dilations),
        key("groups", groups),
    ];
    let y = node.call(operator, &args)?;
    Ok(vec![biased(node, y, node.optional(2))?])
}

/// Where the shape of the result is given, the padding is what makes it so.
fn transposed_windows(
    node: &mut Node,
    space: &[Dim],
    kernel: Vec<Dim>,
    mut added: Vec<i64>,
) -> Done<(Windows, Vec<i64>)> {
    let kind = node.string("auto_pad", "NOTSET")?;
    let wanted = node.ints("output_shape").filter(|shape| !shape.is_empty());
    let mut windows = windows(node, space, kernel)?;
    let same = kind.starts_with("SAME");
    if wanted.is_none() && !same {
        return Ok((windows, added));
    }
    let count = space.len();
    if wanted.as_ref().is_some_and(|shape| shape.len() < count) {
        return invalid("output_shape does not have one entry a spatial dim");
    }
    let numbers = [&windows.strides, &windows.dilations, &added];
    let numbers = numbers.into_iter().chain(&wanted).flatten();
    if numbers
        .chain(
            space
                .iter()
                .chain(&windows.kernel)
                .filter_map(|d| if let Dim::Int(n) = d { Some(n) } else { None }),
        )
        .any(|number| !(0..=1 << 28).contains(number))
    {
        return invalid("an attribute or a dim is out of range");
    }
    for axis in 0..count {
        let Some(kernel) = windows.kernel[axis].as_int() else {
            return unsupported("a symbolic kernel");
        };
        let stride = windows.strides[axis];
        let reach = (kernel - 1) * windows.dilations[axis] + 1;
        let total = match (&wanted, space[axis].as_int()) {
            (Some(shape), Some(extent)) => {
                let target = shape[shape.len() - count..][axis];
                stride * (extent - 1) + added[axis] + reach - target
            }
            (Some(_), None) => {
                return unsupported("a result of given shape where dims are symbolic");
            }
            // The result has so many times the stride elements, whatever the extent is.
            (None, _) => added[axis] + reach - stride,
        };
        if total < 0 {
            added[axis] -= total;
        }
        let total = total.max(0);
        let (less, more) = (total / 2, total - total / 2);
        let pads = if kind == "SAME_UPPER" { (less, more) } else { (more, less) };
        (windows.pads[axis], windows.pads[axis + count]) = (Dim::Int(pads.0), Dim::Int(pads.1));
    }
    Ok((windows, added))
}
