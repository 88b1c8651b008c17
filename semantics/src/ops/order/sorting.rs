//! `sort`, `argsort`, `topk`: all rank the elements of each lane, stably.

use super::ranking::{Order, ranked};
use crate::ops::reduction::lanes::Lanes;
use crate::ops::{Effect, Eval, Evaluate, Family, Infer, Kind, Literal, Operator, Reject, Traps};
use crate::ops::{Programs, programs};
use crate::ops::{constraint, normalize_axis, optional, required};
use crate::stop::Stop;
use crate::tensor::{Elements, Tensor, array};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};

pub(super) const SORT: Operator = Operator {
    name: "sort",
    aliases: &[],
    family: Family::Order,
    doc: "The elements in order along `axis`. Stable; NaNs come last, ascending (as in NumPy) and \
          descending alike. TVM leaves NaNs open and sorts fewer dtypes.",
    params: &[
        required("x", Kind::Tensor),
        optional("axis", Kind::Dim, Literal::Int(-1)),
        optional("descending", Kind::Bool, Literal::Bool(false)),
    ],
    constraints: &[constraint("C1", "axis is in range for x")],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer: infer_sort,
    program: Programs::Of(programs::ranking::sorted),
    eval: Evaluate::Values(sort),
};

pub(super) const ARGSORT: Operator = Operator {
    name: "argsort",
    aliases: &[],
    family: Family::Order,
    doc: "The places along `axis` of the elements in order: taking them gives what `sort` gives. \
          Stable; NaNs come last, ascending (as in NumPy) and descending alike.",
    params: &[
        required("data", Kind::Tensor),
        optional("axis", Kind::Dim, Literal::Int(-1)),
        optional("descending", Kind::Bool, Literal::Bool(false)),
        optional("dtype", Kind::DType, Literal::Str("int32")),
    ],
    constraints: &[
        constraint("C1", "axis is in range for data"),
        constraint("C2", "dtype is i32, i64, f32 or f64"),
    ],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer: infer_argsort,
    program: Programs::Of(programs::ranking::sorted),
    eval: Evaluate::Values(argsort),
};

pub(super) const TOPK: Operator = Operator {
    name: "topk",
    aliases: &[],
    family: Family::Order,
    doc: "The first `k` elements along `axis` in descending order (ascending if not `largest`), \
          all of them when k < 1, with their places: a tuple, or one of the two by `ret_type`. Of \
          equal elements the first comes first; NaNs come last either way. More than there are is \
          an error (TVM then gives undefined elements). Where the sign of a symbolic k is not \
          known, the dims of the result are unknown.",
    params: &[
        required("data", Kind::Tensor),
        optional("k", Kind::Dim, Literal::Int(1)),
        optional("axis", Kind::Dim, Literal::Int(-1)),
        optional("ret_type", Kind::Str, Literal::Str("both")),
        optional("largest", Kind::Bool, Literal::Bool(true)),
        optional("dtype", Kind::DType, Literal::Str("int32")),
    ],
    constraints: &[
        constraint("C1", "axis is in range for data"),
        constraint("C2", "dtype is i32, i64, f32 or f64"),
        constraint("C3", "ret_type is \"both\", \"values\" or \"indices\""),
        constraint("C4", "k is at most the extent of the axis"),
    ],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer: infer_topk,
    program: Programs::Of(programs::ranking::sorted),
    eval: Evaluate::Values(topk),
};

/// The axis as a position, where the rank is known.
fn axis_of(infer: &Infer, extents: &Extents) -> Result<Option<usize>, Reject> {
    let axis = infer.int("axis")?;
    extents.rank().map(|rank| infer.axis("C1", axis, rank)).transpose()
}

fn infer_sort(infer: &mut Infer) -> Result<Annotation, Reject> {
    let x = infer.tensor("x")?;
    axis_of(infer, &x.extents)?;
    infer.bool("descending")?;
    Ok(Annotation::Tensor(x))
}

fn infer_argsort(infer: &mut Infer) -> Result<Annotation, Reject> {
    let data = infer.tensor("data")?;
    axis_of(infer, &data.extents)?;
    infer.bool("descending")?;
    let dtype = place_dtype(infer)?;
    Ok(Annotation::Tensor(TensorType { dtype: Some(dtype), ..data }))
}

/// The dtype of places: one that TVM's kernels give.
fn place_dtype(infer: &Infer) -> Result<DType, Reject> {
    let dtype = infer.dtype("dtype")?;
    if matches!(dtype, DType::I32 | DType::I64 | DType::F32 | DType::F64) {
        return Ok(dtype);
    }
    Err(infer.reject("C2", format!("`dtype` must be one of i32 i64 f32 f64, found {dtype}")))
}

