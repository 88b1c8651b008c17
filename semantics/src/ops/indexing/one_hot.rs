//! `one_hot`.

use super::addresses::require_indices;
use crate::ops::{Effect, Eval, Evaluate, Family, Infer, Kind, Literal, Operator, Reject, Traps};
use crate::ops::{Programs, programs};
use crate::ops::{constraint, optional, required};
use crate::stop::Stop;
use crate::tensor::{Number, Tensor, array};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};

pub(super) const ONE_HOT: Operator = Operator {
    name: "one_hot",
    aliases: &[],
    family: Family::Indexing,
    doc: "A new dim of extent `depth` at `axis` that holds `on_value` where its index is the \
          element of `indices` and `off_value` elsewhere; an element that is no index of it gives \
          `off_value` only. The dtype is that of the values: i64 or f64 for literals, any for \
          scalar tensors such as `const(1.0, \"f32\")`.",
    params: &[
        required("indices", Kind::Tensor),
        required("on_value", Kind::Value),
        required("off_value", Kind::Value),
        required("depth", Kind::Dim),
        optional("axis", Kind::Dim, Literal::Int(-1)),
    ],
    constraints: &[
        constraint("C1", "indices has an integer dtype"),
        constraint("C2", "on_value and off_value are scalars of the same dtype"),
        constraint("C3", "depth is at least 0"),
        constraint("C4", "axis is in range for the result, whose rank is one more than indices'"),
    ],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer,
    program: Programs::Of(programs::indexing::one_hot),
    eval: Evaluate::Values(eval),
};

fn infer(infer: &mut Infer) -> Result<Annotation, Reject> {
    let indices = infer.tensor("indices")?;
    require_indices(infer, "indices")?;
    let (on, off) = (scalar_dtype(infer, "on_value")?, scalar_dtype(infer, "off_value")?);
    if let (Some(on), Some(off)) = (on, off)
        && on != off
    {
        let message =
            format!("`on_value` and `off_value` must have the same dtype, found {on} and {off}");
        return Err(infer.reject("C2", message));
    }
    let depth = infer.dim("depth")?;
    infer.require("C3", Claim::new(0, Relation::AtMost, depth.clone()), || {
        format!("`depth` must be at least 0, found {depth}")
    })?;
    let axis = infer.int("axis")?;
    let extents = match indices.extents.rank() {
        Some(rank) => {
            let axis = infer.axis("C4", axis, rank + 1)?;
            with_dim(&indices.extents, axis, depth).unwrap_or(Extents::Rank(rank + 1))
        }
        None => Extents::Unknown,
    };
    Ok(Annotation::Tensor(TensorType { extents, dtype: on.or(off) }))
}

fn with_dim(extents: &Extents, axis: usize, dim: Dim) -> Option<Extents> {
    let mut dims = extents.dims()?.to_vec();
    dims.insert(axis, dim);
    Some(Extents::Known(dims))
}

/// The dtype of a scalar: a literal, a `Prim`, or a tensor of rank 0.
fn scalar_dtype(infer: &Infer, param: &'static str) -> Result<Option<DType>, Reject> {
    let operand = infer.operand(param);
    match &operand.annotation {
        Annotation::Prim(dtype) => Ok(Some(*dtype)),
        Annotation::Object if operand.known.is_none() => Ok(None),
        Annotation::Tensor(tensor) if tensor.extents.rank().is_none_or(|rank| rank == 0) => {
            Ok(tensor.dtype)
        }
        other => {
            let message = format!("`{param}` must be a scalar, found `{other}`");
            let constraint = if other.as_tensor().is_some() { "C2" } else { "kind" };
            Err(Reject { param: Some(param), ..infer.reject(constraint, message) })
        }
    }
}

fn eval(eval: &Eval) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    let indices = eval.tensor("indices")?;
    let (off, on) = (scalar(eval, "off_value")?, scalar(eval, "on_value")?);
    let choices = match (off, on) {
        (Number::Int(off), Number::Int(on)) => Tensor::from_ints(dtype, array(&[2], vec![off, on])),
        _ => Tensor::from_floats(dtype, array(&[2], vec![off.as_f64(), on.as_f64()])),
    };
    if shape.contains(&0) {
        return Ok(Value::Tensor(choices.select(&shape, &[])));
    }
    let rank = i64::try_from(shape.len()).unwrap_or(i64::MAX);
    let axis = eval.int("axis");
    let axis = usize::try_from(if axis < 0 { axis + rank } else { axis })
        .expect("invariant: infer has checked the axis");
    let depth = shape[axis];
    let inner: usize = shape[axis + 1..].iter().product();
    let elements = indices.to_ints();
    let elements = elements.as_slice().expect("invariant: tensors are in row-major order");
    let chosen = |position: usize| {
        let (outer, index) = (position / inner / depth, position / inner % depth);
        usize::from(elements[outer * inner + position % inner] == index as i128)
    };
    let total: usize = shape.iter().product();
    let chosen: Vec<usize> = (0..total).map(chosen).collect();
    Ok(Value::Tensor(choices.select(&shape, &chosen)))
}

fn scalar(eval: &Eval, param: &str) -> Result<Number, Stop> {
    Ok(match eval.value(param) {
        Value::Prim(_, number) => *number,
        _ => eval.tensor(param)?.number(0),
    })
}
