//! Dropout: as it is at inference, and with a state of random bits as it is in training.

use super::DATA;
use crate::ops::random::{STREAM, bits, require_state, stream};
use crate::ops::{Effect, Eval, Evaluate, Family, Infer, Literal, Operator, Reject, Traps};
use crate::ops::{Kind, constraint, optional};
use crate::ops::{Programs, programs};
use crate::philox::{dropout_scale, dropout_threshold};
use crate::stop::Stop;
use crate::tensor::{Number, Tensor, array};
use crate::value::Value;
use relax_syntax::annotation::Annotation;
use relax_syntax::dtype::DType;

pub(super) const DROPOUT: Operator = Operator {
    name: "nn.dropout",
    aliases: &[],
    family: Family::Nn,
    doc: "The pair of a tensor and a mask, both of the type of data. Without a state it is dropout at inference, as TVM \
          runs it: data itself and ones. With a state it is dropout in training: element `i` is dropped where word `i` of \
          `random_bits(state, shape_of(data), stream)` is less than `floor(rate * 2 ** 32)`. A dropped element is 0, NaN \
          and infinities too, and its mask is 0. A kept one is multiplied by `1 / (1 - rate)` rounded to the dtype, as by \
          PyTorch's `native_dropout`. Of f16 and bf16 the factor is rounded to f32 and the product to the dtype, so that a \
          rate near 1 has a finite factor; PyTorch rounds the factor, and gives NaN for a dropped NaN or infinity. Calls \
          with other streams drop independently.",
    params: &[
        DATA,
        optional("rate", Kind::Float, Literal::Float(0.5)),
        optional("state", Kind::OptionalTensor, Literal::None),
        STREAM,
    ],
    constraints: &[
        constraint("C1", "rate is at least 0 and less than 1"),
        constraint("C2", "state has 4 elements of u32, and data has a float dtype if there is one"),
        constraint("C3", "stream is at least 0 and less than 2 ** 32, and 0 without a state"),
    ],
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
    let stream = stream(infer, "C3")?;
    if infer.optional_tensor("state")?.is_some() {
        infer.require_dtype("C2", "data", DType::is_float)?;
        require_state(infer, "C2")?;
    } else if stream != 0 {
        let message = format!("`stream` is {stream}, but there is no `state`: nothing is random");
        return Err(infer.reject("C3", message));
    }
    let data = Annotation::Tensor(infer.tensor("data")?);
    Ok(Annotation::Tuple(vec![data.clone(), data]))
}

fn eval(eval: &Eval) -> Result<Value, Stop> {
    if !eval.is_none("state") {
        return in_training(eval);
    }
    let data = eval.tensor_as_it_is("data");
    let mask = Tensor::full(data.dtype(), data.shape(), Number::Int(1));
    Ok(Value::Tuple(vec![Value::Tensor(data.clone()), Value::Tensor(mask)]))
}

fn in_training(eval: &Eval) -> Result<Value, Stop> {
    let (data, rate) = (eval.tensor("data")?, eval.float("rate"));
    if data.is_empty() {
        // Of nothing, the state is not read.
        return Ok(Value::Tuple(vec![Value::Tensor(data.clone()); 2]));
    }
    let bits = bits(eval)?;
    let (threshold, (wide, scale)) = (dropout_threshold(rate), dropout_scale(rate, data.dtype()));
    let mut values = data.to_floats().into_raw_vec_and_offset().0;
    let mut mask = vec![0.0; values.len()];
    for ((position, value), kept) in (0..).zip(&mut values).zip(&mut mask) {
        if bits.at(position) < threshold {
            *value = 0.0;
            continue;
        }
        *kept = 1.0;
        let product = *value * scale;
        *value = if wide == DType::F64 { product } else { f64::from(product as f32) };
    }
    let tensor =
        |values| Value::Tensor(Tensor::from_floats(data.dtype(), array(data.shape(), values)));
    Ok(Value::Tuple(vec![tensor(values), tensor(mask)]))
}