fn infer_topk(infer: &mut Infer) -> Result<Annotation, Reject> {
    let data = infer.tensor("data")?;
    let axis = axis_of(infer, &data.extents)?;
    let k = infer.dim("k")?;
    infer.bool("largest")?;
    let places = place_dtype(infer)?;
    let extents = match (data.extents.dims(), axis) {
        (Some(dims), Some(axis)) => top_extents(infer, dims, axis, &k)?,
        _ => data.extents,
    };
    let values = Annotation::Tensor(TensorType { extents: extents.clone(), dtype: data.dtype });
    let places = Annotation::Tensor(TensorType { extents, dtype: Some(places) });
    match &*infer.str("ret_type")? {
        "both" => Ok(Annotation::Tuple(vec![values, places])),
        "values" => Ok(values),
        "indices" => Ok(places),
        other => {
            let message =
                format!("`ret_type` must be \"both\", \"values\" or \"indices\", found {other:?}");
            Err(infer.reject("C3", message))
        }
    }
}

fn top_extents(infer: &mut Infer, dims: &[Dim], axis: usize, k: &Dim) -> Result<Extents, Reject> {
    if infer.proves(&Claim::new(k.clone(), Relation::AtMost, 0)) {
        return Ok(Extents::Known(dims.to_vec()));
    }
    let extent = &dims[axis];
    infer.require("C4", Claim::new(k.clone(), Relation::AtMost, extent.clone()), || {
        format!("`k` must be at most the extent {extent} of the axis, found {k}")
    })?;
    if !infer.proves(&Claim::new(1, Relation::AtMost, k.clone())) {
        return Ok(Extents::Rank(dims.len()));
    }
    let mut dims = dims.to_vec();
    dims[axis] = k.clone();
    Ok(Extents::Known(dims))
}

/// For each lane along `axis`, the places of its elements in order.
fn ranks(data: &Tensor, lanes: &Lanes, order: Order) -> Vec<Vec<usize>> {
    let in_order = "invariant: tensors are in row-major order";
    match data.elements() {
        Elements::Float(v) => lanes.map(v.as_slice().expect(in_order), |lane| ranked(lane, order)),
        Elements::Int(v) => lanes.map(v.as_slice().expect(in_order), |lane| ranked(lane, order)),
    }
}

fn eval_axis(eval: &Eval, rank: usize) -> usize {
    normalize_axis(eval.int("axis"), rank).expect("invariant: infer has checked the axis")
}

/// The first elements of each lane in order: their positions in the source and their places in the
/// lane, both in the row-major order of `shape`, whose extent along `axis` says how many.
fn first_in_order(
    data: &Tensor,
    shape: &[usize],
    axis: usize,
    order: Order,
) -> (Vec<usize>, Vec<i128>) {
    let (from, to) = (Lanes::along(data.shape(), &[axis]), Lanes::along(shape, &[axis]));
    let total = if shape.contains(&0) { 0 } else { shape.iter().product() };
    let (mut positions, mut places) = (vec![0; total], vec![0; total]);
    for ((source, target), rank) in from.iter().zip(to.iter()).zip(ranks(data, &from, order)) {
        for (&at, &place) in target.iter().zip(&rank) {
            positions[at] = source[place];
            places[at] = place as i128;
        }
    }
    (positions, places)
}

fn sort(eval: &Eval) -> Result<Value, Stop> {
    let x = eval.tensor("x")?;
    let order = Order::of_attribute(eval.bool("descending"));
    let (positions, _) = first_in_order(x, x.shape(), eval_axis(eval, x.rank()), order);
    Ok(Value::Tensor(x.select(x.shape(), &positions)))
}

fn argsort(eval: &Eval) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    let data = eval.tensor("data")?;
    let order = Order::of_attribute(eval.bool("descending"));
    let (_, places) = first_in_order(data, &shape, eval_axis(eval, data.rank()), order);
    Ok(Value::Tensor(Tensor::from_ints(dtype, array(&shape, places))))
}

fn topk(eval: &Eval) -> Result<Value, Stop> {
    let ret_type = eval.str("ret_type");
    let both = &*ret_type == "both";
    let (_, shape) = if both { eval.out_field(1)? } else { eval.out_tensor()? };
    let data = eval.tensor("data")?;
    let order = Order::of_attribute(eval.bool("largest"));
    let (positions, places) = first_in_order(data, &shape, eval_axis(eval, data.rank()), order);
    let values = || Value::Tensor(data.select(&shape, &positions));
    let dtype = DType::parse(&eval.str("dtype")).expect("invariant: infer has checked the dtype");
    let places = || Value::Tensor(Tensor::from_ints(dtype, array(&shape, places)));
    Ok(match &*ret_type {
        "both" => Value::Tuple(vec![values(), places()]),
        "values" => values(),
        _ => places(),
    })
}
