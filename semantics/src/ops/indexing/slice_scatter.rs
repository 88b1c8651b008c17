//! `slice_scatter`.

use super::extent::{Slice, extent, sliced_positions};
use super::slice::whole;
use super::update::{Reduction, update};
use crate::ops::{Effect, Eval, Evaluate, Family, Infer, Kind, Literal, Operator, Reject, Traps};
use crate::ops::{Programs, programs};
use crate::ops::{constraint, normalize_axis, optional, required};
use crate::stop::Stop;
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::facts::{Claim, Relation};

pub(super) const SLICE_SCATTER: Operator = Operator {
    name: "slice_scatter",
    aliases: &[],
    family: Family::Indexing,
    doc: "`input_tensor` with the slice from `start` up to `end`, every `step`-th along `axis`, \
          replaced by `src`. Negative indices count from the end and are clamped, as in \
          `strided_slice` and PyTorch (TVM's kernel then writes nothing).",
    params: &[
        required("input_tensor", Kind::Tensor),
        required("src", Kind::Tensor),
        required("start", Kind::Dim),
        required("end", Kind::Dim),
        required("step", Kind::Dim),
        optional("axis", Kind::Dim, Literal::Int(0)),
    ],
    constraints: &[
        constraint("C1", "axis is in range for input_tensor"),
        constraint("C2", "input_tensor and src have the same dtype"),
        constraint("C3", "step is at least 1"),
        constraint("C4", "src has the shape of the slice"),
    ],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer,
    program: Programs::Of(programs::slices::slice_scatter),
    eval: Evaluate::Values(eval),
};

fn infer(infer: &mut Infer) -> Result<Annotation, Reject> {
    let (mut data, src) = (infer.tensor("input_tensor")?, infer.tensor("src")?);
    data.dtype = infer.same_dtype("C2", &["input_tensor", "src"])?;
    let slice =
        Slice { begin: infer.dim("start")?, end: infer.dim("end")?, stride: infer.dim("step")? };
    infer.require("C3", Claim::new(1, Relation::AtMost, slice.stride.clone()), || {
        format!("`step` must be at least 1, found {}", slice.stride)
    })?;
    let axis = infer.int("axis")?;
    let rank = data.extents.rank();
    let Some(axis) = rank.map(|rank| infer.axis("C1", axis, rank)).transpose()? else {
        return Ok(Annotation::Tensor(data));
    };
    let expected: Extents = match data.extents.dims() {
        Some(dims) => {
            let mut dims = dims.to_vec();
            match extent(infer, &dims[axis], &slice) {
                Some(count) => {
                    dims[axis] = count;
                    Extents::Known(dims)
                }
                None => Extents::Rank(dims.len()),
            }
        }
        None => data.extents.clone(),
    };
    infer.require_same_shape("C4", &expected, &src.extents, "the slice and `src`")?;
    Ok(Annotation::Tensor(data))
}

fn eval(eval: &Eval) -> Result<Value, Stop> {
    let (data, src) = (eval.tensor_as_it_is("input_tensor"), eval.tensor_as_it_is("src"));
    let axis = normalize_axis(eval.int("axis"), data.rank())
        .expect("invariant: infer has checked the axis");
    let mut slices = whole(data.shape());
    slices[axis] = Slice {
        begin: eval.int("start").into(),
        end: eval.int("end").into(),
        stride: eval.int("step").into(),
    };
    let (_, positions) = sliced_positions(data.shape(), &slices);
    Ok(Value::Tensor(update(data, &positions, src, Reduction::Update)))
}
