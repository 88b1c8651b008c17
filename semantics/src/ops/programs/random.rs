//! Philox4x32-10 as scalar code: the bits of an element from the state and its position, without those of other elements.

use super::Request;
use super::builder::{Buffer, Builder};
use super::movement::flat;
use crate::formula::{Scalar, select};
use crate::philox::{FACTORS, ROUNDS, WEYL};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::BinOp;

/// `random_bits`: each element by itself, and the next state.
pub(in crate::ops) fn random_bits(request: &Request) -> Option<Builder> {
    let stream = request.int("stream")?;
    let mut builder = Builder::new(request);
    let state = builder.input("state")?;
    let [next, output] = builder.outputs.clone().try_into().ok()?;
    builder.nest(&output.dims, |builder, at| {
        let value = element(builder, &state, stream, flat(&output.dims, at));
        builder.store(&output, at, value);
    });
    // Modulo 2⁶⁴, for a factor may leave it before another one is 0.
    let factors = output.dims.iter().map(|dim: &Dim| Scalar::from(dim).into_dtype(DType::U64));
    let count = factors.reduce(|a, b| a * b);
    let count = count.unwrap_or_else(|| Scalar::from(1).into_dtype(DType::U64));
    builder.nest(&next.dims, |builder, at| {
        let end = builder.bind(pair(&state, 2) + shifted(count + 3, 2));
        let high = narrow(shifted(end.clone(), 32));
        let counter = select(at[0].equals(2), narrow(end), high);
        builder.store(&next, at, select(at[0].less(2), state.at(at), counter));
    });
    Some(builder)
}

/// The word of the element at a position.
pub(super) fn element(
    builder: &mut Builder,
    state: &Buffer,
    stream: i64,
    position: Scalar,
) -> Scalar {
    let position = builder.bind(position.into_dtype(DType::U64));
    let start = builder.bind(pair(state, 2));
    let low = builder.bind(start.clone() + shifted(position.clone(), 2));
    let carry = select(low.less(&start), Scalar::from(1).into_dtype(DType::U64), 0);
    let high = builder.bind(pair(state, 0) + stream + carry);
    let counter = [&low, &high].map(|half| [half.clone(), shifted(half.clone(), 32)]);
    let mut counter = counter.as_flattened().iter().cloned().map(narrow).collect::<Vec<_>>();
    let keys = [0, 1].map(|at| builder.bind(state.at(&[at.into()])));
    for round in 0..ROUNDS {
        let [p, q] = [0, 1].map(|at| {
            let word = counter[2 * at].clone().into_dtype(DType::U64);
            builder.bind(word * i64::from(FACTORS[at]))
        });
        let [first, second] = [(0, &q), (1, &p)].map(|(at, product)| {
            let key = keys[at].clone() + i64::from(WEYL[at].wrapping_mul(round));
            let mixed = xor(narrow(shifted(product.clone(), 32)), counter[2 * at + 1].clone());
            builder.bind(xor(mixed, key))
        });
        let [second_low, first_low] = [p, q].map(|product| builder.bind(narrow(product)));
        counter = vec![first, first_low, second, second_low];
    }
    let lane = builder.bind(Scalar::pair(BinOp::BitAnd, position, 3));
    let last = counter.pop().expect("invariant: there are four");
    let words = [0, 1, 2].into_iter().zip(counter).rev();
    words.fold(last, |others, (at, word)| select(lane.equals(at), word, others))
}

/// Two words of the state.
fn pair(state: &Buffer, at: i64) -> Scalar {
    let [low, high] = [at, at + 1].map(|at| state.at(&[at.into()]).into_dtype(DType::U64));
    Scalar::pair(BinOp::BitOr, Scalar::pair(BinOp::ShiftLeft, high, 32), low)
}

fn shifted(value: Scalar, count: i64) -> Scalar {
    Scalar::pair(BinOp::ShiftRight, value, count)
}

fn narrow(value: Scalar) -> Scalar {
    value.into_dtype(DType::U32)
}

fn xor(a: Scalar, b: Scalar) -> Scalar {
    Scalar::pair(BinOp::BitXor, a, b)
}
