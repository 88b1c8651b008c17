//! Dropout, as it is at inference.

use super::DATA;
use crate::ops::{Effect, Eval, Evaluate, Family, Infer, Literal, Operator, Reject, Traps};
use crate::ops::{Kind, constraint, optional};
use crate::ops::{Programs, programs};
use crate::stop::Stop;
use crate::tensor::{Number, Tensor};
use crate::value::Value;
use relax_syntax::annotation::Annotation;

pub(super) const DROPOUT: Operator = Operator {
    name: "nn.dropout",
    aliases: &[],
    family: Family::Nn,
    doc: "Dropout at inference, as TVM runs it: the pair of data itself and a mask of ones of the \
          same type. `rate` says what training would drop.",
    params: &[DATA, optional("rate", Kind::Float, Literal::Float(0.5))],
    constraints: &[constraint("C1", "rate is at least 0 and less than 1")],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer,
    program: Programs::Of(programs::join::dropout),
    eval: Evaluate::Values(eval),
};

fn infer(infer: &mut Infer) -> Result<Annotation, Reject> {
    let rate = infer.float("rate")?;
    if !(0.0..1.0).contains(&rate) {
        let message = format!("`rate` must be at least 0 and less than 1, found {rate:?}");
        return Err(infer.reject("C1", message));
    }
    let data = Annotation::Tensor(infer.tensor("data")?);
    Ok(Annotation::Tuple(vec![data.clone(), data]))
}

fn eval(eval: &Eval) -> Result<Value, Stop> {
    let data = eval.tensor_as_it_is("data");
    let mask = Tensor::full(data.dtype(), data.shape(), Number::Int(1));
    Ok(Value::Tuple(vec![Value::Tensor(data.clone()), Value::Tensor(mask)]))
}
