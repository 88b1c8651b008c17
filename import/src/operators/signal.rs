//! Fourier transforms as products with constant matrices, and columns put back into images.

use super::activation::scaled;
use super::arithmetic::pair;
use super::order::axis_last;
use super::shape::{permuted, reshape};
use super::slice::along;
use crate::argument::{Arg, key};
use crate::builder::V;
use crate::node::{Importer, Node};
use crate::reason::{Done, Reason, invalid, unsupported};
use ndarray::{ArrayD, IxDyn};
use relax_semantics::tensor::{Number, Tensor};
use relax_syntax::dim::Dim;

pub(super) const OPERATORS: &[(&str, Importer)] = &[("DFT", dft), ("Col2Im", columns_to_image)];

/// The largest matrix of a transform.
const LONGEST: i64 = 4096;

/// The axis: an input since operator set 20.
fn axis(node: &Node, rank: usize) -> Done<usize> {
    let given = match node.optional(2) {
        Some(axis) => node.known_number(axis, "axis")? as i64,
        None => node.int("axis", if node.opset >= 20 { -2 } else { 1 }),
    };
    node.axis(given, rank)
}

/// `X[k] = sum(x[n] * exp(-2πikn/N))`, and the way back; complex numbers are pairs in the last dim.
fn dft(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let rank = node.rank(x);
    let axis = axis(node, rank)?;
    let width = node.dims(x).last().and_then(Dim::as_int);
    let extent =
        node.dims(x)[axis].as_int().filter(|&n| (1..=LONGEST).contains(&n) && axis + 1 < rank);
    let (Some(width), Some(extent)) = (width, extent) else {
        return unsupported("a symbolic or long axis");
    };
    let wanted = match node.optional(1) {
        Some(length) => node.known_number(length, "dft_length")? as i64,
        None => extent,
    };
    if !(1..=LONGEST).contains(&wanted) {
        return unsupported(format!("dft_length {wanted}"));
    }
    let backwards = node.int("inverse", 0) != 0;
    let kept = if node.int("onesided", 0) != 0 { wanted / 2 + 1 } else { wanted };
    let rows = extent.min(wanted);
    let moved = part(node, x, axis, rows)?;
    let (cosines, sines) = turns(node, moved, (rows, kept), wanted, backwards)?;
    let (real, imaginary) =
        (component(node, moved, axis, 0)?, component(node, moved, axis, 1.min(width - 1))?);
    let mut re = node.call("matmul", &[real.into(), cosines.into()])?;
    let mut im = node.call("matmul", &[real.into(), sines.into()])?;
    if width == 2 {
        let a = node.call("matmul", &[imaginary.into(), sines.into()])?;
        let b = node.call("matmul", &[imaginary.into(), cosines.into()])?;
        (re, im) = (pair(node, "subtract", re, a)?, pair(node, "add", im, b)?);
    }
    if backwards {
        let share = 1.0 / wanted as f64;
        (re, im) = (scaled(node, re, share)?, scaled(node, im, share)?);
    }
    let both = node.call("stack", &[vec![re, im].into(), key("axis", -1_i64)])?;
    // (rest…, k, 2), where k goes back to its place.
    let last = rank as i64 - 2;
    let mut order: Vec<i64> = (0..last).collect();
    order.insert(axis, last);
    order.push(last + 1);
    Ok(vec![permuted(node, both, &order)?])
}

/// The first elements of an axis.
fn part(node: &mut Node, x: V, axis: usize, rows: i64) -> Done<V> {
    if node.dims(x)[axis] == Dim::Int(rows) {
        return Ok(x);
    }
    along(node, x, axis, (0, rows, 1))
}

/// The real or imaginary parts, with the axis of the transform last.
fn component(node: &mut Node, x: V, axis: usize, which: i64) -> Done<V> {
    let last = node.rank(x) as i64 - 1;
    let which = Arg::Scalar(relax_syntax::dtype::DType::I64, Number::Int(which.into()));
    let one = node.call("take", &[x.into(), which, key("axis", last)])?;
    axis_last(node, one, axis)
}

