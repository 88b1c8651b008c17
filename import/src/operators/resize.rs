//! `Resize`. Along one axis the result is a product with a matrix of weights, or elements by index for
//! `nearest`; both are constants, since the dims that change must be numbers.

use super::order::axis_last;
use crate::argument::key;
use crate::builder::V;
use crate::node::{Importer, Node};
use crate::reason::{Done, Reason, invalid, unsupported};
use ndarray::{ArrayD, IxDyn};
use relax_semantics::tensor::Tensor;
use relax_syntax::dtype::DType;

pub(super) const OPERATORS: &[(&str, Importer)] = &[("Resize", resize)];

/// The largest matrix of weights.
const MOST_WEIGHTS: usize = 1 << 24;

/// One axis.
struct Axis {
    axis: usize,
    /// Extents before and after.
    from: i64,
    to: i64,
    scale: f64,
    /// The part of the axis that is looked at, in `tf_crop_and_resize`.
    region: (f64, f64),
}

/// How positions become positions, and weights.
struct Manner {
    mode: String,
    nearest: String,
    coordinates: String,
    cubic: f64,
    exclude_outside: bool,
    antialias: bool,
    extrapolation: f64,
}

fn resize(node: &mut Node) -> Done<Vec<V>> {
    let mut x = node.input(0)?;
    let manner = Manner {
        mode: node.string("mode", "nearest")?,
        nearest: node.string("nearest_mode", "round_prefer_floor")?,
        coordinates: node.string("coordinate_transformation_mode", "half_pixel")?,
        cubic: node.float("cubic_coeff_a", -0.75),
        exclude_outside: node.int("exclude_outside", 0) != 0,
        antialias: node.int("antialias", 0) != 0,
        extrapolation: node.float("extrapolation_value", 0.0),
    };
    for axis in axes(node, x)? {
        let crops = manner.coordinates == "tf_crop_and_resize";
        if axis.from == axis.to && axis.scale == 1.0 && !(crops && axis.region != (0.0, 1.0)) {
            continue;
        }
        x = along(node, x, &axis, &manner)?;
    }
    Ok(vec![x])
}

/// The axes that change, by scales or by sizes.
fn axes(node: &mut Node, x: V) -> Done<Vec<Axis>> {
    let rank = node.rank(x);
    let given = node.ints("axes").unwrap_or_else(|| (0..rank as i64).collect());
    let axes = node.axes(&given, rank)?;
    let mut from = Vec::new();
    let scales = floats(node, 2, "scales")?;
    let sizes = node.optional(3).map(|sizes| node.known_ints(sizes, "sizes")).transpose()?;
    let region = floats(node, 1, "roi")?;
    let mut kept = Vec::new();
    for (place, &axis) in axes.iter().enumerate() {
        let same = scales.as_ref().is_some_and(|scales| scales.get(place) == Some(&1.0));
        match node.dims(x)[axis].as_int() {
            Some(extent) => {
                from.push(extent);
                kept.push(place);
            }
            None if same => {}
            None => return unsupported("a symbolic dim that changes"),
        }
    }
    let length = axes.len();
    if [scales.as_ref().map(Vec::len), sizes.as_ref().map(Vec::len)]
        .iter()
        .flatten()
        .any(|&l| l != length)
    {
        return invalid("there is not one scale or size an axis");
    }
    let mut result = Vec::new();
    let policy = node.string("keep_aspect_ratio_policy", "stretch")?;
    for (&place, &from) in kept.iter().zip(&from) {
        let (to, scale) = match (&scales, &sizes) {
            (Some(scales), None) => ((from as f64 * scales[place]).floor() as i64, scales[place]),
            (None, Some(sizes)) => (sizes[place], sizes[place] as f64 / from as f64),
            _ => return invalid("there must be scales or sizes"),
        };
        let region = region
            .as_ref()
            .and_then(|region| Some((*region.get(place)?, *region.get(place + length)?)));
        let region = region.unwrap_or((0.0, 1.0));
        result.push(Axis { axis: axes[place], from, to, scale, region });
    }
    if sizes.is_some() && policy != "stretch" {
        one_scale(&mut result, &policy)?;
    }
    Ok(result)
}

/// The same scale for all axes.
fn one_scale(axes: &mut [Axis], policy: &str) -> Done<()> {
    let scales = axes.iter().map(|axis| axis.scale);
    let scale = match policy {
        "not_larger" => scales.fold(f64::INFINITY, f64::min),
        "not_smaller" => scales.fold(0.0, f64::max),
        other => return invalid(format!("keep_aspect_ratio_policy {other:?}")),
    };
    for axis in axes {
        axis.scale = scale;
        axis.to = (scale * axis.from as f64 + 0.5) as i64;
    }
    Ok(())
}

/// The floats of an optional input; one without elements counts as left out.
fn floats(node: &mut Node, index: usize, what: &str) -> Done<Option<Vec<f64>>> {
    let Some(input) = node.optional(index) else { return Ok(None) };
    match node.tensor(input) {
        Some(tensor) if tensor.is_empty() => Ok(None),
        Some(tensor) => {
            // The f32 of a person's 0.6 is not the 0.6 that the sizes follow from.
            Ok(Some((0..tensor.len()).map(|place| tensor.number(place).as_f64()).collect()))
        }
        None => Err(node.unknown(input, what)),
    }
}

