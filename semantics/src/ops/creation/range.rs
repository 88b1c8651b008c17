//! `arange`: evenly spaced numbers.

use crate::ops::dims::tensor;
use crate::ops::{Eval, Infer, Known, Reject};
use crate::stop::Stop;
use crate::tensor::{Number, Tensor, array};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};

/// What deduction knows of a bound or step.
#[derive(Clone)]
enum Bound {
    Int(Dim),
    Float(f64),
    /// A scalar of a known class whose value is not known yet.
    Scalar {
        float: bool,
    },
    /// Nothing, not even its class.
    Unknown,
}

fn bound(infer: &Infer, param: &str) -> Result<Bound, Reject> {
    let operand = infer.operand(param);
    match (&operand.known, &operand.annotation) {
        (Some(Known::Dim(dim)), _) => Ok(Bound::Int(dim.clone())),
        (Some(Known::Float(value)), _) => Ok(Bound::Float(*value)),
        (None, Annotation::Object) => Ok(Bound::Unknown),
        // The values of u64 do not all fit the range of a dim.
        (None, Annotation::Prim(dtype)) if dtype.is_float() => Ok(Bound::Scalar { float: true }),
        (None, Annotation::Prim(dtype)) if dtype.is_integer() && *dtype != DType::U64 => {
            Ok(Bound::Scalar { float: false })
        }
        (_, found) => {
            let message = format!("`{param}` must be an integer or a float, found `{found}`");
            Err(infer.reject("kind", message))
        }
    }
}

/// Start, end and step; with one bound that is the end.
fn bounds(infer: &Infer) -> Result<[Bound; 3], Reject> {
    let (start, step) = (bound(infer, "start")?, bound(infer, "step")?);
    if infer.is_none("end") {
        return Ok([Bound::Int(Dim::Int(0)), start, step]);
    }
    Ok([start, bound(infer, "end")?, step])
}

pub(super) fn infer(infer: &mut Infer) -> Result<Annotation, Reject> {
    let bounds = bounds(infer)?;
    let dtype = infer.optional_dtype("dtype")?.or(default_dtype(&bounds));
    if dtype == Some(DType::Bool) {
        return Err(infer.reject("C3", "a range has numbers as elements, not bools"));
    }
    let extents = match bounds {
        [Bound::Int(start), Bound::Int(end), Bound::Int(step)] => {
            let length = int_length(infer, &start, &end, &step)?;
            infer.settled("C2", &[length])?
        }
        [start, end, step] => match (literal(&start), literal(&end), literal(&step)) {
            (Some(start), Some(end), Some(step)) => {
                Extents::Known(vec![Dim::Int(float_length(infer, start, end, step)?)])
            }
            _ => Extents::Rank(1),
        },
    };
    Ok(tensor(extents, dtype))
}

/// i64 when all are integers, f32 when one is a float, unknown else.
fn default_dtype(bounds: &[Bound; 3]) -> Option<DType> {
    let is_float = |bound: &Bound| matches!(bound, Bound::Float(_) | Bound::Scalar { float: true });
    let is_unknown = |bound: &Bound| matches!(bound, Bound::Unknown);
    match bounds {
        _ if bounds.iter().any(is_float) => Some(DType::F32),
        _ if bounds.iter().any(is_unknown) => None,
        _ => Some(DType::I64),
    }
}

fn literal(bound: &Bound) -> Option<f64> {
    match bound {
        Bound::Int(dim) => dim.as_int().map(|value| value as f64),
        Bound::Float(value) => Some(*value),
        Bound::Scalar { .. } | Bound::Unknown => None,
    }
}

fn int_length(infer: &mut Infer, start: &Dim, end: &Dim, step: &Dim) -> Result<Dim, Reject> {
    infer.require("C1", Claim::new(step.clone(), Relation::NotEqual, 0), || {
        format!("the step of a range may not be 0, found {step}")
    })?;
    let distance = Dim::op(DimOp::Sub, end.clone(), start.clone());
    let steps = Dim::op(DimOp::CeilDiv, distance, step.clone());
    let never_negative = infer.proves(&Claim::new(0, Relation::AtMost, steps.clone()));
    Ok(if never_negative { steps } else { Dim::op(DimOp::Max, Dim::Int(0), steps) })
}

fn float_length(infer: &Infer, start: f64, end: f64, step: f64) -> Result<i64, Reject> {
    if step == 0.0 {
        return Err(infer.reject("C1", "the step of a range may not be 0"));
    }
    let length = ((end - start) / step).ceil().max(0.0);
    let finite = [start, end, step].iter().all(|value| value.is_finite());
    if !finite || length >= i64::MAX as f64 {
        let message = format!(
            "a range needs finite bounds and step and a length that fits i64, found start {start}, \
             end {end}, step {step}"
        );
        return Err(infer.reject("C2", message));
    }
    Ok(length as i64)
}

pub(super) fn eval(eval: &Eval) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    let number = |param: &str| match eval.value(param) {
        Value::Prim(_, number) => *number,
        _ => Number::Int(0),
    };
    let start = if eval.is_none("end") { Number::Int(0) } else { number("start") };
    let count = 0..shape[0] as i128;
    Ok(Value::Tensor(match (start, number("step")) {
        (Number::Int(start), Number::Int(step)) => {
            let values = count.map(|index| start + index * step).collect();
            Tensor::from_ints(dtype, array(&shape, values))
        }
        (start, step) => {
            let (start, step) = (start.as_f64(), step.as_f64());
            let values = count.map(|index| start + index as f64 * step).collect();
            Tensor::from_floats(dtype, array(&shape, values))
        }
    }))
}
