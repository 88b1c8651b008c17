//! `Resize`. Along one axis the result is a product with a matrix of weights, or elements by index for
//! `nearest`; both are constants where extents and scale are numbers. Of other axes the program computes them.

use super::elementwise::convert;
use super::order::axis_last;
use super::resize_open::{self, Open};
use crate::argument::key;
use crate::builder::V;
use crate::node::{Importer, Node};
use crate::reason::{Done, Reason, invalid, unsupported};
use ndarray::{ArrayD, IxDyn};
use relax_semantics::tensor::Tensor;
use relax_syntax::dim::{Dim, DimOp};
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
pub(super) struct Manner {
    pub(super) mode: String,
    pub(super) nearest: String,
    pub(super) coordinates: String,
    pub(super) cubic: f64,
    pub(super) exclude_outside: bool,
    pub(super) antialias: bool,
    pub(super) extrapolation: f64,
}

/// An axis that changes.
enum Change {
    Known(Axis),
    Open(Open),
}

/// What the model gives: one for each axis.
enum Wanted {
    Scales(Vec<f64>),
    /// Scales that the run computes: a vector of f64.
    Computed(V),
    Sizes(Vec<Dim>),
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
    let crops = manner.coordinates == "tf_crop_and_resize";
    for change in changes(node, x)? {
        x = match change {
            Change::Known(axis) => {
                let cropped = crops && axis.region != (0.0, 1.0);
                if axis.from == axis.to && axis.scale == 1.0 && !cropped {
                    continue;
                }
                along(node, x, &axis, &manner)?
            }
            Change::Open(open) => resize_open::along(node, x, &open, &manner)?,
        };
    }
    Ok(vec![x])
}

/// The axes that may change, by scales or by sizes.
fn changes(node: &mut Node, x: V) -> Done<Vec<Change>> {
    let rank = node.rank(x);
    let given = node.ints("axes").unwrap_or_else(|| (0..rank as i64).collect());
    let axes = node.axes(&given, rank)?;
    let wanted = wanted(node, axes.len())?;
    let regions = floats(node, 1, "roi")?.unwrap_or_default();
    let policy = node.string("keep_aspect_ratio_policy", "stretch")?;
    let own = node.dims(x);
    if let (Wanted::Sizes(sizes), true) = (&wanted, policy != "stretch") {
        let froms: Vec<Dim> = axes.iter().map(|&axis| own[axis].clone()).collect();
        let numbers = |dims: &[Dim]| dims.iter().map(Dim::as_int).collect::<Option<Vec<i64>>>();
        if numbers(&froms).is_none() || numbers(sizes).is_none() {
            return same_scale(node, &axes, &froms, sizes, &policy);
        }
    }
    let mut changes = Vec::new();
    for (place, &axis) in axes.iter().enumerate() {
        let region = regions.get(place).zip(regions.get(place + axes.len()));
        let region = region.map_or((0.0, 1.0), |(&start, &end)| (start, end));
        changes.extend(change(node, axis, &own[axis], place, &wanted, region)?);
    }
    if matches!(wanted, Wanted::Sizes(_)) && policy != "stretch" {
        let known = changes.iter_mut().filter_map(|change| match change {
            Change::Known(axis) => Some(axis),
            Change::Open(_) => None,
        });
        one_scale(known.collect(), &policy)?;
    }
    Ok(changes)
}

fn wanted(node: &mut Node, axes: usize) -> Done<Wanted> {
    let computed = node.optional(2).filter(|&scales| node.tensor(scales).is_none());
    let wanted = match (computed, floats(node, 2, "scales"), node.optional(3)) {
        (Some(scales), _, None) => Wanted::Computed(convert(node, scales, DType::F64)?),
        (_, Ok(Some(scales)), None) => Wanted::Scales(scales),
        (None, Ok(None), Some(sizes)) => Wanted::Sizes(node.extents(sizes, "sizes")?),
        _ => return invalid("there must be scales or sizes"),
    };
    let count = match &wanted {
        Wanted::Scales(scales) => Some(scales.len()),
        Wanted::Sizes(sizes) => Some(sizes.len()),
        Wanted::Computed(scales) => match node.dims(*scales).as_slice() {
            [dim] => dim.as_int().and_then(|count| usize::try_from(count).ok()),
            _ => None,
        },
    };
    if count != Some(axes) {
        return invalid("there is not one scale or size an axis");
    }
    Ok(wanted)
}

