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
            Argument::Float(value) => Ok((*value).into()),
            Argument::None => Ok(default.into()),
            _ => unsupported(format!("`{name}` is a float that is computed of sizes")),
        }
    };
    let (start, end, step) =
        (bound(call, "start", 0)?, bound(call, "end", 0)?, bound(call, "step", 1)?);
    let args = match (&start, &step) {
        (Arg::Dim(Dim::Int(0)), Arg::Dim(Dim::Int(1))) => vec![end, key("dtype", dtype)],
        _ => vec![start, end, step, key("dtype", dtype)],
    };
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
