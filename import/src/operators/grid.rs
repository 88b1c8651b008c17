//! `GridSample`: elements between elements, at coordinates that are data; and `AffineGrid`.
//!
//! Along each axis a coordinate becomes taps: an index, a weight, and whether it lies inside. The
//! result is the sum over all combinations of taps.

use super::activation::{plus, scaled};
use super::arithmetic::pair;
use super::elementwise::convert;
use super::shape::reshape;
use crate::argument::{Arg, key};
use crate::builder::V;
use crate::node::{Importer, Node};
use crate::reason::{Done, Reason, invalid, unsupported};
use ndarray::{ArrayD, IxDyn};
use relax_semantics::tensor::{Number, Tensor};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

pub(super) const OPERATORS: &[(&str, Importer)] =
    &[("GridSample", grid_sample), ("AffineGrid", affine_grid)];

/// One element that counts, along one axis.
struct Tap {
    index: V,
    weight: Option<V>,
    inside: Option<V>,
}

fn real(value: f64) -> Arg {
    Arg::Scalar(DType::F64, Number::Float(value))
}

fn grid_sample(node: &mut Node) -> Done<Vec<V>> {
    let (x, grid) = (node.input(0)?, node.input(1)?);
    let (dims, spread) = (node.dims(x), node.dims(grid));
    let count = dims.len().saturating_sub(2);
    if count == 0 || spread.len() != dims.len() || spread.last() != Some(&Dim::Int(count as i64)) {
        return invalid("the grid does not fit the data");
    }
    let points = Dim::product(&spread[1..=count]);
    let grid = convert(node, grid, DType::F64)?;
    let grid =
        reshape(node, grid, vec![spread[0].clone(), points.clone(), Dim::Int(count as i64)])?;
    let mut axes = Vec::new();
    for axis in 0..count {
        // Coordinates stand in the opposite order of dims.
        let place = Arg::Scalar(DType::I64, Number::Int((count - 1 - axis) as i128));
        let at = node.call("take", &[grid.into(), place, key("axis", 2_i64)])?;
        axes.push(taps(node, at, &dims[axis + 2])?);
    }
    let flat = vec![dims[0].clone(), dims[1].clone(), Dim::product(&dims[2..])];
    let flat = reshape(node, x, flat)?;
    let shape = Arg::Shape(vec![dims[0].clone(), dims[1].clone(), points]);
    let total: usize = axes.iter().map(Vec::len).product();
    let mut sum = None;
    for number in 0..total {
        let mut rest = number;
        let mut combination = Vec::new();
        for taps in &axes {
            combination.push(&taps[rest % taps.len()]);
            rest /= taps.len();
        }
        let value = sampled(node, flat, &combination, &dims[2..], &shape)?;
        sum = Some(match sum {
            None => value,
            Some(sum) => pair(node, "add", sum, value)?,
        });
    }
    let Some(sum) = sum else { return invalid("no element counts") };
    let mut out = vec![dims[0].clone(), dims[1].clone()];
    out.extend_from_slice(&spread[1..=count]);
    let own = node.dtype(x);
    let sum = reshape(node, sum, out)?;
    Ok(vec![convert(node, sum, own)?])
}

/// The elements at one combination of taps, weighed.
fn sampled(node: &mut Node, x: V, taps: &[&Tap], dims: &[Dim], shape: &Arg) -> Done<V> {
    let mut place = None;
    let mut weight: Option<V> = None;
    for (tap, extent) in taps.iter().zip(dims) {
        place = Some(match place {
            None => tap.index,
            Some(before) => {
                let extent = node.integers(vec![extent.clone()], 0, DType::I64);
                let scaled = pair(node, "multiply", before, extent)?;
                pair(node, "add", scaled, tap.index)?
            }
        });
        for factor in [tap.weight, tap.inside].into_iter().flatten() {
            weight = Some(match weight {
                None => factor,
                Some(weight) => pair(node, "multiply", weight, factor)?,
            });
        }
    }
    let place = place.ok_or_else(|| Reason::Invalid("no axis".to_owned()))?;
    let place = node.call("expand_dims", &[place.into(), key("axis", vec![1_i64])])?;
    let place = node.call("broadcast_to", &[place.into(), shape.clone()])?;
    let value = node.call("gather_elements", &[x.into(), place.into(), key("axis", 2_i64)])?;
    let value = convert(node, value, DType::F64)?;
    let Some(weight) = weight else { return Ok(value) };
    let weight = node.call("expand_dims", &[weight.into(), key("axis", vec![1_i64])])?;
    pair(node, "multiply", value, weight)
}

