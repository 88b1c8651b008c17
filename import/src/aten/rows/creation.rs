//! Tensors out of numbers and shapes.

use crate::argument::{Arg, key};
use crate::aten::call::{Argument, Call, Row};
use crate::aten::promote::DEFAULT;
use crate::builder::V;
use crate::operators::elementwise::convert;
use crate::reason::{Done, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[
    ("arange", arange),
    ("full", |call| full(call, "fill_value")),
    ("full_like", |call| full_like(call, "fill_value")),
    ("fill.Scalar", |call| full_like(call, "value")),
    ("fill.Tensor", |call| full_like(call, "value")),
    ("scalar_tensor", scalar_tensor),
    ("zeros", |call| filled(call, 0)),
    ("ones", |call| filled(call, 1)),
    ("zeros_like", |call| filled_like(call, 0)),
    ("ones_like", |call| filled_like(call, 1)),
    ("new_zeros", |call| new_filled(call, 0)),
    ("new_ones", |call| new_filled(call, 1)),
    ("new_full", new_full),
    // Elements that PyTorch leaves undefined are zeros.
    ("empty.memory_format", |call| filled(call, 0)),
    ("empty_strided", |call| filled(call, 0)),
    ("empty_like", |call| filled_like(call, 0)),
    ("tril", |call| triangle(call, "tril")),
    ("triu", |call| triangle(call, "triu")),
];

/// The most elements of a range whose bounds are floats.
const MOST_ELEMENTS: f64 = 4_294_967_296.0;
/// The greatest whole part of a bound: multiplied by the number of elements it is an i64.
const EXACT: f64 = 1_073_741_824.0;

fn own_dtype(call: &Call, names: &[&str]) -> Done<DType> {
    if let Some(dtype) = call.dtype_of("dtype")? {
        return Ok(dtype);
    }
    let floats = names.iter().any(|name| matches!(call.argument(name), Argument::Float(_)));
    let bools = names.iter().all(|name| matches!(call.argument(name), Argument::Bool(_)));
    Ok(if floats {
        DEFAULT
    } else if bools {
        DType::Bool
    } else {
        DType::I64
    })
}

fn arange(call: &mut Call) -> Done<Vec<V>> {
    let dtype = own_dtype(call, &["start", "end", "step"])?;
    let bound = |call: &Call, name: &str, default: i64| -> Done<Arg> {
        match call.argument(name) {
            Argument::Dim(dim) => Ok(dim.clone().into()),
            Argument::Bool(value) => Ok(i64::from(*value).into()),
            Argument::Float(value) => Ok((*value).into()),
            Argument::None => Ok(default.into()),
            _ => unsupported(format!("`{name}` is a float that is computed of sizes")),
        }
    };
    let (start, end, step) =
        (bound(call, "start", 0)?, bound(call, "end", 0)?, bound(call, "step", 1)?);
    if dtype.is_integer()
        && [&start, &end, &step].iter().any(|bound| matches!(bound, Arg::Float(_)))
    {
        return whole_range(call, [start, end, step], dtype);
    }
    let args = match (&start, &step) {
        (Arg::Dim(Dim::Int(0)), Arg::Dim(Dim::Int(1))) => vec![end, key("dtype", dtype)],
        _ => vec![start, end, step, key("dtype", dtype)],
    };
    Ok(vec![call.call("arange", &args)?])
}

/// A range of integers between floats: they say how many elements it has, and their whole parts which.
fn whole_range(call: &mut Call, bounds: [Arg; 3], dtype: DType) -> Done<Vec<V>> {
    let value = |bound: &Arg| match bound {
        Arg::Float(value) => Some(*value),
        Arg::Dim(dim) => dim.as_int().map(|value| value as f64),
        _ => None,
    };
    let [Some(start), Some(end), Some(step)] = [0, 1, 2].map(|at| value(&bounds[at])) else {
        return unsupported("a range of integers between a float and a size");
    };
    let count = ((end - start) / step).ceil();
    if !(0.0..=MOST_ELEMENTS).contains(&count) || [start, step].iter().any(|x| x.abs() > EXACT) {
        return unsupported(format!("a range of integers from {start} to {end} by {step}"));
    }
    let (count, start, step) = (count as i64, start as i64, step as i64);
    if step == 0 {
        let value = call.of_number(Number::Int(start.into()), dtype);
        return Ok(vec![stretched(call, value, vec![Dim::Int(count)])?]);
    }
    let end = start + step * count;
    let args = [start.into(), end.into(), step.into(), key("dtype", dtype)];
    Ok(vec![call.call("arange", &args)?])
}

fn stretched(call: &mut Call, value: V, dims: Vec<Dim>) -> Done<V> {
    if dims.is_empty() {
        return Ok(value);
    }
    call.call_kept("full", &[Arg::Shape(dims), value.into()])
}

fn full(call: &mut Call, name: &str) -> Done<Vec<V>> {
    let dtype = own_dtype(call, &[name])?;
    let value = call.operand(name, dtype)?;
    let dims = call.dims_of("size")?;
    Ok(vec![stretched(call, value, dims)?])
}

fn full_like(call: &mut Call, name: &str) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let dtype = call.dtype_of("dtype")?.unwrap_or(call.dtype(x));
    let value = call.operand(name, dtype)?;
    let dims = call.dims(x);
    Ok(vec![stretched(call, value, dims)?])
}

fn filled(call: &mut Call, value: i128) -> Done<Vec<V>> {
    let dtype = call.dtype_of("dtype")?.unwrap_or(DEFAULT);
    let value = call.of_number(Number::Int(value), dtype);
    let dims = call.dims_of("size")?;
    Ok(vec![stretched(call, value, dims)?])
}

fn filled_like(call: &mut Call, value: i128) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let dtype = call.dtype_of("dtype")?.unwrap_or(call.dtype(x));
    let value = call.of_number(Number::Int(value), dtype);
    let dims = call.dims(x);
    Ok(vec![stretched(call, value, dims)?])
}

fn new_filled(call: &mut Call, value: i128) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let dtype = call.dtype_of("dtype")?.unwrap_or(call.dtype(x));
    let value = call.of_number(Number::Int(value), dtype);
    let dims = call.dims_of("size")?;
    Ok(vec![stretched(call, value, dims)?])
}

fn new_full(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let dtype = call.dtype_of("dtype")?.unwrap_or(call.dtype(x));
    let value = call.operand("fill_value", dtype)?;
    let dims = call.dims_of("size")?;
    Ok(vec![stretched(call, value, dims)?])
}

fn scalar_tensor(call: &mut Call) -> Done<Vec<V>> {
    let dtype = call.dtype_of("dtype")?.unwrap_or(DEFAULT);
    Ok(vec![call.operand("s", dtype)?])
}

fn triangle(call: &mut Call, operator: &str) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let own = call.dtype(x);
    let wide = if own == DType::Bool { convert(call, x, DType::U8)? } else { x };
    let k = call.dim_of("diagonal")?;
    let result = call.call(operator, &[wide.into(), key("k", k)])?;
    Ok(vec![convert(call, result, own)?])
}
