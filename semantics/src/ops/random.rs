//! Random bits from an explicit state.

use super::{Effect, Eval, Evaluate, Family, Infer, Kind, Literal, Operator, Param, Reject, Traps};
use super::{Programs, constraint, optional, programs, required};
use crate::philox::{Bits, advanced};
use crate::stop::Stop;
use crate::tensor::{Tensor, array};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

/// The number of a stream.
pub(super) const STREAM: Param = optional("stream", Kind::Dim, Literal::Int(0));

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "random_bits",
    aliases: &[],
    family: Family::Creation,
    doc: "The next state, and a tensor of that shape with random bits: Philox4x32-10 (Salmon et al. 2011). The state has the \
          key and a counter of 64 bits, the low word first. Element `i` in row-major order is word `i % 4` of the block at \
          the counter plus `i // 4`, to which the key plus `stream` is the high half; the next state is the counter behind \
          the last block. With stream 0 it is `jax.lax.rng_bit_generator` with `RNG_PHILOX`. `(bits >> 9) * 2 ** -23` is \
          uniform in [0, 1), as `jax.random.uniform` makes f32.",
    params: &[required("state", Kind::Tensor), required("shape", Kind::Shape), STREAM],
    constraints: &[
        constraint("C1", "no dim of the shape is negative, and each fits i64"),
        constraint("C2", "state has 4 elements of u32"),
        constraint("C3", "stream is at least 0 and less than 2 ** 32"),
    ],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer,
    program: Programs::Of(programs::random::random_bits),
    eval: Evaluate::Values(eval),
}];

fn infer(infer: &mut Infer) -> Result<Annotation, Reject> {
    let words = |extents| Annotation::Tensor(TensorType { extents, dtype: Some(DType::U32) });
    require_state(infer, "C2")?;
    stream(infer, "C3")?;
    let shape = infer.result_shape("C1", "shape")?;
    Ok(Annotation::Tuple(vec![words(four()), words(shape)]))
}

fn four() -> Extents {
    Extents::Known(vec![Dim::Int(4)])
}

/// Demands that `state` is a vector of four words.
///
/// # Errors
/// A rejection under `constraint`.
pub(super) fn require_state(infer: &mut Infer, constraint: &'static str) -> Result<(), Reject> {
    infer.require_dtype(constraint, "state", |dtype| dtype == DType::U32)?;
    let found = infer.tensor("state")?.extents;
    infer.require_same_shape(constraint, &found, &four(), "`state` and its four words")?;
    Ok(())
}

/// The number of the stream.
///
/// # Errors
/// A rejection under `constraint`.
pub(super) fn stream(infer: &Infer, constraint: &'static str) -> Result<u32, Reject> {
    let stream = infer.int("stream")?;
    u32::try_from(stream).map_err(|_| {
        let message =
            format!("`stream` must be at least 0 and less than 4294967296, found {stream}");
        infer.reject(constraint, message)
    })
}

/// The words of `state`.
///
/// # Errors
/// The trap `undefined/read`.
pub(super) fn state(eval: &Eval) -> Result<[u32; 4], Stop> {
    let state = eval.tensor("state")?;
    Ok([0, 1, 2, 3].map(|at| match state.number(at) {
        crate::tensor::Number::Int(word) => word as u32,
        crate::tensor::Number::Float(_) => unreachable!("invariant: infer accepts only u32"),
    }))
}

/// The bits of a call with `state` and `stream`.
///
/// # Errors
/// The trap `undefined/read`.
pub(super) fn bits(eval: &Eval) -> Result<Bits, Stop> {
    let stream = u32::try_from(eval.int("stream")).expect("invariant: infer checks the range");
    Ok(Bits::new(state(eval)?, stream))
}

fn eval(eval: &Eval) -> Result<Value, Stop> {
    let Annotation::Tuple(fields) = eval.out else {
        unreachable!("invariant: infer gives a tuple")
    };
    let dims = fields[1].dims().expect("invariant: a shape of numbers").iter();
    let dims: Vec<i64> = dims.filter_map(Dim::as_int).collect();
    let shape = eval.checked_shape(&dims, DType::U32)?;
    let count = if shape.contains(&0) { 0 } else { shape.iter().product::<usize>() as u64 };
    let bits = bits(eval)?;
    let words = |shape: &[usize], words: Vec<i128>| {
        Value::Tensor(Tensor::from_ints(DType::U32, array(shape, words)))
    };
    let next = advanced(state(eval)?, count).map(i128::from);
    let drawn = (0..count).map(|at| i128::from(bits.at(at))).collect();
    Ok(Value::Tuple(vec![words(&[4], next.to_vec()), words(&shape, drawn)]))
}
