//! Movement of elements in the `nn` family: pad, pixel shuffle, batch flatten.

use super::{DATA, result_dim};
use crate::ops::{Effect, Eval, Evaluate, Family, Infer, Literal, Operator, Reject, Traps};
use crate::ops::{Kind, constraint, optional, required};
use crate::ops::{Programs, programs};
use crate::round;
use crate::stop::Stop;
use crate::tensor::{Elements, Tensor, array, strided_positions, strides};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};

pub(super) const PAD: Operator = Operator {
    name: "nn.pad",
    aliases: &[],
    family: Family::Nn,
    doc: "Data with elements added around it. `pad_width` has two entries an axis, before and \
          after. `pad_mode`: `constant` adds `pad_value` (converted as `astype` does), `reflect` \
          mirrors at the edge element without repeating it, `replicate` repeats the edge element, \
          `circular` goes on at the other end.",
    params: &[
        DATA,
        required("pad_width", Kind::Dims),
        optional("pad_mode", Kind::Str, Literal::Str("constant")),
        optional("pad_value", Kind::Float, Literal::Float(0.0)),
    ],
    constraints: &[
        constraint("C1", "pad_width has two entries for each axis of data"),
        constraint("C2", "no entry of pad_width is negative, and the padded dims fit in i64"),
        constraint("C3", "pad_mode is constant, reflect, replicate or circular"),
        constraint(
            "C4",
            "a padded dim is greater than its widths with reflect, at least them with circular, \
             and at least 1 with replicate",
        ),
    ],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer: infer_pad,
    program: Programs::Of(programs::slices::pad),
    eval: Evaluate::Values(pad),
};

pub(super) const PIXEL_SHUFFLE: Operator = Operator {
    name: "nn.pixel_shuffle",
    aliases: &[],
    family: Family::Nn,
    doc: "(…, C * r * r, H, W) to (…, C, H * r, W * r) with r = `upscale_factor`: r * r channels \
          become the pixels of an r by r square, in row-major order.",
    params: &[DATA, required("upscale_factor", Kind::Dim)],
    constraints: &[
        constraint("C1", "data has rank at least 3"),
        constraint("C2", "upscale_factor is at least 1, and the dims of the result fit in i64"),
        constraint("C3", "the square of upscale_factor divides the number of channels"),
    ],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer: infer_pixel_shuffle,
    program: Programs::Of(programs::movement::mapped),
    eval: Evaluate::Values(pixel_shuffle),
};

pub(super) const BATCH_FLATTEN: Operator = Operator {
    name: "nn.batch_flatten",
    aliases: &[],
    family: Family::Nn,
    doc: "Data as a matrix: the first dim stays, all others become one.",
    params: &[DATA],
    constraints: &[
        constraint("C1", "data has rank at least 2"),
        constraint("C2", "the product of the other dims fits in i64"),
    ],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer: infer_batch_flatten,
    program: Programs::Of(programs::movement::view),
    eval: Evaluate::Values(|eval| {
        let (_, shape) = eval.out_tensor()?;
        Ok(Value::Tensor(eval.tensor_as_it_is("data").reshaped(&shape)))
    }),
};

/// How an index outside of the data finds its element.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Constant,
    Reflect,
    Replicate,
    Circular,
}

impl Mode {
    fn parse(text: &str) -> Option<Mode> {
        Some(match text {
            "constant" => Mode::Constant,
            "reflect" => Mode::Reflect,
            "replicate" => Mode::Replicate,
            "circular" => Mode::Circular,
            _ => return None,
        })
    }

    /// The least dim that may be padded with `width`, which is at least 1.
    fn least_dim(self, width: i64) -> i64 {
        match self {
            Mode::Constant => 0,
            Mode::Reflect => width.saturating_add(1),
            Mode::Replicate => 1,
            Mode::Circular => width,
        }
    }

