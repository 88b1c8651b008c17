//! Conversion of elements.

use super::elementwise::Elementwise;
use super::{Effect, Eval, Evaluate, Family, Infer, Kind, Operator, Reject, Traps, required};
use crate::ops::Programs;
use crate::stop::Stop;
use crate::value::Value;
use relax_syntax::annotation::{Annotation, TensorType};

pub(super) static OPERATORS: &[Operator] = &[ASTYPE.evaluated(eval)];

const ASTYPE: Operator = Operator {
    name: "astype",
    aliases: &[],
    family: Family::DType,
    doc: "Each element in another dtype. To a float: rounded once, to nearest even. Integer to \
          integer: wrapped. Float to integer: truncated, and, where C, TVM and NumPy leave it open, \
          limited to the range of the dtype, NaN giving 0. To bool: nonzero, and so NaN, is true. \
          Elements that nothing has written stay so.",
    params: &[required("x", Kind::Tensor), required("dtype", Kind::DType)],
    constraints: &[],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer,
    program: Programs::Formula,
    eval: Evaluate::Elementwise(Elementwise::of(|e| Some(e.x().cast(e.dtype, e.out)))),
};

fn infer(infer: &mut Infer) -> Result<Annotation, Reject> {
    let (extents, dtype) = (infer.tensor("x")?.extents, infer.dtype("dtype")?);
    Ok(Annotation::Tensor(TensorType { extents, dtype: Some(dtype) }))
}

/// Not by the formula, which reads each element: an uninitialized element stays uninitialized.
fn eval(eval: &Eval, _: &Elementwise) -> Result<Value, Stop> {
    let (dtype, _) = eval.out_tensor()?;
    Ok(Value::Tensor(eval.tensor_as_it_is("x").cast(dtype)))
}
