//! Elementwise functions of three tensors.

use super::broadcast::broadcast_to;
use super::{
    Effect, Eval, Evaluate, Family, Infer, Kind, Operator, Reject, Traps, constraint, required,
};
use crate::scalar;
use crate::stop::Stop;
use crate::tensor::{Elements, Tensor};
use crate::value::Value;
use ndarray::Zip;
use relax_syntax::annotation::{Annotation, TensorType};
use relax_syntax::dtype::DType;

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
        eval: Evaluate::Values(fma),
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
        eval: Evaluate::Values(choose),
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

fn fma(eval: &Eval) -> Result<Value, Stop> {
    let (x1, x2, x3) = (eval.tensor("x1")?, eval.tensor("x2")?, eval.tensor("x3")?);
    let dtype = x1.dtype();
    let elements = match (x1.elements(), x2.elements(), x3.elements()) {
        (Elements::Float(a), Elements::Float(b), Elements::Float(c)) => {
            let f = |&a: &f64, &b: &f64, &c: &f64| scalar::fma(dtype, a, b, c);
            Elements::Float(Zip::from(&a).and(&b).and(&c).map_collect(f))
        }
        _ => {
            let [a, b, c] = [x1, x2, x3].map(Tensor::to_ints);
            let f = |&a: &i128, &b: &i128, &c: &i128| a.wrapping_mul(b).wrapping_add(c);
            Elements::Int(Zip::from(&a).and(&b).and(&c).map_collect(f))
        }
    };
    Ok(Value::Tensor(Tensor::from_elements(dtype, elements)))
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

fn choose(eval: &Eval) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    let stretched = |param| eval.tensor(param).map(|tensor| broadcast_to(tensor, &shape));
    let condition = stretched("condition")?.to_bools();
    let (x1, x2) = (stretched("x1")?, stretched("x2")?);
    let elements = match (x1.elements(), x2.elements()) {
        (Elements::Float(a), Elements::Float(b)) => {
            let pick = |&c: &bool, &a: &f64, &b: &f64| if c { a } else { b };
            Elements::Float(Zip::from(&condition).and(&a).and(&b).map_collect(pick))
        }
        _ => {
            let [a, b] = [x1, x2].map(|tensor| tensor.to_ints());
            let pick = |&c: &bool, &a: &i128, &b: &i128| if c { a } else { b };
            Elements::Int(Zip::from(&condition).and(&a).and(&b).map_collect(pick))
        }
    };
    Ok(Value::Tensor(Tensor::from_elements(dtype, elements)))
}
