//! `strided_slice` and `dynamic_strided_slice`.

use super::extent::{Slice, extent, extent_inbound, sliced_positions};
use crate::ops::{Effect, Eval, Evaluate, Family, Infer, Kind, Literal, Operator, Reject, Traps};
use crate::ops::{Programs, programs};
use crate::ops::{constraint, normalize_axis, optional, required};
use crate::stop::Stop;
use crate::tensor::Tensor;
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};

pub(super) const STRIDED_SLICE: Operator = Operator {
    name: "strided_slice",
    aliases: &[],
    family: Family::Indexing,
    doc: "Along each of `axes`, the elements from `begin` up to but not including `end`, every \
          `strides`-th; a negative stride goes backwards. An index that is negative counts from \
          the end (its value decides, of a symbolic one too: `n - 1` for n = 0 is -1, which is \
          before the first element, so `x[:n - 1]` and `x[1:]` have max(n - 1, 0) elements for \
          every n); then it is clamped to the axis, as in NumPy. With `assume_inbound` nothing is \
          clamped: begin and end must lie in the axis and not cross, so that the extent is just \
          their difference. Where the sign of a symbolic stride is not known, neither are the dims \
          of the result.",
    params: &[
        required("x", Kind::Tensor),
        required("axes", Kind::Dims),
        required("begin", Kind::Dims),
        required("end", Kind::Dims),
        optional("strides", Kind::OptionalDims, Literal::None),
        optional("assume_inbound", Kind::Bool, Literal::Bool(false)),
    ],
    constraints: &[
        constraint("C1", "axes are in range for x, and none occurs twice"),
        constraint("C2", "begin, end and strides have one entry an axis"),
        constraint("C3", "no stride is 0"),
        constraint("C4", "with assume_inbound, begin and end lie in the axis and do not cross"),
    ],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer,
    program: Programs::Of(programs::slices::slice),
    eval: Evaluate::Values(eval),
};

pub(super) const DYNAMIC_STRIDED_SLICE: Operator = Operator {
    name: "dynamic_strided_slice",
    aliases: &[],
    family: Family::Indexing,
    doc: "As `strided_slice` over every axis, with begin, end and strides as i64 tensors of one \
          entry an axis. The dims of the result depend on their elements: only the rank is known \
          before.",
    params: &[
        required("x", Kind::Tensor),
        required("begin", Kind::Tensor),
        required("end", Kind::Tensor),
        required("strides", Kind::Tensor),
    ],
    constraints: &[
        constraint("C1", "begin, end and strides have dtype i64"),
        constraint("C2", "begin, end and strides have rank 1 and one entry an axis of x"),
        constraint("C3", "no stride is 0"),
    ],
    effect: Effect::Pure,
    traps: Traps::OnElements,
    infer: infer_dynamic,
    program: Programs::Counted(programs::slices::dynamic, programs::slices::dynamic_extents),
    eval: Evaluate::Values(eval_dynamic),
};

fn infer(infer: &mut Infer) -> Result<Annotation, Reject> {
    let x = infer.tensor("x")?;
    let axes = infer.ints("axes")?;
    let slices = slices(infer, axes.len())?;
    let inbound = infer.bool("assume_inbound")?;
    let Some(rank) = x.extents.rank() else { return Ok(Annotation::Tensor(x)) };
    infer.axes("C1", &axes, rank)?;
    let Some(dims) = x.extents.dims() else { return Ok(Annotation::Tensor(x)) };
    let mut dims: Vec<Option<Dim>> = dims.iter().cloned().map(Some).collect();
    for (&axis, slice) in axes.iter().zip(&slices) {
        let axis = infer.axis("C1", axis, rank)?;
        let Some(n) = dims[axis].clone() else { continue };
        dims[axis] = if inbound {
            extent_inbound(infer, "C4", &n, slice)?
        } else {
            extent(infer, &n, slice)
        };
    }
    let known: Option<Vec<Dim>> = dims.into_iter().collect();
    let extents = known.map_or(Extents::Rank(rank), Extents::Known);
    Ok(Annotation::Tensor(TensorType { extents, dtype: x.dtype }))
}