    /// The element of `0..extent` that stands at `index`, which may lie outside; `None` for the
    /// pad value.
    fn source(self, index: i64, extent: i64) -> Option<i64> {
        if (0..extent).contains(&index) {
            return Some(index);
        }
        match self {
            Mode::Constant => None,
            Mode::Reflect => Some((extent - 1) - ((extent - 1) - index.abs()).abs()),
            Mode::Replicate => Some(index.clamp(0, extent - 1)),
            Mode::Circular => Some(index.rem_euclid(extent)),
        }
    }
}

fn infer_pad(infer: &mut Infer) -> Result<Annotation, Reject> {
    let data = infer.tensor("data")?;
    infer.float("pad_value")?;
    let widths = infer.ints("pad_width")?;
    if let Some(&width) = widths.iter().find(|&&width| width < 0) {
        let message = format!("a width of {width} would cut elements off; use `strided_slice`");
        return Err(infer.reject("C2", message));
    }
    let text = infer.str("pad_mode")?;
    let Some(mode) = Mode::parse(&text) else {
        let message = format!("`pad_mode` is constant, reflect, replicate or circular, not {text}");
        return Err(infer.reject("C3", message));
    };
    let rank = data.extents.rank().unwrap_or(widths.len() / 2);
    if rank.checked_mul(2) != Some(widths.len()) {
        let message = format!(
            "`pad_width` must have two entries for each of the {rank} axes, found {}",
            widths.len()
        );
        return Err(infer.reject("C1", message));
    }
    let extents = match data.extents.dims() {
        Some(dims) => Extents::Known(padded_dims(infer, dims, &widths, mode)?),
        None => Extents::Rank(rank),
    };
    Ok(Annotation::Tensor(TensorType { extents, dtype: data.dtype }))
}

fn padded_dims(
    infer: &mut Infer,
    dims: &[Dim],
    widths: &[i64],
    mode: Mode,
) -> Result<Vec<Dim>, Reject> {
    let mut padded = Vec::with_capacity(dims.len());
    for (axis, (dim, sides)) in dims.iter().zip(widths.chunks_exact(2)).enumerate() {
        let width = sides[0].max(sides[1]);
        if width > 0 && mode != Mode::Constant {
            let least = mode.least_dim(width);
            let claim = Claim::new(least, Relation::AtMost, dim.clone());
            infer.require("C4", claim, || {
                format!("dim {axis} must be at least {least} to be padded so, found {dim}")
            })?;
        }
        let more = |dim: Dim, width: i64| Dim::op(DimOp::Add, dim, Dim::Int(width));
        padded.push(result_dim(infer, "C2", &more(more(dim.clone(), sides[0]), sides[1]))?);
    }
    Ok(padded)
}

fn pad(eval: &Eval) -> Result<Value, Stop> {
    let (_, shape) = eval.out_tensor()?;
    let data = eval.tensor_as_it_is("data");
    if shape.contains(&0) {
        // Other dims may be huge then.
        return Ok(Value::Tensor(data.select(&shape, &[])));
    }
    let mode = Mode::parse(&eval.str("pad_mode")).expect("invariant: infer checked C3");
    let widths = eval.ints("pad_width");
    let steps = strides(data.shape());
    // Per axis, for each index of the result, the offset of its element.
    let offsets = |axis: usize| -> Vec<Option<usize>> {
        let extent = data.shape()[axis] as i64;
        let index = |at: usize| mode.source(at as i64 - widths[2 * axis], extent);
        let offset = |source: i64| usize::try_from(source).ok().map(|s| s * steps[axis]);
        (0..shape[axis]).map(|at| index(at).and_then(offset)).collect()
    };
    let mut sources = vec![Some(0)];
    for axis in 0..shape.len() {
        let offsets = offsets(axis);
        let add = |base: Option<usize>| {
            offsets.iter().map(move |&offset| base.zip(offset).map(|(base, offset)| base + offset))
        };
        sources = sources.iter().flat_map(|&base| add(base)).collect();
    }
    // The pad value stands behind the elements.
    let positions: Vec<usize> = sources.iter().map(|at| at.unwrap_or(data.len())).collect();
    let extended = with_element(data, eval.float("pad_value"));
    Ok(Value::Tensor(extended.select(&shape, &positions)))
}

