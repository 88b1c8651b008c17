//! The parametric rectified linear unit: one slope a channel.

use super::{DATA, require_one_or_equal};
use crate::ops::{Effect, Eval, Evaluate, Family, Infer, Literal, Operator, Reject, Traps};
use crate::ops::{Kind, constraint, normalize_axis, optional, required};
use crate::stop::Stop;
use crate::tensor::{array, strided_positions};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, TensorType};
use relax_syntax::dtype::DType;

pub(super) const PRELU: Operator = Operator {
    name: "nn.prelu",
    aliases: &[],
    family: Family::Nn,
    doc: "Parametric rectified linear unit: `x` for `x > 0`, else `alpha[c] * x`, where `c` is the \
          index along `axis`. One slope may stand for all.",
    params: &[DATA, required("alpha", Kind::Tensor), optional("axis", Kind::Dim, Literal::Int(1))],
    constraints: &[
        constraint("C1", "data and alpha have the same dtype, a float one"),
        constraint("C2", "axis is an axis of data"),
        constraint("C3", "alpha has rank 1"),
        constraint("C4", "alpha has one element, or as many as data along axis"),
    ],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer,
    eval: Evaluate::Values(eval),
};

fn infer(infer: &mut Infer) -> Result<Annotation, Reject> {
    let dtype = infer.same_dtype("C1", &["data", "alpha"])?;
    infer.require_dtype("C1", "data", DType::is_float)?;
    infer.require_dtype("C1", "alpha", DType::is_float)?;
    let (axis, data, alpha) = (infer.int("axis")?, infer.tensor("data")?, infer.tensor("alpha")?);
    if let Some(rank) = alpha.extents.rank()
        && rank != 1
    {
        return Err(infer.reject("C3", format!("`alpha` must have rank 1, found rank {rank}")));
    }
    if let Some(rank) = data.extents.rank() {
        let axis = infer.axis("C2", axis, rank)?;
        if let (Some(dims), Some([slopes])) = (data.extents.dims(), alpha.extents.dims()) {
            require_one_or_equal(infer, "C4", slopes, &dims[axis], "the size of `alpha`")?;
        }
    }
    Ok(Annotation::Tensor(TensorType { extents: data.extents, dtype }))
}

fn eval(eval: &Eval) -> Result<Value, Stop> {
    let (data, alpha) = (eval.tensor("data")?, eval.tensor("alpha")?.to_floats());
    let axis = normalize_axis(eval.int("axis"), data.rank()).expect("invariant: infer checked C2");
    let mut steps = vec![0; data.rank()];
    steps[axis] = usize::from(alpha.len() > 1);
    let slopes = strided_positions(data.shape(), &steps);
    let values = data.to_floats().into_iter().zip(slopes);
    let result = values.map(|(x, at)| if x > 0.0 { x } else { alpha[at] * x }).collect();
    eval.floats(data.dtype(), array(data.shape(), result))
}