/// The slices, one an axis, whose strides are not 0.
fn slices(infer: &mut Infer, count: usize) -> Result<Vec<Slice<Dim>>, Reject> {
    let (begin, end) = (infer.dims("begin")?, infer.dims("end")?);
    let strides =
        if infer.is_none("strides") { vec![Dim::Int(1); count] } else { infer.dims("strides")? };
    for (what, entries) in [("begin", &begin), ("end", &end), ("strides", &strides)] {
        if entries.len() != count {
            let message =
                format!("`{what}` must have one entry an axis, {count}, found {}", entries.len());
            return Err(infer.reject("C2", message));
        }
    }
    for stride in &strides {
        infer.require("C3", Claim::new(stride.clone(), Relation::NotEqual, 0), || {
            "a stride may not be 0".to_owned()
        })?;
    }
    let entries = begin.into_iter().zip(end).zip(strides);
    Ok(entries.map(|((begin, end), stride)| Slice { begin, end, stride }).collect())
}

fn eval(eval: &Eval) -> Result<Value, Stop> {
    let x = eval.tensor_as_it_is("x");
    let axes = eval.ints("axes");
    let strides = if eval.is_none("strides") { vec![1; axes.len()] } else { eval.ints("strides") };
    let mut slices = whole(x.shape());
    for (((axis, begin), end), stride) in
        axes.into_iter().zip(eval.ints("begin")).zip(eval.ints("end")).zip(strides)
    {
        let axis = normalize_axis(axis, x.rank()).expect("invariant: infer has checked the axes");
        slices[axis] = Slice { begin: begin.into(), end: end.into(), stride: stride.into() };
    }
    Ok(Value::Tensor(sliced(x, &slices)))
}

/// The slices that take everything.
pub(super) fn whole(shape: &[usize]) -> Vec<Slice<i128>> {
    shape.iter().map(|&n| Slice { begin: 0, end: n as i128, stride: 1 }).collect()
}

fn sliced(x: &Tensor, slices: &[Slice<i128>]) -> Tensor {
    let (shape, positions) = sliced_positions(x.shape(), slices);
    x.select(&shape, &positions)
}

const ENTRIES: [&str; 3] = ["begin", "end", "strides"];

fn infer_dynamic(infer: &mut Infer) -> Result<Annotation, Reject> {
    let x = infer.tensor("x")?;
    for param in ENTRIES {
        infer.require_dtype("C1", param, |dtype| dtype == DType::I64)?;
        let extents = infer.tensor(param)?.extents;
        if let Some(rank) = extents.rank().filter(|&rank| rank != 1) {
            let message = format!("`{param}` must have rank 1, found rank {rank}");
            return Err(infer.reject("C2", message));
        }
        let (Some(dims), Some(rank)) = (extents.dims(), x.extents.rank()) else { continue };
        let rank = Dim::Int(i64::try_from(rank).unwrap_or(i64::MAX));
        infer.require_equal("C2", &dims[0], &rank, || {
            format!("`{param}` must have one entry an axis of `x`, {rank}, found {}", dims[0])
        })?;
    }
    let extents = match x.extents.rank() {
        Some(0) => Extents::Known(Vec::new()),
        Some(rank) => Extents::Rank(rank),
        None => Extents::Unknown,
    };
    Ok(Annotation::Tensor(TensorType { extents, dtype: x.dtype }))
}

fn eval_dynamic(eval: &Eval) -> Result<Value, Stop> {
    let x = eval.tensor_as_it_is("x");
    let [begin, end, strides] = ENTRIES.map(|param| eval.tensor(param).map(Tensor::to_ints));
    let (begin, end, strides) = (begin?, end?, strides?);
    if let Some(axis) = strides.iter().position(|&stride| stride == 0) {
        return Err(eval.trap("C3", format!("the stride of axis {axis} is 0")));
    }
    let entries = begin.iter().zip(&end).zip(&strides);
    let slices: Vec<_> =
        entries.map(|((&begin, &end), &stride)| Slice { begin, end, stride }).collect();
    Ok(Value::Tensor(sliced(x, &slices)))
}