fn turns(
    node: &mut Node,
    x: V,
    (rows, columns): (i64, i64),
    length: i64,
    backwards: bool,
) -> Done<(V, V)> {
    let dtype = node.dtype(x);
    let sign = if backwards { 1.0 } else { -1.0 };
    let matrix = |of: fn(f64) -> f64| {
        let angles = (0..rows).flat_map(|n| (0..columns).map(move |k| (n * k) % length));
        let values =
            angles.map(|turn| of(sign * std::f64::consts::TAU * turn as f64 / length as f64));
        ArrayD::from_shape_vec(IxDyn(&[rows as usize, columns as usize]), values.collect())
            .map_err(|error| Reason::Invalid(error.to_string()))
    };
    let (cosines, sines) = (matrix(f64::cos)?, matrix(f64::sin)?);
    let cosines = node.constant(Tensor::from_floats(dtype, cosines));
    Ok((cosines, node.constant(Tensor::from_floats(dtype, sines))))
}

/// Sums of the columns' elements at the places that they came from.
fn columns_to_image(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let image = node.known_ints(node.input(1)?, "image_shape")?;
    let block = node.known_ints(node.input(2)?, "block_shape")?;
    let count = image.len();
    let ones = || vec![1; count];
    let (strides, dilations) =
        (node.ints("strides").unwrap_or_else(ones), node.ints("dilations").unwrap_or_else(ones));
    let pads = node.ints("pads").unwrap_or_else(|| vec![0; 2 * count]);
    let lists = [block.len(), strides.len(), dilations.len(), pads.len() / 2];
    if lists.iter().any(|&length| length != count) || count == 0 || node.rank(x) != 3 {
        return invalid("there is not one entry a spatial dim");
    }
    let small = |list: &[i64], least: i64| list.iter().all(|n| (least..=1 << 20).contains(n));
    let sizes = small(&image, 0) && small(&block, 1) && small(&pads, 0);
    if !(sizes && small(&strides, 1) && small(&dilations, 1)) {
        return unsupported("sizes out of range");
    }
    let padded: Vec<i64> = (0..count).map(|a| image[a] + pads[a] + pads[a + count]).collect();
    let windows = |a: usize| (padded[a] - dilations[a] * (block[a] - 1) - 1) / strides[a] + 1;
    let windows: Vec<i64> = (0..count).map(windows).collect();
    let mut places = Vec::new();
    let total = |list: &[i64]| list.iter().fold(1_i64, |all, &n| all.saturating_mul(n));
    let taps = total(&block).saturating_mul(total(&windows));
    if windows.iter().any(|&w| w < 1) || total(&padded) > 1 << 24 || taps > 1 << 22 {
        return unsupported("an image of this size");
    }
    for element in 0..total(&block) {
        for window in 0..total(&windows) {
            let (b, w) = (unraveled(element, &block), unraveled(window, &windows));
            let at = (0..count).map(|a| w[a] * strides[a] + b[a] * dilations[a]);
            places.push(at.zip(&padded).fold(0, |place, (at, extent)| place * extent + at));
        }
    }
    let dims = node.dims(x);
    let area = total(&block);
    let channels = node.dim(relax_syntax::dim::DimOp::FloorDiv, &dims[1], &Dim::Int(area));
    let columns = Dim::Int(places.len() as i64);
    let flat = reshape(node, x, vec![dims[0].clone(), channels.clone(), columns])?;
    // Elements first, so that they are written by index.
    let rows = permuted(node, flat, &[2, 0, 1])?;
    let shape = Arg::Shape(vec![Dim::Int(total(&padded)), dims[0].clone(), channels.clone()]);
    let dtype = node.dtype(x);
    let empty = node.call("zeros", &[shape, dtype.into()])?;
    let places = node.vector(&places);
    let args = [empty.into(), vec![places].into(), rows.into(), key("accumulate", true)];
    let sums = node.call("index_put", &args)?;
    let sums = permuted(node, sums, &[1, 2, 0])?;
    let mut full = vec![dims[0].clone(), channels];
    full.extend(padded.iter().map(|&extent| Dim::Int(extent)));
    let full = reshape(node, sums, full)?;
    let axes: Vec<i64> = (2..2 + count as i64).collect();
    let ends: Vec<i64> = (0..count).map(|a| pads[a] + image[a]).collect();
    let args = [full.into(), axes.into(), pads[..count].into(), ends.into()];
    Ok(vec![node.call("strided_slice", &args)?])
}

fn unraveled(mut place: i64, extents: &[i64]) -> Vec<i64> {
    let mut index = vec![0; extents.len()];
    for axis in (0..extents.len()).rev() {
        index[axis] = place % extents[axis];
        place /= extents[axis];
    }
    index
}
