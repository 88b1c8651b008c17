//! Elementwise functions of three tensors.

use super::elementwise::{Element, Elementwise};
use super::{Effect, Evaluate, Family, Infer, Kind, Operator, Reject, Traps, constraint, required};
use crate::formula::{Scalar, select};
use crate::ops::Programs;
use relax_syntax::annotation::{Annotation, TensorType};
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::Intrinsic;

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "ewise_fma",
        aliases: &[],
        family: Family::Ternary,
        doc: "x1 * x2 + x3, rounded once; integers wrap. The shapes are the same: unlike the \
              binary operators it does not broadcast.",
        params: &[
            required("x1", Kind::Tensor),
            required("x2", Kind::Tensor),
            required("x3", Kind::Tensor),
        ],
        constraints: &[
            constraint("C1", "x1, x2 and x3 have the same dtype, and it is not bool"),
            constraint("C2", "x1, x2 and x3 have the same shape"),
        ],
        effect: Effect::Pure,
        traps: Traps::Never,
        infer: infer_fma,
        program: Programs::Formula,
        eval: Evaluate::Elementwise(Elementwise::of(fused)),
    },
    Operator {
        name: "where",
        aliases: &[],
        family: Family::Ternary,
        doc: "The element of x1 where the condition is true, else that of x2; all three broadcast.",
        params: &[
            required("condition", Kind::Tensor),
            required("x1", Kind::Tensor),
            required("x2", Kind::Tensor),
        ],
        constraints: &[
            constraint("C1", "condition is a bool tensor"),
            constraint("C2", "x1 and x2 have the same dtype"),
            constraint("C3", "the shapes of condition, x1 and x2 broadcast"),
        ],
        effect: Effect::Pure,
        traps: Traps::Never,
        infer: infer_where,
        program: Programs::Formula,
        eval: Evaluate::Elementwise(Elementwise::of(chosen)),
    },
];

fn infer_fma(infer: &mut Infer) -> Result<Annotation, Reject> {
    let params = ["x1", "x2", "x3"];
    let dtype = infer.same_dtype("C1", &params)?;
    for param in params {
        infer.require_dtype("C1", param, |dtype| dtype != DType::Bool)?;
    }
    let [x1, x2, x3] = params.map(|param| infer.tensor(param).map(|tensor| tensor.extents));
    let (x1, x2, x3) = (x1?, x2?, x3?);
    let both = infer.require_same_shape("C2", &x1, &x2, "`x1` and `x2`")?;
    let extents = infer.require_same_shape("C2", &both, &x3, "`x1`, `x2` and `x3`")?;
    Ok(Annotation::Tensor(TensorType { extents, dtype }))
}

fn fused(e: &Element) -> Option<Scalar> {
    let [a, b, c] = e.operands else { return None };
    if e.dtype.is_float() { e.call(Intrinsic::Fma) } else { Some(a.clone() * b + c) }
}

fn infer_where(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer.require_dtype("C1", "condition", |dtype| dtype == DType::Bool)?;
    let dtype = infer.same_dtype("C2", &["x1", "x2"])?;
    let (x1, x2) = (infer.tensor("x1")?.extents, infer.tensor("x2")?.extents);
    let condition = infer.tensor("condition")?.extents;
    let branches = infer.broadcast("C3", &x1, &x2)?;
    let extents = infer.broadcast("C3", &condition, &branches)?;
    Ok(Annotation::Tensor(TensorType { extents, dtype }))
}

fn chosen(e: &Element) -> Option<Scalar> {
    let [condition, a, b] = e.operands else { return None };
    Some(select(condition.clone(), a, b))
}
