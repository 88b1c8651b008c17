//! Checks of values, one step at a time. What they say is what [`crate::interp`] says of the whole
//! annotation.

use super::super::Eval;
use super::{Code, codes, load, store, stored};
use crate::show::shown_shape;
use crate::stop::Stop;
use crate::value::Value;
use relax_syntax::annotation::Extents;
use relax_syntax::dim::{Dim, floor_mod};
use relax_syntax::dtype::DType;

/// What `builtin.check_kind` tells apart.
pub(super) const KINDS: [&str; 5] = ["tensor", "shape", "tuple", "scalar", "function"];

/// The trap of a check: `boundary/dim`.
fn failed(eval: &Eval, what: &str, message: String) -> Stop {
    let check = eval.str("check");
    let id = if check.contains('/') { check.to_string() } else { format!("{check}/{what}") };
    Stop::trap(id, message)
}

fn unit() -> Result<Value, Stop> {
    Ok(Value::Tuple(Vec::new()))
}

/// The dims of a tensor or shape.
fn dims(value: &Value) -> Option<Vec<i64>> {
    let annotation = value.annotation();
    let extents = match &annotation {
        relax_syntax::annotation::Annotation::Shape(extents) => extents,
        other => &other.as_tensor()?.extents,
    };
    match extents {
        Extents::Known(dims) => dims.iter().map(Dim::as_int).collect(),
        _ => None,
    }
}

fn dtype(value: &Value) -> Option<DType> {
    match value {
        Value::Prim(dtype, _) => Some(*dtype),
        tensor => tensor.annotation().as_tensor()?.dtype,
    }
}

pub(super) fn eval_kind(eval: &Eval) -> Result<Value, Stop> {
    let (value, about) = (eval.value("value"), eval.str("about"));
    let found = match value {
        Value::Tensor(_) | Value::Placed(_) => "tensor",
        Value::Shape(_) => "shape",
        Value::Tuple(_) => "tuple",
        Value::Prim(..) => "scalar",
        Value::Global(_) | Value::Closure(_) | Value::Partial(_) => "function",
        _ => "",
    };
    if eval.str("kind").as_str() != found {
        let message = format!("{about} must be `{}`, found {}", eval.str("expected"), value.kind());
        return Err(failed(eval, "kind", message));
    }
    if let Value::Str(expected) = eval.value("dtype")
        && let Some(found) = dtype(value).filter(|found| DType::parse(expected) != Some(*found))
    {
        let message = format!("{about} must have dtype {expected}, found {found}");
        return Err(failed(eval, "dtype", message));
    }
    if eval.is_none("size") { unit() } else { check_size(eval, value) }
}

fn check_size(eval: &Eval, value: &Value) -> Result<Value, Stop> {
    let (about, expected) = (eval.str("about"), eval.int("size"));
    let message = match (value, dims(value)) {
        (Value::Tuple(items), _) if usize::try_from(expected) != Ok(items.len()) => {
            format!("{about} must have {expected} fields, found {}", items.len())
        }
        (_, Some(dims)) if usize::try_from(expected) != Ok(dims.len()) => format!(
            "{about} must be `{}`, of rank {expected}; found the shape {}, of rank {}",
            eval.str("expected"),
            shown_shape(&dims),
            dims.len()
        ),
        _ => return unit(),
    };
    Err(failed(eval, "rank", message))
}

pub(super) fn eval_match(eval: &Eval) -> Result<Value, Stop> {
    let (codes, about) = (codes(eval)?, eval.str("about"));
    let Some(dims) = dims(eval.value("value")) else {
        let message =
            format!("{about} must be a tensor or shape, found {}", eval.value("value").kind());
        return Err(failed(eval, "kind", message));
    };
    if codes.len() != dims.len() {
        let message = format!("{about} has {} dims, expected are {}", dims.len(), codes.len());
        return Err(failed(eval, "rank", message));
    }
    for (axis, (code, &actual)) in codes.iter().zip(&dims).enumerate() {
        let expected = match code {
            Code::Skip => continue,
            Code::Store(slot) => {
                store(eval, *slot, actual)?;
                continue;
            }
            Code::Literal(value) => Some(*value),
            Code::Slot(slot) => load(eval, *slot)?,
        };
        if expected != Some(actual) {
            let value = expected.map_or_else(|| "what has no value".to_owned(), |v| v.to_string());
            let message = format!(
                "dim {axis} of {about} must be {value}, found {actual}: expected `{}`, found the shape {}",
                eval.str("expected"),
                shown_shape(&dims)
            );
            return Err(failed(eval, "dim", message));
        }
    }
    unit()
}

pub(super) fn eval_bound(eval: &Eval) -> Result<Value, Stop> {
    let (value, limit, fact) =
        (stored(eval, eval.int("slot"))?, eval.int("limit"), eval.str("fact"));
    let holds = match fact.as_str() {
        "lower_bound" => value >= limit,
        "upper_bound" => value <= limit,
        "multiple_of" => floor_mod(value, limit) == Some(0),
        _ => return Err(eval.trap("C2", format!("there is no fact `{fact}`"))),
    };
    if holds {
        return unit();
    }
    let message = format!(
        "`{}` = {value} ({}) breaks its declared {fact} {limit}",
        eval.str("name"),
        eval.str("about")
    );
    Err(Stop::trap(format!("bound/{}", fact.as_str().trim_end_matches("_bound")), message))
}

pub(super) fn eval_extent(eval: &Eval) -> Result<Value, Stop> {
    let value = stored(eval, eval.int("slot"))?;
    if value >= 0 {
        return unit();
    }
    let message = format!("a dim may not be negative, found `{}` = {value}", eval.str("about"));
    Err(Stop::trap("shape/negative", message))
}
