//! Arguments of calls: arrays of any library, without a copy where their memory is row-major, and Python's own values.

use crate::errors::Failure;
use crate::outputs::Tensor as Output;
use crate::strided::Strided;
use crate::{buffers, dlpack};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyString, PyTuple};
use relax_runtime::{DType, Number, Parameter, Tensor, Tuple, Value};
use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};

/// What was copied, of all calls of a module.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    pub(crate) arguments: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// Tuples in tuples.
const MAX_DEPTH: u32 = 64;

/// The value of an argument.
pub(crate) fn value(
    object: &Bound<'_, PyAny>,
    parameter: &Parameter,
    copies: &Copies,
) -> Result<Value, Failure> {
    nested(object, parameter, copies, 0)
}

fn nested(
    object: &Bound<'_, PyAny>,
    parameter: &Parameter,
    copies: &Copies,
    depth: u32,
) -> Result<Value, Failure> {
    if let Ok(own) = object.cast::<Output>() {
        return Ok(Value::Tensor(own.get().inner().clone()));
    }
    if buffers::is_buffer(object) {
        return array(object, copies).map(Value::Tensor);
    }
    if object.is_none() {
        return Ok(Value::None);
    }
    if let Some(value) = scalar(object, parameter)? {
        return Ok(value);
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Value::Str(text.to_string_lossy().as_ref().into()));
    }
    let items: Option<Vec<Bound<'_, PyAny>>> = match object.cast::<PyTuple>() {
        Ok(tuple) => Some(tuple.iter().collect()),
        Err(_) => object.cast::<PyList>().ok().map(|list| list.iter().collect()),
    };
    match items {
        Some(items) => sequence(&items, parameter, copies, depth),
        None => array(object, copies).map(Value::Tensor),
    }
}

