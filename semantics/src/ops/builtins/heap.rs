//! Slots: allocation, arithmetic, and what is made of them.

use super::super::Eval;
use super::{Code, code, codes, load, store, stored};
use crate::stop::Stop;
use crate::value::{ShapeHeap, Value};
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use std::sync::Arc;

pub(super) fn eval_alloc(eval: &Eval) -> Result<Value, Stop> {
    let size = eval.checked_shape(&[eval.int("size")], DType::I64)?;
    Ok(Value::Heap(ShapeHeap::new(size[0])))
}

pub(super) fn eval_compute(eval: &Eval) -> Result<Value, Stop> {
    let symbol = eval.str("op");
    let Some(op) = DimOp::of_symbol(symbol.as_str()) else {
        return Err(eval.trap("C2", format!("there is no operation `{symbol}` on dims")));
    };
    let failed = |why: String| {
        let about = eval.str("about");
        let message = if about.is_empty() { why } else { format!("{about}: {why}") };
        Stop::trap(eval.str("check").to_string(), message)
    };
    let operand = |param: &str| match code(eval, eval.value(param))? {
        Code::Literal(value) => Ok(value),
        Code::Slot(slot) => {
            load(eval, slot)?.ok_or_else(|| failed(format!("nothing was stored in slot {slot}")))
        }
        _ => Err(eval.trap("C2", format!("`{param}` is an integer or a slot"))),
    };
    let (a, b) = (Dim::Int(operand("a")?), Dim::Int(operand("b")?));
    let value = Dim::Op(op, Box::new((a, b))).eval(&|_| None);
    store(eval, eval.int("slot"), value.map_err(|error| failed(error.to_string()))?)?;
    Ok(Value::Tuple(Vec::new()))
}

pub(super) fn eval_load(eval: &Eval) -> Result<Value, Stop> {
    stored(eval, eval.int("slot")).map(Value::int)
}

pub(super) fn eval_shape(eval: &Eval) -> Result<Value, Stop> {
    let dims = dims(eval)?;
    if let Some(dim) = dims.iter().find(|dim| **dim < 0) {
        let message = format!("a dim may not be negative, found {dim}");
        return Err(Stop::trap("shape/negative", message));
    }
    Ok(Value::Shape(dims))
}

/// Whoever uses the annotation checks its dims.
pub(super) fn eval_annotation(eval: &Eval) -> Result<Value, Stop> {
    let extents = Extents::Known(dims(eval)?.into_iter().map(Dim::Int).collect());
    let dtype = if eval.is_none("dtype") { None } else { DType::parse(&eval.str("dtype")) };
    Ok(Value::Annotation(Arc::new(Annotation::Tensor(TensorType { extents, dtype }))))
}

fn dims(eval: &Eval) -> Result<Vec<i64>, Stop> {
    let dims = codes(eval)?.into_iter().map(|code| match code {
        Code::Literal(value) => Ok(value),
        Code::Slot(slot) => stored(eval, slot),
        _ => Err(eval.trap("C2", "a dim is an integer or a slot")),
    });
    dims.collect()
}