fn taps(node: &mut Node, at: V, extent: &Dim) -> Done<Vec<Tap>> {
    let align = node.int("align_corners", 0) != 0;
    let length = node.integers(vec![extent.clone()], 0, DType::I64);
    let length = convert(node, length, DType::F64)?;
    let moved = plus(node, at, 1.0)?;
    // -1 and 1 are the centers of the outermost elements, or their outer edges.
    let at = if align {
        let last = plus(node, length, -1.0)?;
        let half = scaled(node, last, 0.5)?;
        pair(node, "multiply", moved, half)?
    } else {
        let spread = pair(node, "multiply", moved, length)?;
        let spread = plus(node, spread, -1.0)?;
        scaled(node, spread, 0.5)?
    };
    let mode = node.string("mode", "linear")?;
    if mode == "nearest" {
        let at = node.call("round", &[at.into()])?;
        return Ok(vec![tap(node, at, None, length, align)?]);
    }
    let floor = node.call("floor", &[at.into()])?;
    let ratio = pair(node, "subtract", at, floor)?;
    let steps: &[i64] = match mode.as_str() {
        "linear" | "bilinear" => &[0, 1],
        "cubic" | "bicubic" => &[-1, 0, 1, 2],
        other => return unsupported(format!("mode {other:?}")),
    };
    let mut taps = Vec::new();
    for &step in steps {
        let away = plus(node, ratio, -step as f64)?;
        let away = node.call("abs", &[away.into()])?;
        let weight = if steps.len() == 2 {
            let less = scaled(node, away, -1.0)?;
            plus(node, less, 1.0)?
        } else {
            cubic(node, away, step == 0 || step == 1)?
        };
        let place = plus(node, floor, step as f64)?;
        taps.push(tap(node, place, Some(weight), length, align)?);
    }
    Ok(taps)
}

/// The cubic kernel with -0.75, near its center or beyond 1.
fn cubic(node: &mut Node, x: V, near: bool) -> Done<V> {
    let factors = if near { [1.25, -2.25, 0.0, 1.0] } else { [-0.75, 3.75, -6.0, 3.0] };
    let mut sum = scaled(node, x, factors[0])?;
    for &factor in &factors[1..3] {
        sum = plus(node, sum, factor)?;
        sum = pair(node, "multiply", sum, x)?;
    }
    plus(node, sum, factors[3])
}

/// An index brought inside, and whether it was: by `padding_mode`.
fn tap(node: &mut Node, place: V, weight: Option<V>, length: V, align: bool) -> Done<Tap> {
    let last = plus(node, length, -1.0)?;
    let (mut place, mut inside) = (place, None);
    match node.string("padding_mode", "zeros")?.as_str() {
        "zeros" => {
            let low = node.call("greater_equal", &[place.into(), real(0.0)])?;
            let high = pair(node, "less_equal", place, last)?;
            let both = node.call("logical_and", &[low.into(), high.into()])?;
            inside = Some(convert(node, both, DType::F64)?);
        }
        "border" => {}
        "reflection" => place = reflected(node, place, length, align)?,
        other => return invalid(format!("padding_mode {other:?}")),
    }
    let place = node.call("maximum", &[place.into(), real(0.0)])?;
    let place = pair(node, "minimum", place, last)?;
    Ok(Tap { index: convert(node, place, DType::I64)?, weight, inside })
}

/// Mirrored at the centers of the outermost elements, or at their outer edges.
fn reflected(node: &mut Node, place: V, length: V, align: bool) -> Done<V> {
    let (back, shift) = if align { (-1.0, 0.0) } else { (0.0, -1.0) };
    let half = plus(node, length, back)?;
    let period = scaled(node, half, 2.0)?;
    let period = node.call("maximum", &[period.into(), real(1.0)])?;
    let within = pair(node, "floor_mod", place, period)?;
    let mirrored = pair(node, "subtract", period, within)?;
    let mirrored = plus(node, mirrored, shift)?;
    pair(node, "minimum", within, mirrored)
}

/// The coordinates of the elements of an image, by an affine map.
fn affine_grid(node: &mut Node) -> Done<Vec<V>> {
    let (theta, size) = (node.input(0)?, node.input(1)?);
    let size = node.known_ints(size, "size")?;
    let space = size.get(2..).unwrap_or_default().to_vec();
    let total = space.iter().try_fold(1_i64, |total, &extent| total.checked_mul(extent));
    if total.is_none_or(|total| !(0..=1 << 24).contains(&total))
        || space.is_empty()
        || space.iter().any(|&extent| extent < 1)
    {
        return unsupported("an image of this size");
    }
    let align = node.int("align_corners", 0) != 0;
    let coordinate = |at: i64, extent: i64| match (align, extent) {
        (true, 1) => -1.0,
        (true, extent) => 2.0 * at as f64 / (extent - 1) as f64 - 1.0,
        (false, extent) => (2 * at + 1) as f64 / extent as f64 - 1.0,
    };
    let mut rows = Vec::new();
    for mut place in 0..total.unwrap_or(0) {
        for &extent in space.iter().rev() {
            rows.push(coordinate(place % extent, extent));
            place /= extent;
        }
        rows.push(1.0);
    }
    let shape = [total.unwrap_or(0) as usize, space.len() + 1];
    let base = ArrayD::from_shape_vec(IxDyn(&shape), rows)
        .map_err(|error| Reason::Invalid(error.to_string()))?;
    let dtype = node.dtype(theta);
    let base = node.constant(Tensor::from_floats(dtype, base));
    let columns = super::shape::permuted(node, theta, &[0, 2, 1])?;
    let grid = node.call("matmul", &[base.into(), columns.into()])?;
    let mut dims = vec![node.dims(theta)[0].clone()];
    dims.extend(space.iter().map(|&extent| Dim::Int(extent)));
    dims.push(Dim::Int(space.len() as i64));
    Ok(vec![reshape(node, grid, dims)?])
}