/// A shape where one is expected; a tuple else.
fn sequence(
    items: &[Bound<'_, PyAny>],
    parameter: &Parameter,
    copies: &Copies,
    depth: u32,
) -> Result<Value, Failure> {
    if parameter.annotation.starts_with("Tensor") {
        return Err(Failure::argument(
            "expected an array, found a tuple or list: give `numpy.asarray(…)` of it",
        ));
    }
    if parameter.annotation.starts_with("Shape") {
        let dims: Result<Vec<i64>, PyErr> = items.iter().map(|item| item.extract()).collect();
        let dims = dims.map_err(|error| Failure::argument(format!("a shape has ints: {error}")))?;
        if dims.iter().any(|&dim| dim < 0) {
            return Err(Failure::argument(format!("a shape has no negative dim: {dims:?}")));
        }
        return Ok(Value::Shape(dims.into()));
    }
    if depth >= MAX_DEPTH {
        return Err(Failure::argument(format!("tuples are more than {MAX_DEPTH} deep")));
    }
    let own = Parameter { annotation: "Object".to_owned(), dtype: None, ..parameter.clone() };
    let values = items.iter().map(|item| nested(item, &own, copies, depth + 1));
    let values = values.collect::<Result<Vec<_>, _>>()?;
    let tuple = Tuple::new(values).map_err(|stop| Failure::argument(stop.to_string()))?;
    Ok(Value::Tuple(tuple))
}

/// A number of Python: a tensor of rank 0 where one is expected, a scalar else.
fn scalar(object: &Bound<'_, PyAny>, parameter: &Parameter) -> Result<Option<Value>, Failure> {
    let number = if let Ok(flag) = object.cast_exact::<PyBool>() {
        (Number::Int(flag.is_true().into()), DType::Bool)
    } else if let Ok(float) = object.cast::<PyFloat>() {
        (Number::Float(float.value()), DType::F64)
    } else if let Ok(int) = object.cast::<PyInt>() {
        let int: i128 =
            int.extract().map_err(|_| Failure::argument("the integer has more than 127 bits"))?;
        (Number::Int(int), DType::I64)
    } else {
        return Ok(None);
    };
    let (number, own) = number;
    let stated =
        DType::ALL.into_iter().find(|dtype| parameter.annotation == format!("Prim(\"{dtype}\")"));
    if parameter.dtype.is_none() && !parameter.annotation.starts_with("Tensor") {
        return cast(number, stated.unwrap_or(own))
            .map(|(number, dtype)| Some(Value::Scalar(dtype, number)));
    }
    let (number, dtype) = cast(number, parameter.dtype.unwrap_or(own))?;
    let bytes = bytes_of(number, dtype);
    let tensor = Tensor::from_bytes(dtype, &[], &bytes).map_err(Failure::argument)?;
    Ok(Some(Value::Tensor(tensor)))
}

/// A number in the domain of a dtype. An integer may be a float; a float is no integer.
fn cast(number: Number, dtype: DType) -> Result<(Number, DType), Failure> {
    let number = match (number, dtype.is_float()) {
        (Number::Int(int), true) => Number::Float(int as f64),
        (Number::Float(float), false) => {
            return Err(Failure::argument(format!("{float:?} is a float, expected {dtype}")));
        }
        (number, _) => number,
    };
    if let Number::Int(int) = number {
        let bits = 8 * dtype.size() as u32;
        let (low, high) = match dtype {
            DType::Bool => (0, 1),
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => (0, (1_i128 << bits) - 1),
            _ => (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
        };
        if !(low..=high).contains(&int) {
            return Err(Failure::argument(format!("{int} is not in the range of {dtype}")));
        }
    }
    Ok((number, dtype))
}

fn bytes_of(number: Number, dtype: DType) -> Vec<u8> {
    match (number, dtype) {
        (Number::Float(float), DType::F64) => float.to_ne_bytes().to_vec(),
        (Number::Float(float), DType::F16) => half::f16::from_f64(float).to_ne_bytes().to_vec(),
        (Number::Float(float), DType::BF16) => half::bf16::from_f64(float).to_ne_bytes().to_vec(),
        (Number::Float(float), _) => (float as f32).to_ne_bytes().to_vec(),
        (Number::Int(int), _) if cfg!(target_endian = "little") => {
            int.to_le_bytes()[..dtype.size()].to_vec()
        }
        (Number::Int(int), _) => int.to_be_bytes()[16 - dtype.size()..].to_vec(),
    }
}

/// The tensor of an array. It is lent where it is row-major and aligned, and copied else.
pub(crate) fn array(object: &Bound<'_, PyAny>, copies: &Copies) -> Result<Tensor, Failure> {
    if buffers::is_buffer(object) {
        let (strided, loan) = match buffers::lent(object, None) {
            Err(_) if is_bfloat16(object) => {
                let bits = object.call_method1("view", ("uint16",));
                let bits = bits.map_err(|error| Failure::argument(format!("{error}")))?;
                buffers::lent(&bits, Some(DType::BF16))?
            }
            other => other?,
        };
        return tensor(strided, Box::new(loan), copies);
    }
    if let Some((strided, loan)) = dlpack::taken(object)? {
        return tensor(strided, Box::new(loan), copies);
    }
    if object.hasattr("__array__").unwrap_or(false) {
        let made = object.call_method0("__array__");
        let made = made.map_err(|error| Failure::argument(format!("{error}")))?;
        if buffers::is_buffer(&made) {
            let (strided, loan) = buffers::lent(&made, None)?;
            return tensor(strided, Box::new(loan), copies);
        }
    }
    let kind = object.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    Err(Failure::argument(format!(
        "expected an array that lends its memory by the buffer protocol or DLPack, found `{kind}`"
    )))
}

/// NumPy's extension type of `ml_dtypes`, for which the buffer protocol has no format.
fn is_bfloat16(object: &Bound<'_, PyAny>) -> bool {
    let Ok(dtype) = object.getattr("dtype") else { return false };
    dtype.getattr("name").is_ok_and(|name| name.extract::<&str>().is_ok_and(|n| n == "bfloat16"))
}

fn tensor(
    strided: Strided,
    loan: Box<dyn Any + Send + Sync>,
    copies: &Copies,
) -> Result<Tensor, Failure> {
    if strided.is_empty() {
        return Tensor::zeros(strided.dtype, &strided.shape).map_err(Failure::argument);
    }
    if strided.is_dense() {
        // SAFETY: the loan keeps the elements where they are, and the package's pages tell callers not to write to an argument
        // while a call or a result uses it.
        let lent = unsafe { Tensor::lent(strided.dtype, &strided.shape, strided.data, loan) };
        return lent.map_err(Failure::argument);
    }
    // SAFETY: the loan lives until the copy is made.
    let bytes = unsafe { strided.copied() };
    let bytes = bytes.ok_or_else(|| Failure::argument("there is no memory for a copy"))?;
    drop(loan);
    copies.arguments.fetch_add(1, Ordering::Relaxed);
    copies.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    Tensor::from_bytes(strided.dtype, &strided.shape, &bytes).map_err(Failure::argument)
}
