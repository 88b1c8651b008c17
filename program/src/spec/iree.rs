//! IREE's literals: `2x3xf32=1 2 3 4 5 6`, `2x2xi32=[1 2][3 4]`, `7x1024xf32=1` (one value for all), `4xf32`
//! (zeros), `f32=2` (a scalar).

use super::fill::shape_within;
use ndarray::{ArrayD, IxDyn};
use relax_semantics::round::integer_range;
use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::value::Value;
use relax_syntax::dtype::DType;

/// Reads a value; `None` when the text does not begin like one, so that it is something else.
pub(super) fn read(text: &str, max_bytes: u64) -> Option<Result<Value, String>> {
    let (head, elements) = match text.split_once('=') {
        Some((head, elements)) => (head.trim(), Some(elements)),
        None => (text, None),
    };
    let mut parts: Vec<&str> = head.split('x').collect();
    let dtype = DType::parse(parts.pop()?)?;
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !parts.iter().all(is_number) || (parts.is_empty() && elements.is_none()) {
        return None;
    }
    Some(tensor(&parts, dtype, elements, max_bytes).map(Value::Tensor))
}

fn tensor(
    dims: &[&str],
    dtype: DType,
    elements: Option<&str>,
    max_bytes: u64,
) -> Result<Tensor, String> {
    let dim = |text: &&str| {
        text.parse::<i64>().map_err(|_| format!("the dim {text} is beyond the range of i64"))
    };
    let dims: Vec<i64> = dims.iter().map(dim).collect::<Result<_, _>>()?;
    let shape = shape_within(&dims, dtype, max_bytes)?;
    let count: usize = shape.iter().product();
    let words = elements.unwrap_or("0").split(|c: char| c.is_whitespace() || "[],".contains(c));
    let numbers: Vec<Number> =
        words.filter(|w| !w.is_empty()).map(|w| number(w, dtype)).collect::<Result<_, _>>()?;
    match numbers.as_slice() {
        [one] => Ok(Tensor::full(dtype, &shape, *one)),
        several if several.len() == count => Ok(listed(dtype, &shape, several)),
        several => Err(format!(
            "expected {count} elements for the dims {dims:?}, or one for all, found {}",
            several.len()
        )),
    }
}

fn listed(dtype: DType, shape: &[usize], numbers: &[Number]) -> Tensor {
    let same_length = "invariant: as many numbers as the product of the shape";
    if dtype.is_float() {
        let values = numbers.iter().map(|number| number.as_f64()).collect();
        Tensor::from_floats(dtype, ArrayD::from_shape_vec(IxDyn(shape), values).expect(same_length))
    } else {
        let ints = numbers.iter().map(|number| match number {
            Number::Int(value) => *value,
            Number::Float(value) => *value as i128,
        });
        let values = ints.collect();
        Tensor::from_ints(dtype, ArrayD::from_shape_vec(IxDyn(shape), values).expect(same_length))
    }
}

fn number(word: &str, dtype: DType) -> Result<Number, String> {
    let refuse = || format!("`{word}` is no element of dtype {dtype}");
    if dtype.is_float() {
        return word.parse().map(Number::Float).map_err(|_| refuse());
    }
    let value: i128 = match word {
        "true" | "True" => 1,
        "false" | "False" => 0,
        _ => word.parse().map_err(|_| refuse())?,
    };
    let (low, high) = integer_range(dtype);
    if (low..=high).contains(&value) { Ok(Number::Int(value)) } else { Err(refuse()) }
}
