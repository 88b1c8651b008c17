//! Every element the same: `full`, `ones`, `zeros` and `empty`.

use crate::ops::dims::tensor;
use crate::ops::{Eval, Infer, Known, Reject};
use crate::stop::Stop;
use crate::tensor::{Number, Tensor};
use crate::value::Value;
use relax_syntax::annotation::Annotation;
use relax_syntax::dtype::DType;

/// `(shape, dtype)`
pub(super) fn infer_shaped(infer: &mut Infer) -> Result<Annotation, Reject> {
    let dtype = infer.dtype("dtype")?;
    Ok(tensor(infer.result_shape("C1", "shape")?, Some(dtype)))
}

/// `(x, dtype=None)`
pub(super) fn infer_like(infer: &mut Infer) -> Result<Annotation, Reject> {
    let x = infer.tensor("x")?;
    let dtype = infer.optional_dtype("dtype")?.or(x.dtype);
    Ok(tensor(x.extents, dtype))
}

pub(super) fn infer_full(infer: &mut Infer) -> Result<Annotation, Reject> {
    let given = infer.optional_dtype("dtype")?;
    let fill = fill_dtype(infer, "C2", given.is_some())?;
    Ok(tensor(infer.result_shape("C1", "shape")?, given.or(fill)))
}

pub(super) fn infer_full_like(infer: &mut Infer) -> Result<Annotation, Reject> {
    fill_dtype(infer, "C1", true)?;
    infer_like(infer)
}

/// The dtype of `fill_value`, where known. A bare number has none of its own: in text `1.0` may be
/// any float.
fn fill_dtype(
    infer: &Infer,
    constraint: &'static str,
    has_dtype: bool,
) -> Result<Option<DType>, Reject> {
    let operand = infer.operand("fill_value");
    let is_number = match &operand.known {
        Some(known) => matches!(known, Known::Dim(_) | Known::Float(_) | Known::Bool(_)),
        None => matches!(operand.annotation, Annotation::Prim(_)),
    };
    if is_number && has_dtype {
        return Ok(None);
    }
    if is_number {
        let message = "`fill_value` is a number without a dtype: give `dtype`, or a scalar tensor \
                       such as `const(1.0, \"f32\")`";
        return Err(infer.reject(constraint, message));
    }
    let fill = infer.tensor("fill_value")?;
    match fill.extents.rank() {
        None | Some(0) => Ok(fill.dtype),
        Some(rank) => {
            let message = format!("`fill_value` must be a scalar tensor, found one of rank {rank}");
            Err(infer.reject(constraint, message))
        }
    }
}

pub(super) fn eval_same(eval: &Eval, value: Number) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    Ok(Value::Tensor(Tensor::full(dtype, &shape, value)))
}

pub(super) fn eval_full(eval: &Eval) -> Result<Value, Stop> {
    let value = match eval.value("fill_value") {
        Value::Prim(_, number) => *number,
        _ => eval.tensor("fill_value")?.number(0),
    };
    eval_same(eval, value)
}

pub(super) fn eval_empty(eval: &Eval) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    Ok(Value::Tensor(Tensor::undefined(dtype, &shape)))
}
