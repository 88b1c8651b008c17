//! The parametric rectified linear unit: one slope a channel.

use super::{DATA, require_one_or_equal};
use crate::formula::{Scalar, select};
use crate::ops::Programs;
use crate::ops::elementwise::{Element, Elementwise};
use crate::ops::{Effect, Evaluate, Family, Infer, Literal, Operator, Reject, Traps};
use crate::ops::{Kind, constraint, optional, required};
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
    program: Programs::Formula,
    eval: Evaluate::Elementwise(Elementwise::by_channel(formula)),
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

fn formula(e: &Element) -> Option<Scalar> {
    let [x, slope] = <[Scalar; 2]>::try_from(e.in_f64()).ok()?;
    Some(select(x.greater(0.0), &x, slope * &x).cast(DType::F64, e.out))
}
