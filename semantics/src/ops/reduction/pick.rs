//! Reductions that pick an element: `argmax`, `argmin`, `median`.

use super::deduce::{axes, axes_of, kept, require_some};
use super::fold::slice;
use super::lanes::Lanes;
use super::{AXES, PARAMS, SOME};
use crate::ops::order::ranking::{Order, is_nan, ranked};
use crate::ops::{Effect, Eval, Evaluate, Family, Infer, Kind, Literal, Operator, Param, Traps};
use crate::ops::{Programs, programs};
use crate::ops::{Reject, constraint, optional, required};
use crate::stop::Stop;
use crate::tensor::{Elements, Tensor, array};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, TensorType};
use relax_syntax::dtype::DType;
use std::cmp::Ordering;

const ARG_PARAMS: &[Param] = &[
    required("x", Kind::Tensor),
    optional("axis", Kind::OptionalDim, Literal::None),
    optional("keepdims", Kind::Bool, Literal::Bool(false)),
];

const fn arg_row(
    name: &'static str,
    doc: &'static str,
    eval: Evaluate,
    program: Programs,
) -> Operator {
    Operator {
        name,
        aliases: &[],
        family: Family::Reduction,
        doc,
        params: ARG_PARAMS,
        constraints: &[AXES, SOME],
        effect: Effect::Pure,
        traps: Traps::Never,
        infer: infer_arg,
        program,
        eval,
    }
}

pub(super) const ARGMAX: Operator = arg_row(
    "argmax",
    "Where along `axis` (without one: in the flattened tensor) the greatest element is, as i64; of \
     equal ones the first. The first NaN counts as greatest, as in NumPy (TVM leaves it open).",
    Evaluate::Values(|eval| arg(eval, Ordering::Greater)),
    Programs::Of(programs::scan::arg),
);

pub(super) const ARGMIN: Operator = arg_row(
    "argmin",
    "Where along `axis` (without one: in the flattened tensor) the least element is, as i64; of \
     equal ones the first. The first NaN counts as least, as in NumPy (TVM leaves it open).",
    Evaluate::Values(|eval| arg(eval, Ordering::Less)),
    Programs::Of(programs::scan::arg),
);

pub(super) const MEDIAN: Operator = Operator {
    name: "median",
    aliases: &[],
    family: Family::Reduction,
    doc: "The lower median over the whole tensor or along one axis: of an even number of elements \
          the lesser of the two in the middle (NumPy: their mean). With an axis the result is a \
          tuple of the medians and where along the axis they are, as i64; without, the medians \
          alone. A NaN makes the result NaN, and its place the first NaN's.",
    params: PARAMS,
    constraints: &[
        constraint("C1", "axis is None or one axis in range for x"),
        SOME,
        constraint("C3", "the dtype of x is not bool"),
    ],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer: infer_median,
    program: Programs::Of(programs::ranking::median),
    eval: Evaluate::Values(median),
};

fn infer_arg(infer: &mut Infer) -> Result<Annotation, Reject> {
    let x = infer.tensor("x")?;
    let axis = if infer.is_none("axis") { None } else { Some([infer.int("axis")?]) };
    let axes = axis.as_ref().map(<[i64; 1]>::as_slice);
    let keepdims = infer.bool("keepdims")?;
    let extents = kept(infer, &x.extents, axes, keepdims)?;
    require_some(infer, "C2", &x.extents, axes)?;
    Ok(Annotation::Tensor(TensorType { extents, dtype: Some(DType::I64) }))
}

fn infer_median(infer: &mut Infer) -> Result<Annotation, Reject> {
    let x = infer.tensor("x")?;
    infer.require_dtype("C3", "x", |dtype| dtype != DType::Bool)?;
    let axes = axes(infer)?;
    if axes.as_ref().is_some_and(|axes| axes.len() != 1) {
        return Err(infer.reject("C1", "`median` takes one axis, or None for all elements"));
    }
    let keepdims = infer.bool("keepdims")?;
    let extents = kept(infer, &x.extents, axes.as_deref(), keepdims)?;
    require_some(infer, "C2", &x.extents, axes.as_deref())?;
    let values = Annotation::Tensor(TensorType { extents: extents.clone(), dtype: x.dtype });
    let places = Annotation::Tensor(TensorType { extents, dtype: Some(DType::I64) });
    Ok(if axes.is_some() { Annotation::Tuple(vec![values, places]) } else { values })
}

fn arg(eval: &Eval, wanted: Ordering) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    let x = eval.tensor("x")?;
    let lanes = Lanes::along(x.shape(), &axes_of(eval, x.rank()));
    let places = match x.elements() {
        Elements::Float(values) => lanes.map(slice(&values), |lane| first(lane, wanted)),
        Elements::Int(values) => lanes.map(slice(&values), |lane| first(lane, wanted)),
    };
    Ok(Value::Tensor(Tensor::from_ints(dtype, array(&shape, places))))
}

/// The first element that compares as `wanted` to all others, or the first NaN.
fn first<T: Copy + PartialOrd>(lane: &[T], wanted: Ordering) -> i128 {
    let mut best = 0;
    for (place, value) in lane.iter().enumerate() {
        if is_nan(&lane[best]) {
            break;
        }
        if is_nan(value) || value.partial_cmp(&lane[best]) == Some(wanted) {
            best = place;
        }
    }
    best as i128
}

fn median(eval: &Eval) -> Result<Value, Stop> {
    let x = eval.tensor("x")?;
    let (_, shape) = if eval.is_none("axis") { eval.out_tensor()? } else { eval.out_field(0)? };
    let lanes = Lanes::along(x.shape(), &axes_of(eval, x.rank()));
    let places = match x.elements() {
        Elements::Float(values) => lanes.map(slice(&values), middle),
        Elements::Int(values) => lanes.map(slice(&values), middle),
    };
    let picked: Vec<usize> = lanes.iter().zip(&places).map(|(lane, &place)| lane[place]).collect();
    let values = Value::Tensor(x.select(&shape, &picked));
    if eval.is_none("axis") {
        return Ok(values);
    }
    let places = places.into_iter().map(|place| place as i128).collect();
    let places = Tensor::from_ints(DType::I64, array(&shape, places));
    Ok(Value::Tuple(vec![values, Value::Tensor(places)]))
}

fn middle<T: Copy + PartialOrd>(lane: &[T]) -> usize {
    let nan = lane.iter().position(is_nan);
    nan.unwrap_or_else(|| ranked(lane, Order::Ascending)[(lane.len() - 1) / 2])
}
