//! The bits of elements in another dtype of the same width, computed with exact arithmetic in f64, and counts of bits. All NaNs are
//! one NaN here, whose sign is positive.

use super::super::call::{Call, Row};
use crate::argument::Arg;
use crate::builder::V;
use crate::operators::activation::{binary, like, select, with_number};
use crate::operators::elementwise::convert;
use crate::reason::{Done, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[
    ("bitcast_convert", |call| {
        let x = call.arg(0)?;
        let (_, wanted) = call.result(0)?;
        Ok(vec![cast(call, x, wanted)?])
    }),
    ("popcnt", |call| {
        let x = call.arg(0)?;
        Ok(vec![count(call, x)?])
    }),
];

/// A format of floats whose numbers f64 holds: how many bits its fraction has, and its greatest exponent.
struct Format {
    fraction: i64,
    bias: i64,
    signed: DType,
}

impl Format {
    fn of(dtype: DType) -> Option<Self> {
        let (fraction, bias, signed) = match dtype {
            DType::F32 => (23, 127, DType::I32),
            DType::F16 => (10, 15, DType::I16),
            DType::BF16 => (7, 127, DType::I16),
            _ => return None,
        };
        Some(Self { fraction, bias, signed })
    }

    fn sign(&self) -> i64 {
        8 * self.signed.size() as i64 - 1
    }

    /// The bits of the exponent of infinities, as a number.
    fn special(&self) -> i64 {
        2 * self.bias + 1
    }
}

fn cast(call: &mut Call, x: V, wanted: DType) -> Done<V> {
    let own = call.dtype(x);
    if own == wanted {
        return Ok(x);
    }
    let is_bits = |dtype: DType| dtype.is_integer() && dtype != DType::Bool;
    if own.size() != wanted.size() {
        return unsupported(format!("{own} as {wanted}: another width"));
    }
    match (Format::of(own), Format::of(wanted)) {
        _ if is_bits(own) && is_bits(wanted) => convert(call, x, wanted),
        (Some(format), None) if is_bits(wanted) => {
            let bits = bits_of(call, x, &format)?;
            convert(call, bits, wanted)
        }
        (None, Some(format)) if is_bits(own) => {
            let value = of_bits(call, x, &format)?;
            convert(call, value, wanted)
        }
        (Some(from), Some(to)) => {
            let bits = bits_of(call, x, &from)?;
            let value = of_bits(call, bits, &to)?;
            convert(call, value, wanted)
        }
        _ => unsupported(format!("{own} as {wanted}")),
    }
}

/// An integer of 64 bits and a number of its dtype.
fn int(call: &mut Call, operator: &str, x: V, number: i64) -> Done<V> {
    let number = Arg::Scalar(call.dtype(x), Number::Int(number.into()));
    call.call(operator, &[x.into(), number])
}

fn power_of_two(call: &mut Call, exponent: V) -> Done<V> {
    let two = like(call, exponent, 2.0);
    call.call("power", &[two, exponent.into()])
}

/// The bits of floats, as i64.
fn bits_of(call: &mut Call, x: V, format: &Format) -> Done<V> {
    let wide = convert(call, x, DType::F64)?;
    let size = call.call("abs", &[wide.into()])?;
    let finite = call.call("isfinite", &[size.into()])?;
    let zero = like(call, size, 0.0);
    let size = select(call, finite, size, zero)?;
    // A logarithm is a first guess at the exponent, which two comparisons make exact.
    let log = call.call("log", &[size.into()])?;
    let log = with_number(call, "divide", log, std::f64::consts::LN_2)?;
    let guess = call.call("floor", &[log.into()])?;
    let least = (1 - format.bias) as f64;
    let guess = with_number(call, "maximum", guess, least)?;
    let unit = power_of_two(call, guess)?;
    let over = binary(call, "less", size, unit)?;
    let over = convert(call, over, DType::F64)?;
    let twice = with_number(call, "multiply", unit, 2.0)?;
    let under = binary(call, "greater_equal", size, twice)?;
    let under = convert(call, under, DType::F64)?;
    let exponent = binary(call, "subtract", guess, over)?;
    let exponent = binary(call, "add", exponent, under)?;
    let exponent = with_number(call, "maximum", exponent, least)?;
    // With the leading bit, which adds one to the exponent; a number below all normal ones has none.
    let down = call.call("negative", &[exponent.into()])?;
    let down = with_number(call, "add", down, format.fraction as f64)?;
    let scale = power_of_two(call, down)?;
    let fraction = binary(call, "multiply", size, scale)?;
    let fraction = convert(call, fraction, DType::I64)?;
    let steps = with_number(call, "subtract", exponent, least)?;
    let steps = convert(call, steps, DType::I64)?;
    let steps = int(call, "left_shift", steps, format.fraction)?;
    let bits = binary(call, "add", fraction, steps)?;
    let infinity = format.special() << format.fraction;
    let number = |value: i64| Arg::Scalar(DType::I64, Number::Int(value.into()));
    let bits = select(call, finite, bits, number(infinity))?;
    let unknown = call.call("isnan", &[wide.into()])?;
    let quiet = number(infinity | 1 << (format.fraction - 1));
    // A zero has the sign of its reciprocal.
    let one = like(call, wide, 1.0);
    let reciprocal = call.call("divide", &[one, wide.into()])?;
    let below = with_number(call, "less", wide, 0.0)?;
    let beneath = with_number(call, "less", reciprocal, 0.0)?;
    let negative = binary(call, "logical_or", below, beneath)?;
    let signed = int(call, "add", bits, 1 << format.sign())?;
    let bits = select(call, negative, signed, bits)?;
    select(call, unknown, quiet, bits)
}

/// The floats that integers are the bits of, as f64.
fn of_bits(call: &mut Call, x: V, format: &Format) -> Done<V> {
    let mask = (1 << (format.sign() + 1)) - 1;
    let bits = convert(call, x, DType::I64)?;
    let bits = int(call, "bitwise_and", bits, mask)?;
    let sign = int(call, "right_shift", bits, format.sign())?;
    let rest = int(call, "right_shift", bits, format.fraction)?;
    let exponent = int(call, "bitwise_and", rest, format.special())?;
    let fraction = int(call, "bitwise_and", bits, (1 << format.fraction) - 1)?;
    let is_special = int(call, "equal", exponent, format.special())?;
    let is_small = int(call, "equal", exponent, 0)?;
    let whole = int(call, "add", fraction, 1 << format.fraction)?;
    let digits = select(call, is_small, fraction, whole)?;
    let digits = convert(call, digits, DType::F64)?;
    let steps = int(call, "maximum", exponent, 1)?;
    let steps = int(call, "subtract", steps, format.bias + format.fraction)?;
    let steps = convert(call, steps, DType::F64)?;
    let scale = power_of_two(call, steps)?;
    let size = binary(call, "multiply", digits, scale)?;
    let is_exact = int(call, "equal", fraction, 0)?;
    let number = |value: f64| Arg::Scalar(DType::F64, Number::Float(value));
    let infinite = call.call("full_like", &[size.into(), number(f64::INFINITY)])?;
    let special = select(call, is_exact, infinite, number(f64::NAN))?;
    let size = select(call, is_special, special, size)?;
    let negative = call.call("negative", &[size.into()])?;
    let is_negative = int(call, "equal", sign, 1)?;
    select(call, is_negative, negative, size)
}

/// How many bits are set: of pairs, of four, of eight, then of all.
fn count(call: &mut Call, x: V) -> Done<V> {
    let own = call.dtype(x);
    if !own.is_integer() || own == DType::Bool {
        return unsupported(format!("of {own}"));
    }
    let wide = convert(call, x, DType::I64)?;
    let mut sum = None;
    for half in 0..own.size().div_ceil(4) {
        let width = 8 * own.size().min(4);
        let bits = int(call, "right_shift", wide, 32 * half as i64)?;
        let bits = int(call, "bitwise_and", bits, (1 << width) - 1)?;
        let mut bits = bits;
        for (shift, mask) in [(1, 0x5555_5555), (2, 0x3333_3333), (4, 0x0f0f_0f0f)] {
            let low = int(call, "bitwise_and", bits, mask)?;
            let high = int(call, "right_shift", bits, shift)?;
            let high = int(call, "bitwise_and", high, mask)?;
            bits = binary(call, "add", low, high)?;
        }
        let bytes = int(call, "multiply", bits, 0x0101_0101)?;
        let bytes = int(call, "right_shift", bytes, 24)?;
        let counted = int(call, "bitwise_and", bytes, 0xff)?;
        sum = Some(match sum {
            None => counted,
            Some(sum) => binary(call, "add", sum, counted)?,
        });
    }
    match sum {
        Some(sum) => convert(call, sum, own),
        None => unsupported("elements without bits"),
    }
}
