//! `Resize` along an axis whose extents are symbolic: the program computes coordinates and weights, in f64 and by the
//! formulas of the axes that are numbers.

use super::elementwise::convert;
use super::order::axis_last;
use super::resize::Manner;
use super::shape::{permuted, reshape};
use crate::argument::{Arg, key};
use crate::builder::V;
use crate::node::Node;
use crate::reason::{Done, invalid, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

/// One axis.
pub(super) struct Open {
    pub(super) axis: usize,
    /// Extents before and after.
    pub(super) from: Dim,
    pub(super) to: Dim,
    /// An f64 of rank 0.
    pub(super) scale: V,
    /// The part of the axis that is looked at, in `tf_crop_and_resize`.
    pub(super) region: (f64, f64),
}

/// f64 of rank 0.
fn float(value: f64) -> Arg {
    Arg::Scalar(DType::F64, Number::Float(value))
}

/// A dim as an f64 of rank 0.
pub(super) fn wide(node: &mut Node, dim: &Dim) -> Done<V> {
    let integer = node.integers(vec![dim.clone()], 0, DType::I64);
    convert(node, integer, DType::F64)
}

/// Positions `0, 1, … count - 1` in f64.
fn places(node: &mut Node, count: &Dim) -> Done<V> {
    let places = node.call("arange", &[count.clone().into(), key("dtype", DType::I64)])?;
    convert(node, places, DType::F64)
}

/// `operator(x, y)`
fn of(node: &mut Node, operator: &str, x: impl Into<Arg>, y: impl Into<Arg>) -> Done<V> {
    node.call(operator, &[x.into(), y.into()])
}

pub(super) fn along(node: &mut Node, x: V, open: &Open, manner: &Manner) -> Done<V> {
    let at = source(node, open, manner)?;
    if manner.mode == "nearest" {
        let at = nearest(node, at, &manner.nearest)?;
        let indices = inside(node, at, &open.from)?;
        return node.call("take", &[x.into(), indices.into(), key("axis", open.axis)]);
    }
    let own = node.dtype(x);
    let dtype = if own.is_float() { own } else { DType::F32 };
    let x = convert(node, x, dtype)?;
    let y = match manner.antialias {
        true => filtered(node, x, at, open, manner)?,
        false => interpolated(node, x, at, open, manner)?,
    };
    let y = if manner.coordinates == "tf_crop_and_resize" {
        let zero = of(node, "less", at, float(0.0))?;
        let last = node.dim(DimOp::Sub, &open.from, &Dim::Int(1));
        let last = wide(node, &last)?;
        let end = of(node, "greater", at, last)?;
        let outside = of(node, "logical_or", zero, end)?;
        let outside = spread(node, outside, open.axis, node.rank(y))?;
        let value = node.scalar(dtype, manner.extrapolation);
        node.call("where", &[outside.into(), value.into(), y.into()])?
    } else {
        y
    };
    convert(node, y, own)
}

/// Where each element of the result lies among those of x: an f64 for each.
fn source(node: &mut Node, open: &Open, manner: &Manner) -> Done<V> {
    let at = places(node, &open.to)?;
    let from = wide(node, &open.from)?;
    let scale = open.scale;
    let half = |node: &mut Node| -> Done<V> {
        let middle = of(node, "add", at, float(0.5))?;
        let there = of(node, "divide", middle, scale)?;
        of(node, "subtract", there, float(0.5))
    };
    // Where the result has one element the formulas divide by 0.
    let unless_one = |node: &mut Node, one: V, other: V, width: V| -> Done<V> {
        let single = of(node, "equal", width, float(1.0))?;
        node.call("where", &[single.into(), one.into(), other.into()])
    };
    let width = of(node, "multiply", scale, from)?;
    let (last, steps) =
        (of(node, "subtract", from, float(1.0))?, of(node, "subtract", width, float(1.0))?);
    let (start, end) = open.region;
    match manner.coordinates.as_str() {
        "asymmetric" => of(node, "divide", at, scale),
        "half_pixel" => half(node),
        "pytorch_half_pixel" => {
            let at = half(node)?;
            let one = node.scalar(DType::F64, -0.5);
            unless_one(node, one, at, width)
        }
        "half_pixel_symmetric" => {
            let to = wide(node, &open.to)?;
            let adjustment = of(node, "divide", to, width)?;
            let rest = node.scalar(DType::F64, 1.0);
            let rest = of(node, "subtract", rest, adjustment)?;
            let center = of(node, "divide", from, float(2.0))?;
            let offset = of(node, "multiply", center, rest)?;
            let at = half(node)?;
            of(node, "add", at, offset)
        }
        "align_corners" => {
            let at = of(node, "multiply", at, last)?;
            let at = of(node, "divide", at, steps)?;
            let one = node.scalar(DType::F64, 0.0);
            unless_one(node, one, at, width)
        }
        "tf_crop_and_resize" => {
            let at = of(node, "multiply", at, float(end - start))?;
            let at = of(node, "multiply", at, last)?;
            let at = of(node, "divide", at, steps)?;
            let first = of(node, "multiply", last, float(start))?;
            let at = of(node, "add", at, first)?;
            let middle = of(node, "multiply", last, float((end - start) / 2.0 + start))?;
            unless_one(node, middle, at, width)
        }
        other => unsupported(format!("coordinate_transformation_mode {other:?}")),
    }
}

fn nearest(node: &mut Node, at: V, mode: &str) -> Done<V> {
    let (shift, operator) = match mode {
        "round_prefer_floor" => (-0.5, "ceil"),
        "round_prefer_ceil" => (0.5, "floor"),
        "floor" => (0.0, "floor"),
        "ceil" => (0.0, "ceil"),
        other => return invalid(format!("nearest_mode {other:?}")),
    };
    let at = if shift == 0.0 { at } else { of(node, "add", at, float(shift))? };
    node.call(operator, &[at.into()])
}

/// Positions as indices, those beyond the edges being the edges.
fn inside(node: &mut Node, at: V, extent: &Dim) -> Done<V> {
    let index = convert(node, at, DType::I64)?;
    let index = of(node, "maximum", index, Arg::Scalar(DType::I64, Number::Int(0)))?;
    let last = node.dim(DimOp::Sub, extent, &Dim::Int(1));
    let last = node.integers(vec![last], 0, DType::I64);
    of(node, "minimum", index, last)
}

/// A vector as a tensor of that rank, along an axis.
fn spread(node: &mut Node, vector: V, axis: usize, rank: usize) -> Done<V> {
    let mut dims = vec![Dim::Int(1); rank];
    dims[axis] = node.dims(vector)[0].clone();
    reshape(node, vector, dims)
}

/// The sum of a fixed number of neighbours: two, or four of `cubic`.
fn interpolated(node: &mut Node, x: V, at: V, open: &Open, manner: &Manner) -> Done<V> {
    // The element on the left is preferred: the ratio is in 0 < ratio <= 1.
    let up = node.call("ceil", &[at.into()])?;
    let base = of(node, "subtract", up, float(1.0))?;
    let ratio = of(node, "subtract", at, base)?;
    let steps: &[f64] = match manner.mode.as_str() {
        "linear" => &[0.0, 1.0],
        "cubic" => &[-1.0, 0.0, 1.0, 2.0],
        other => return invalid(format!("mode {other:?}")),
    };
    let mut taps = Vec::new();
    for &step in steps {
        let place = of(node, "add", base, float(step))?;
        let distance = of(node, "subtract", ratio, float(step))?;
        let weight = kernel(node, distance, manner)?;
        taps.push((place, weighed(node, weight, place, open, manner)?));
    }
    if manner.exclude_outside {
        let mut sum = taps[0].1;
        for &(_, weight) in &taps[1..] {
            sum = of(node, "add", sum, weight)?;
        }
        for (_, weight) in &mut taps {
            *weight = of(node, "divide", *weight, sum)?;
        }
    }
    let mut all = None;
    for (place, weight) in taps {
        let index = inside(node, place, &open.from)?;
        let part = node.call("take", &[x.into(), index.into(), key("axis", open.axis)])?;
        let dtype = node.dtype(x);
        let weight = convert(node, weight, dtype)?;
        let weight = spread(node, weight, open.axis, node.rank(x))?;
        let part = of(node, "multiply", part, weight)?;
        all = Some(match all {
            None => part,
            Some(sum) => of(node, "add", sum, part)?,
        });
    }
    Ok(all.expect("invariant: there are two neighbours at least"))
}

/// A product with a matrix of weights: a kernel that is as wide as the scale says. x is continued beyond its edges as
/// far as the kernel reaches.
fn filtered(node: &mut Node, x: V, at: V, open: &Open, manner: &Manner) -> Done<V> {
    let reach = match manner.mode.as_str() {
        "linear" => 1,
        "cubic" => 2,
        other => return invalid(format!("mode {other:?}")),
    };
    let margin = match manner.exclude_outside {
        true => Dim::Int(0),
        false => {
            let to = node.dim(DimOp::Max, &open.to, &Dim::Int(1));
            let shrunk = node.dim(DimOp::CeilDiv, &open.from, &to);
            let shrunk = node.dim(DimOp::Max, &shrunk, &Dim::Int(1));
            let wide = node.dim(DimOp::Mul, &shrunk, &Dim::Int(reach));
            node.dim(DimOp::Add, &wide, &Dim::Int(2))
        }
    };
    let both = node.dim(DimOp::Mul, &margin, &Dim::Int(2));
    let count = node.dim(DimOp::Add, &open.from, &both);
    let place = places(node, &count)?;
    let before = wide(node, &margin)?;
    let place = of(node, "subtract", place, before)?;
    let index = inside(node, place, &open.from)?;
    let x = node.call("take", &[x.into(), index.into(), key("axis", open.axis)])?;
    let column = reshape(node, place, vec![count, Dim::Int(1)])?;
    let narrow = of(node, "minimum", open.scale, float(1.0))?;
    let distance = of(node, "subtract", column, at)?;
    let distance = of(node, "multiply", distance, narrow)?;
    let weights = kernel(node, distance, manner)?;
    let sums = node.call("sum", &[weights.into(), key("axis", 0_i64), key("keepdims", true)])?;
    let weights = of(node, "divide", weights, sums)?;
    let dtype = node.dtype(x);
    let weights = convert(node, weights, dtype)?;
    let last = axis_last(node, x, open.axis)?;
    let y = of(node, "matmul", last, weights)?;
    let mut back: Vec<i64> = (0..node.rank(x) as i64 - 1).collect();
    back.insert(open.axis, node.rank(x) as i64 - 1);
    permuted(node, y, &back)
}

/// The weights, or 0 for positions beyond the edges where those do not count.
fn weighed(node: &mut Node, weight: V, place: V, open: &Open, manner: &Manner) -> Done<V> {
    if !manner.exclude_outside {
        return Ok(weight);
    }
    let extent = wide(node, &open.from)?;
    let after = of(node, "less", place, extent)?;
    let before = of(node, "greater_equal", place, float(0.0))?;
    let kept = of(node, "logical_and", before, after)?;
    node.call("where", &[kept.into(), weight.into(), float(0.0)])
}

/// How much elements at these distances count.
fn kernel(node: &mut Node, distance: V, manner: &Manner) -> Done<V> {
    let x = node.call("abs", &[distance.into()])?;
    if manner.mode == "linear" {
        let one = node.scalar(DType::F64, 1.0);
        let weight = of(node, "subtract", one, x)?;
        return of(node, "maximum", weight, float(0.0));
    }
    let a = manner.cubic;
    // Polynomials of |x| by Horner, up to 1 and up to 2.
    let polynomial = |node: &mut Node, coefficients: [f64; 4]| -> Done<V> {
        let mut sum = of(node, "multiply", x, float(coefficients[0]))?;
        for &coefficient in &coefficients[1..3] {
            sum = of(node, "add", sum, float(coefficient))?;
            sum = of(node, "multiply", sum, x)?;
        }
        of(node, "add", sum, float(coefficients[3]))
    };
    let near = polynomial(node, [a + 2.0, -(a + 3.0), 0.0, 1.0])?;
    let far = polynomial(node, [a, -5.0 * a, 8.0 * a, -4.0 * a])?;
    let is_near = of(node, "less_equal", x, float(1.0))?;
    let is_far = of(node, "less", x, float(2.0))?;
    let far = node.call("where", &[is_far.into(), far.into(), float(0.0)])?;
    node.call("where", &[is_near.into(), near.into(), far.into()])
}