/// What becomes of one axis; nothing where it keeps a symbolic extent.
fn change(
    node: &mut Node,
    axis: usize,
    from: &Dim,
    place: usize,
    wanted: &Wanted,
    region: (f64, f64),
) -> Done<Option<Change>> {
    let whole = region == (0.0, 1.0);
    let number = from.as_int();
    Ok(match wanted {
        Wanted::Scales(scales) => {
            let scale = scales[place];
            match number {
                Some(from) => {
                    let to = (from as f64 * scale).floor() as i64;
                    Some(Change::Known(Axis { axis, from, to, scale, region }))
                }
                None if scale == 1.0 && whole => None,
                None => {
                    let to = scaled(node, from, scale)?;
                    let scale = node.scalar(DType::F64, scale);
                    Some(Change::Open(Open { axis, from: from.clone(), to, scale, region }))
                }
            }
        }
        Wanted::Computed(scales) => {
            let at = node.vector(&[place as i64]);
            let scale = node.call("take", &[(*scales).into(), at.into(), key("axis", 0_i64)])?;
            let scale = super::shape::reshape(node, scale, Vec::new())?;
            let to = product(node, from, scale)?;
            Some(Change::Open(Open { axis, from: from.clone(), to, scale, region }))
        }
        Wanted::Sizes(sizes) => match (number, sizes[place].as_int()) {
            (Some(from), Some(to)) => {
                let scale = to as f64 / from as f64;
                Some(Change::Known(Axis { axis, from, to, scale, region }))
            }
            _ if whole && node.same(from, &sizes[place]) => None,
            _ => {
                let to = sizes[place].clone();
                let (before, after) =
                    (resize_open::wide(node, from)?, resize_open::wide(node, &to)?);
                let scale = node.call("divide", &[after.into(), before.into()])?;
                Some(Change::Open(Open { axis, from: from.clone(), to, scale, region }))
            }
        },
    })
}

/// `floor(from * scale)`. A scale is an f32, so it is a fraction whose denominator is a power of two.
fn scaled(node: &mut Node, from: &Dim, scale: f64) -> Done<Dim> {
    let (mut numerator, mut denominator) = (scale, 1_i64);
    while numerator.fract() != 0.0 && denominator < 1 << 30 {
        (numerator, denominator) = (numerator * 2.0, denominator * 2);
    }
    if numerator.fract() != 0.0 || !(0.0..=f64::from(1 << 30)).contains(&numerator) {
        let scale = node.scalar(DType::F64, scale);
        return product(node, from, scale);
    }
    let product = node.dim(DimOp::Mul, from, &Dim::Int(numerator as i64));
    Ok(node.dim(DimOp::FloorDiv, &product, &Dim::Int(denominator)))
}

/// `floor(from * scale)` as the run computes it.
fn product(node: &mut Node, from: &Dim, scale: V) -> Done<Dim> {
    let from = resize_open::wide(node, from)?;
    let to = node.call("multiply", &[from.into(), scale.into()])?;
    let to = node.call("floor", &[to.into()])?;
    let to = convert(node, to, DType::I64)?;
    let to = node.extents(to, "scales")?;
    to.first().cloned().ok_or_else(|| Reason::Invalid("there is no scale".to_owned()))
}

/// The same scale for all axes, of which some have symbolic extents: the least or the greatest.
fn same_scale(
    node: &mut Node,
    axes: &[usize],
    froms: &[Dim],
    sizes: &[Dim],
    policy: &str,
) -> Done<Vec<Change>> {
    let operator = match policy {
        "not_larger" => "minimum",
        "not_smaller" => "maximum",
        other => return invalid(format!("keep_aspect_ratio_policy {other:?}")),
    };
    let mut scale = None;
    for (from, size) in froms.iter().zip(sizes) {
        let (before, after) = (resize_open::wide(node, from)?, resize_open::wide(node, size)?);
        let own = node.call("divide", &[after.into(), before.into()])?;
        scale = Some(match scale {
            None => own,
            Some(other) => node.call(operator, &[V::into(other), own.into()])?,
        });
    }
    let Some(scale) = scale else { return Ok(Vec::new()) };
    let mut changes = Vec::new();
    for (&axis, from) in axes.iter().zip(froms) {
        let before = resize_open::wide(node, from)?;
        let exact = node.call("multiply", &[before.into(), scale.into()])?;
        let half = node.scalar(DType::F64, 0.5);
        let exact = node.call("add", &[exact.into(), half.into()])?;
        let to = node.call("floor", &[exact.into()])?;
        let to = convert(node, to, DType::I64)?;
        let to = node.extents(to, "sizes")?.first().cloned().unwrap_or(Dim::Int(0));
        let (from, region) = (from.clone(), (0.0, 1.0));
        changes.push(Change::Open(Open { axis, from, to, scale, region }));
    }
    Ok(changes)
}

/// The same scale for all axes.
fn one_scale(axes: Vec<&mut Axis>, policy: &str) -> Done<()> {
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
    let wide = convert(node, x, dtype)?;
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
    convert(node, y, own)
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