fn along(node: &mut Node, x: V, axis: &Axis, manner: &Manner) -> Done<V> {
    let size = axis.from.checked_mul(axis.to).and_then(|size| usize::try_from(size).ok());
    if axis.from < 1 || axis.to < 0 || size.is_none_or(|size| size > MOST_WEIGHTS) {
        return unsupported(format!(
            "an axis of {} elements that becomes one of {}",
            axis.from, axis.to
        ));
    }
    let places =
        (0..axis.to).map(|place| source(axis, manner, place)).collect::<Done<Vec<f64>>>()?;
    if manner.mode == "nearest" {
        let indices = places.iter().map(|&at| nearest(at, &manner.nearest, axis.from));
        let indices = indices.collect::<Done<Vec<i64>>>()?;
        let indices = node.vector(&indices);
        return node.call("take", &[x.into(), indices.into(), key("axis", axis.axis)]);
    }
    weighed(node, x, axis, manner, &places)
}

/// Where an element of the result lies among those of x.
fn source(axis: &Axis, manner: &Manner, place: i64) -> Done<f64> {
    let (x, from, scale) = (place as f64, axis.from as f64, axis.scale);
    let width = scale * from;
    let (start, end) = axis.region;
    Ok(match manner.coordinates.as_str() {
        "align_corners" if width == 1.0 => 0.0,
        "align_corners" => x * (from - 1.0) / (width - 1.0),
        "asymmetric" => x / scale,
        "tf_crop_and_resize" if width == 1.0 => {
            (end - start) * (from - 1.0) / 2.0 + start * (from - 1.0)
        }
        "tf_crop_and_resize" => {
            x * (end - start) * (from - 1.0) / (width - 1.0) + start * (from - 1.0)
        }
        "pytorch_half_pixel" if width == 1.0 => -0.5,
        "half_pixel" | "pytorch_half_pixel" => (x + 0.5) / scale - 0.5,
        "half_pixel_symmetric" => {
            let adjustment = axis.to as f64 / width;
            from / 2.0 * (1.0 - adjustment) + (x + 0.5) / scale - 0.5
        }
        other => return unsupported(format!("coordinate_transformation_mode {other:?}")),
    })
}

fn nearest(at: f64, mode: &str, extent: i64) -> Done<i64> {
    let place = match mode {
        "round_prefer_floor" => (at - 0.5).ceil(),
        "round_prefer_ceil" => (at + 0.5).floor(),
        "floor" => at.floor(),
        "ceil" => at.ceil(),
        other => return invalid(format!("nearest_mode {other:?}")),
    };
    Ok((place as i64).clamp(0, extent - 1))
}

fn weighed(node: &mut Node, x: V, axis: &Axis, manner: &Manner, places: &[f64]) -> Done<V> {
    let (from, to) = (axis.from as usize, axis.to as usize);
    let crops = manner.coordinates == "tf_crop_and_resize";
    let outside = |at: f64| crops && (at < 0.0 || at > (from - 1) as f64);
    let mut weights = vec![0.0; from * to];
    for (row, &at) in places.iter().enumerate().filter(|(_, at)| !outside(**at)) {
        for (index, weight) in neighbours(at, axis, manner)? {
            let index = index.clamp(0, axis.from - 1) as usize;
            weights[index * to + row] += weight;
        }
    }
    let own = node.dtype(x);
    let dtype = if own.is_float() { own } else { DType::F32 };
    let matrix = ArrayD::from_shape_vec(IxDyn(&[from, to]), weights)
        .map_err(|error| Reason::Invalid(error.to_string()))?;
    let matrix = node.constant(Tensor::from_floats(dtype, matrix));
    let wide = super::elementwise::convert(node, x, dtype)?;
    let last = axis_last(node, wide, axis.axis)?;
    let mut y = node.call("matmul", &[last.into(), matrix.into()])?;
    if places.iter().any(|&at| outside(at)) {
        let flags: Vec<bool> = places.iter().map(|&at| outside(at)).collect();
        let flags = ArrayD::from_shape_vec(IxDyn(&[to]), flags)
            .map_err(|error| Reason::Invalid(error.to_string()))?;
        let flags = node.constant(Tensor::from_bools(flags));
        let value = node.scalar(dtype, manner.extrapolation);
        y = node.call("where", &[flags.into(), value.into(), y.into()])?;
    }
    let mut back: Vec<i64> = (0..node.rank(x) as i64 - 1).collect();
    back.insert(axis.axis, node.rank(x) as i64 - 1);
    let y = super::shape::permuted(node, y, &back)?;
    super::elementwise::convert(node, y, own)
}

/// Elements, some of them beyond the edges, and how much each counts.
fn neighbours(at: f64, axis: &Axis, manner: &Manner) -> Done<Vec<(i64, f64)>> {
    // The element on the left is preferred: the ratio is in 0 < ratio <= 1.
    let ratio = if at.fract() == 0.0 { 1.0 } else { at - at.floor() };
    let scale = if manner.antialias { axis.scale.min(1.0) } else { 1.0 };
    let kernel: fn(f64, f64) -> f64 = match manner.mode.as_str() {
        "linear" => |x, _| (1.0 - x.abs()).clamp(0.0, 1.0),
        "cubic" => cubic,
        other => return invalid(format!("mode {other:?}")),
    };
    let reach = if manner.mode == "linear" { 1.0 } else { 2.0 };
    let start = (-reach / scale).floor() as i64 + 1;
    let count = 2 - 2 * start;
    let first = at.ceil() as i64 - count / 2;
    let mut found: Vec<(i64, f64)> = (0..count)
        .map(|step| (first + step, kernel(scale * ((start + step) as f64 - ratio), manner.cubic)))
        .collect();
    if manner.exclude_outside {
        found.retain(|(index, _)| (0..axis.from).contains(index));
    }
    if manner.exclude_outside || manner.antialias {
        let sum: f64 = found.iter().map(|(_, weight)| weight).sum();
        found.iter_mut().for_each(|(_, weight)| *weight /= sum);
    }
    Ok(found)
}

fn cubic(x: f64, a: f64) -> f64 {
    let x = x.abs();
    if x <= 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    } else {
        0.0
    }
}
