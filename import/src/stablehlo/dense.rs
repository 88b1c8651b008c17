//! Elements of constants: lists of literals, one literal for all, or the bytes as hexadecimal digits.

use crate::elements::{of_bytes, width};
use crate::weight::{Stored, Weight};
use ndarray::{ArrayD, IxDyn};
use relax_semantics::tensor::{Number, Tensor};
use relax_syntax::dtype::DType;
use std::sync::Arc;

/// Constants of more bytes are not decoded before somebody asks for their elements.
const DECODED: usize = 4096;

/// The largest constant that is made of one element.
const SPLAT: usize = 1 << 24;

/// The constant of a text between the angle brackets of `dense<…>`.
pub(super) fn constant(text: &str, dtype: DType, shape: &[usize]) -> Result<Weight, String> {
    let count = count(shape)?;
    let text = text.trim();
    if let Some(digits) = text.strip_prefix("\"0x").and_then(|rest| rest.strip_suffix('"')) {
        return of_digits(digits, dtype, shape);
    }
    let literals = literals(text)?;
    let full = |literal: &str| -> Result<Weight, String> {
        let one = number(literal, dtype)?;
        Ok(Weight::Computed(Arc::new(Tensor::full(dtype, shape, one))))
    };
    match literals.as_slice() {
        [] if count == 0 => Ok(Weight::Computed(Arc::new(of_bytes(dtype, shape, &[])))),
        [one] if !text.starts_with('[') => full(one),
        all if all.len() == count => {
            let shape = IxDyn(shape);
            let fits = "invariant: the elements were counted";
            let numbers = all.iter().map(|literal| number(literal, dtype));
            let tensor = if dtype.is_float() {
                let floats = numbers.map(|n| n.map(Number::as_f64)).collect::<Result<_, _>>()?;
                Tensor::from_floats(dtype, ArrayD::from_shape_vec(shape, floats).expect(fits))
            } else {
                let ints = numbers.map(|n| match n? {
                    Number::Int(value) => Ok(value),
                    Number::Float(value) => Err(format!("{value} is no integer")),
                });
                let ints = ints.collect::<Result<_, _>>()?;
                Tensor::from_ints(dtype, ArrayD::from_shape_vec(shape, ints).expect(fits))
            };
            Ok(Weight::Computed(Arc::new(tensor)))
        }
        all => Err(format!("{} elements for the shape {shape:?}", all.len())),
    }
}

/// Hexadecimal digits of the bytes, those of one element where it stands for all.
pub(super) fn of_digits(digits: &str, dtype: DType, shape: &[usize]) -> Result<Weight, String> {
    let count = count(shape)?;
    let digits = digits.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return Err("an odd number of hexadecimal digits".to_owned());
    }
    let digit = |byte: u8| (byte as char).to_digit(16);
    let mut bytes = Vec::with_capacity(digits.len() / 2);
    for pair in digits.chunks_exact(2) {
        let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else {
            return Err("a character that is no hexadecimal digit".to_owned());
        };
        bytes.push((high * 16 + low) as u8);
    }
    let width = width(dtype);
    if bytes.len() == width && count != 1 {
        if count > SPLAT {
            return Err(format!("one element for the shape {shape:?}"));
        }
        let one = of_bytes(dtype, &[], &bytes);
        return Ok(Weight::Computed(Arc::new(Tensor::full(dtype, shape, one.number(0)))));
    }
    if Some(bytes.len()) != count.checked_mul(width) {
        return Err(format!("{} bytes for the shape {shape:?} of {dtype}", bytes.len()));
    }
    if bytes.len() > DECODED {
        return Ok(Weight::Stored(Stored::new(dtype, shape.to_vec(), bytes.into())));
    }
    Ok(Weight::Computed(Arc::new(of_bytes(dtype, shape, &bytes))))
}

fn count(shape: &[usize]) -> Result<usize, String> {
    let count = shape.iter().try_fold(1_usize, |count, &extent| count.checked_mul(extent));
    count.ok_or_else(|| format!("the shape {shape:?} has too many elements"))
}

/// The literals of nested lists.
fn literals(text: &str) -> Result<Vec<&str>, String> {
    let parts = text.split(['[', ']', ',']).map(str::trim);
    let literals: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    if literals.iter().any(|part| part.starts_with('(') || part.ends_with(')')) {
        return Err("complex numbers".to_owned());
    }
    Ok(literals)
}

/// As many integers, or one that stands for all.
pub(super) fn ints(text: &str, count: usize) -> Option<Vec<i64>> {
    let literals = literals(text).ok()?;
    let ints = literals.iter().map(|literal| match *literal {
        "true" => Some(1),
        "false" => Some(0),
        digits => digits.parse().ok(),
    });
    let ints: Vec<i64> = ints.collect::<Option<_>>()?;
    match ints.as_slice() {
        [one] if count <= 4096 => Some(vec![*one; count]),
        all => (all.len() == count).then(|| all.to_vec()),
    }
}

/// A literal. Of a float, hexadecimal digits are its bits.
fn number(literal: &str, dtype: DType) -> Result<Number, String> {
    let wrong = || format!("`{literal}` is no element of {dtype}");
    if let Some(digits) = literal.strip_prefix("0x") {
        let bits = u64::from_str_radix(digits, 16).map_err(|_| wrong())?;
        let bytes = bits.to_le_bytes();
        return Ok(of_bytes(dtype, &[], &bytes[..width(dtype)]).number(0));
    }
    match literal {
        "true" => return Ok(Number::Int(1)),
        "false" => return Ok(Number::Int(0)),
        _ => {}
    }
    if dtype.is_float() {
        return literal.parse().map(Number::Float).map_err(|_| wrong());
    }
    literal.parse().map(Number::Int).map_err(|_| wrong())
}