/// The elements as a vector, and one more.
fn with_element(data: &Tensor, value: f64) -> Tensor {
    let extended = match data.elements() {
        Elements::Float(values) => {
            let values: Vec<f64> = values.into_iter().chain([value]).collect();
            Elements::Float(array(&[values.len()], values))
        }
        Elements::Int(values) => {
            let value = round::float_to_int(data.dtype(), value);
            let values: Vec<i128> = values.into_iter().chain([value]).collect();
            Elements::Int(array(&[values.len()], values))
        }
    };
    let undefined = data.undefined_elements().map(|mask| [mask, &[false]].concat());
    Tensor::from_elements(data.dtype(), extended).with_undefined(undefined.unwrap_or_default())
}

fn infer_pixel_shuffle(infer: &mut Infer) -> Result<Annotation, Reject> {
    let data = infer.tensor("data")?;
    let factor = infer.int("upscale_factor")?;
    let Some(square) = factor.checked_mul(factor).filter(|_| factor >= 1) else {
        let message = format!("`upscale_factor` must be at least 1, found {factor}");
        return Err(infer.reject("C2", message));
    };
    if let Some(rank) = data.extents.rank()
        && rank < 3
    {
        return Err(infer.reject("C1", format!("`data` must have rank 3 or more, found {rank}")));
    }
    let Some(dims) = data.extents.dims() else { return Ok(Annotation::Tensor(data)) };
    let (batch, image) = dims.split_at(dims.len() - 3);
    let claim = Claim::new(square, Relation::Divides, image[0].clone());
    infer.require("C3", claim, || {
        format!("{} channels can't be cut into squares of {square} pixels", image[0])
    })?;
    let mut result = batch.to_vec();
    let channels = Dim::op(DimOp::FloorDiv, image[0].clone(), Dim::Int(square));
    result.push(infer.facts.simplify(&channels));
    for dim in &image[1..] {
        let larger = Dim::op(DimOp::Mul, dim.clone(), Dim::Int(factor));
        result.push(result_dim(infer, "C2", &larger)?);
    }
    let extents = Extents::Known(result);
    Ok(Annotation::Tensor(TensorType { extents, dtype: data.dtype }))
}

fn pixel_shuffle(eval: &Eval) -> Result<Value, Stop> {
    let (_, shape) = eval.out_tensor()?;
    let data = eval.tensor_as_it_is("data");
    let factor = usize::try_from(eval.int("upscale_factor")).expect("invariant: infer checked C2");
    let &[.., height, width] = data.shape() else { panic!("invariant: infer checked C1") };
    // (batch, C, H, r, W, r) of the result, over (batch, C, r, r, H, W) of the data.
    let batch: usize = data.shape()[..data.rank() - 3].iter().product();
    let channels = shape[shape.len() - 3];
    let plane = height * width;
    let positions = strided_positions(
        &[batch, channels, height, factor, width, factor],
        &[
            channels * factor * factor * plane,
            factor * factor * plane,
            width,
            factor * plane,
            1,
            plane,
        ],
    );
    Ok(Value::Tensor(data.select(&shape, &positions)))
}

fn infer_batch_flatten(infer: &mut Infer) -> Result<Annotation, Reject> {
    let data = infer.tensor("data")?;
    if let Some(rank) = data.extents.rank()
        && rank < 2
    {
        return Err(infer.reject("C1", format!("`data` must have rank 2 or more, found {rank}")));
    }
    let extents = match data.extents.dims() {
        Some(dims) => {
            let rest = result_dim(infer, "C2", &Dim::product(&dims[1..]))?;
            Extents::Known(vec![dims[0].clone(), rest])
        }
        None => Extents::Rank(2),
    };
    Ok(Annotation::Tensor(TensorType { extents, dtype: data.dtype }))
}
