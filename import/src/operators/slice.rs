//! Parts of tensors by position, and what is put around them: `Slice`, `Pad`, `CenterCropPad`.

use crate::argument::{Arg, key};
use crate::builder::{Builder, V};
use crate::node::{Importer, Node};
use crate::reason::{Done, Reason, invalid, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

use super::elementwise::convert;

pub(super) const OPERATORS: &[(&str, Importer)] =
    &[("Slice", slice), ("Pad", pad), ("CenterCropPad", center_crop_pad)];

fn slice(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let rank = node.rank(x);
    if let (Some(starts), Some(ends)) = (node.ints("starts"), node.ints("ends")) {
        let axes = node.ints("axes").unwrap_or_else(|| (0..starts.len() as i64).collect());
        let (starts, ends): (Vec<Dim>, Vec<Dim>) =
            (starts.into_iter().map(Dim::Int).collect(), ends.into_iter().map(Dim::Int).collect());
        let strides = vec![1; starts.len()];
        return Ok(vec![part(node, x, axes, starts, ends, strides)?]);
    }
    let (starts, ends) = (node.input(1)?, node.input(2)?);
    let axes = node.optional(3).map(|axes| node.known_ints(axes, "axes"));
    let strides = node.optional(4).map(|steps| node.known_ints(steps, "steps"));
    if let (Some(starts), Some(ends)) = (node.elements(starts), node.elements(ends)) {
        let axes = axes.transpose()?.unwrap_or_else(|| (0..starts.len() as i64).collect());
        let strides = strides.transpose()?.unwrap_or_else(|| vec![1; starts.len()]);
        return Ok(vec![part(node, x, axes, starts, ends, strides)?]);
    }
    computed_slice(node, x, rank)
}

/// The elements from `begin` to `end` of one axis, every `step`-th.
pub(crate) fn along(
    node: &mut Builder,
    x: V,
    axis: usize,
    (begin, end, step): (i64, i64, i64),
) -> Done<V> {
    let mut args =
        vec![x.into(), Arg::from(vec![axis as i64]), Arg::from(vec![begin]), Arg::from(vec![end])];
    if step != 1 {
        args.push(Arg::from(vec![step]));
    }
    node.call("strided_slice", &args)
}

pub(crate) fn part(
    node: &mut Builder,
    x: V,
    axes: Vec<i64>,
    starts: Vec<Dim>,
    ends: Vec<Dim>,
    strides: Vec<i64>,
) -> Done<V> {
    if let (Some(elements), None, 1) = (node.elements(x), node.tensor(x), axes.len())
        && let (Some(start), Some(end)) =
            (starts.first().and_then(Dim::as_int), ends.first().and_then(Dim::as_int))
        && strides == [1]
    {
        let length = elements.len() as i64;
        let clamp =
            |at: i64| (if at < 0 { at.saturating_add(length) } else { at }).clamp(0, length);
        let (start, end) = (clamp(start) as usize, clamp(end) as usize);
        let dtype = node.dtype(x);
        return Ok(node.integers(elements[start..end.max(start)].to_vec(), 1, dtype));
    }
    let mut args = vec![x.into(), Arg::from(axes), Arg::Dims(starts), Arg::Dims(ends)];
    if strides.iter().any(|&stride| stride != 1) {
        args.push(Arg::from(strides));
    }
    node.call("strided_slice", &args)
}

/// Bounds that only the run knows: one for each axis, those of axes that are not sliced being the whole.
fn computed_slice(node: &mut Node, x: V, rank: usize) -> Done<Vec<V>> {
    let of = |node: &mut Node, index: usize| -> Done<Option<V>> {
        node.optional(index).map(|v| convert(node, v, DType::I64)).transpose()
    };
    let (starts, ends) = (of(node, 1)?, of(node, 2)?);
    let (axes, steps) = (of(node, 3)?, of(node, 4)?);
    let spread = |node: &mut Node, given: Option<V>, fill: i64| -> Done<V> {
        let full = node.vector(&vec![fill; rank]);
        let Some(given) = given else { return Ok(full) };
        let axes = match axes {
            Some(axes) => axes,
            None => {
                let length = node.dims(given).first().and_then(Dim::as_int).unwrap_or(0);
                node.vector(&(0..length).collect::<Vec<_>>())
            }
        };
        node.call("scatter_elements", &[full.into(), axes.into(), given.into()])
    };
    let begin = spread(node, starts, 0)?;
    let stride = spread(node, steps, 1)?;
    let end = spread(node, ends, i64::MAX)?;
    let args = [x.into(), begin.into(), end.into(), stride.into()];
    let result = node.call("dynamic_strided_slice", &args)?;
    if let Some(axes) = axes.and_then(|axes| node.elements(axes)) {
        let axes: Option<Vec<i64>> = axes.iter().map(Dim::as_int).collect();
        let axes = node.axes(&axes.unwrap_or_default(), rank)?;
        let own = node.dims(x);
        for axis in (0..rank).filter(|axis| !axes.contains(axis)) {
            node.builder.values[result.0].dims[axis] = own[axis].clone();
        }
    }
    Ok(vec![result])
}

fn pad(node: &mut Node) -> Done<Vec<V>> {
    let x = node.input(0)?;
    let rank = node.rank(x);
    let pads = match node.ints("pads") {
        Some(pads) => pads.into_iter().map(Dim::Int).collect(),
        None => node.known(node.input(1)?, "pads")?,
    };
    let axes = match node.optional(3) {
        Some(axes) => node.known_ints(axes, "axes")?,
        None => (0..rank as i64).collect(),
    };
    let axes = node.axes(&axes, rank)?;
    if pads.len() != 2 * axes.len() {
        return invalid("`pads` must have two entries an axis");
    }
    let (mut widths, mut cuts) = (vec![Dim::Int(0); 2 * rank], Vec::new());
    for (place, &axis) in axes.iter().enumerate() {
        for (side, width) in [&pads[place], &pads[place + axes.len()]].into_iter().enumerate() {
            match width.as_int() {
                Some(negative) if negative < 0 => {
                    cuts.push((axis, side, negative.saturating_neg()))
                }
                _ => widths[2 * axis + side] = width.clone(),
            }
        }
    }
    let x = cut(node, x, &cuts)?;
    if widths.iter().all(|width| *width == Dim::Int(0)) {
        return Ok(vec![x]);
    }
    let mode = node.string("mode", "constant")?;
    if widths.iter().any(|width| width.as_int().is_none()) {
        let dtype = node.dtype(x);
        let value = match (node.optional_float("value"), node.optional(2)) {
            (None, Some(value)) => super::shape::reshape(node, value, Vec::new())?,
            (value, _) => node.scalar(dtype, value.unwrap_or(0.0)),
        };
        return Ok(vec![pad_open(node, x, &widths, &mode, value)?]);
    }
    let mode = match mode.as_str() {
        "constant" => return constant_pad(node, x, widths),
        "reflect" => "reflect",
        "edge" => "replicate",
        "wrap" => "circular",
        other => return unsupported(format!("mode {other:?}")),
    };
    Ok(vec![node.call("pad", &[x.into(), Arg::Dims(widths), key("pad_mode", mode)])?])
}

/// Widths of which some are symbolic: parts beside x, or elements of x by index, an axis after the other.
pub(crate) fn pad_open(
    node: &mut Builder,
    mut x: V,
    widths: &[Dim],
    mode: &str,
    value: V,
) -> Done<V> {
    for axis in 0..node.rank(x) {
        let (before, after) = (&widths[2 * axis], &widths[2 * axis + 1]);
        if *before == Dim::Int(0) && *after == Dim::Int(0) {
            continue;
        }
        x = match mode {
            "constant" => beside(node, x, axis, [before, after], value)?,
            mode => by_index(node, x, axis, [before, after], mode)?,
        };
    }
    Ok(x)
}

fn beside(node: &mut Builder, x: V, axis: usize, widths: [&Dim; 2], value: V) -> Done<V> {
    let mut parts = Vec::new();
    for width in widths {
        let mut dims = node.dims(x);
        dims[axis] = width.clone();
        parts.push(node.call("broadcast_to", &[value.into(), Arg::Shape(dims)])?);
    }
    node.call("concat", &[vec![parts[0], x, parts[1]].into(), key("axis", axis)])
}

/// Positions from `-before` to the extent and `after` more, as indices into x.
fn by_index(node: &mut Builder, x: V, axis: usize, widths: [&Dim; 2], mode: &str) -> Done<V> {
    let extent = node.dims(x)[axis].clone();
    let count = node.dim(DimOp::Add, &extent, widths[0]);
    let count = node.dim(DimOp::Add, &count, widths[1]);
    let dim = |node: &mut Builder, dim: Dim| node.integers(vec![dim], 0, DType::I64);
    let places = node.call("arange", &[count.into(), key("dtype", DType::I64)])?;
    let before = dim(node, widths[0].clone());
    let places = node.call("subtract", &[places.into(), before.into()])?;
    let last = node.dim(DimOp::Sub, &extent, &Dim::Int(1));
    let indices = match mode {
        "edge" => {
            let zero = Arg::Scalar(DType::I64, Number::Int(0));
            let places = node.call("maximum", &[places.into(), zero])?;
            let last = dim(node, last);
            node.call("minimum", &[places.into(), last.into()])?
        }
        "wrap" => {
            let extent = dim(node, extent);
            node.call("floor_mod", &[places.into(), extent.into()])?
        }
        "reflect" => {
            // There and back again; a single element is its own reflection.
            let period = node.dim(DimOp::Mul, &last, &Dim::Int(2));
            let period = node.dim(DimOp::Max, &period, &Dim::Int(1));
            let period = dim(node, period);
            let there = node.call("floor_mod", &[places.into(), period.into()])?;
            let back = node.call("subtract", &[period.into(), there.into()])?;
            node.call("minimum", &[there.into(), back.into()])?
        }
        other => return unsupported(format!("mode {other:?}")),
    };
    node.call("take", &[x.into(), indices.into(), key("axis", axis)])
}

/// Without what negative widths take away.
fn cut(node: &mut Node, mut x: V, cuts: &[(usize, usize, i64)]) -> Done<V> {
    for &(axis, side, width) in cuts {
        let (begin, end) = if side == 0 { (width, i64::MAX) } else { (0, -width) };
        let args =
            [x.into(), Arg::from(vec![axis as i64]), Arg::from(vec![begin]), Arg::from(vec![end])];
        x = node.call("strided_slice", &args)?;
    }
    Ok(x)
}

fn constant_pad(node: &mut Node, x: V, widths: Vec<Dim>) -> Done<Vec<V>> {
    let value = match (node.optional_float("value"), node.optional(2)) {
        (Some(value), _) => value,
        (None, None) => 0.0,
        (None, Some(value)) => match node.tensor(value) {
            Some(tensor) if tensor.len() == 1 => tensor.number(0).as_f64(),
            Some(_) => return invalid("`constant_value` must have one element"),
            None => return computed_pad(node, x, value, &widths),
        },
    };
    let mut args = vec![x.into(), Arg::Dims(widths)];
    if value != 0.0 {
        args.push(key("pad_value", value));
    }
    Ok(vec![node.call("pad", &args)?])
}

/// A value that only the run knows: x within zeros, and the value where a padded mask is 0.
fn computed_pad(node: &mut Node, x: V, value: V, widths: &[Dim]) -> Done<Vec<V>> {
    let padded = node.call("pad", &[x.into(), Arg::Dims(widths.to_vec())])?;
    let mask = node.call("ones_like", &[x.into(), DType::I8.into()])?;
    let mask = node.call("pad", &[mask.into(), Arg::Dims(widths.to_vec())])?;
    let one = Arg::Scalar(DType::I8, Number::Int(1));
    let inside = node.call("equal", &[mask.into(), one])?;
    let value = super::shape::reshape(node, value, Vec::new())?;
    Ok(vec![node.call("where", &[inside.into(), padded.into(), value.into()])?])
}

fn center_crop_pad(node: &mut Node) -> Done<Vec<V>> {
    let (mut x, shape) = (node.input(0)?, node.input(1)?);
    let wanted = node.known_ints(shape, "shape")?;
    if wanted.iter().any(|&extent| extent < 0) {
        return invalid("an extent is negative");
    }
    let rank = node.rank(x);
    let axes = node.ints("axes").unwrap_or_else(|| (0..rank as i64).collect());
    let axes = node.axes(&axes, rank)?;
    let mut widths = vec![0; 2 * rank];
    for (&axis, &extent) in axes.iter().zip(&wanted) {
        let own = node.dims(x)[axis].as_int();
        let own =
            own.ok_or_else(|| Reason::Unsupported("a symbolic dim to crop or pad".to_owned()))?;
        if extent >= own {
            let before = (extent - own) / 2;
            (widths[2 * axis], widths[2 * axis + 1]) = (before, extent - own - before);
        } else {
            let begin = node.dim(DimOp::FloorDiv, &Dim::Int(own - extent), &Dim::Int(2));
            let end = node.dim(DimOp::Add, &begin, &Dim::Int(extent));
            let axes = Arg::from(vec![axis as i64]);
            x = node.call(
                "strided_slice",
                &[x.into(), axes, Arg::Dims(vec![begin]), Arg::Dims(vec![end])],
            )?;
        }
    }
    if widths.iter().any(|&width| width != 0) {
        x = node.call("pad", &[x.into(), Arg::from(widths)])?;
    }
    Ok(vec![x])
}
