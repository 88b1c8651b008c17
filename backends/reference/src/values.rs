//! Values of the machine and of the interpreter.

use half::{bf16, f16};
use ndarray::{ArrayD, IxDyn};
use relax_lower::program::elements;
use relax_runtime as machine;
use relax_semantics::tensor::{Data, Number, Tensor};
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use std::sync::Arc;

/// A dtype as the machine calls it: by the same name.
pub(crate) fn dtype_to_machine(dtype: DType) -> machine::DType {
    machine::DType::parse(dtype.name()).expect("invariant: both have the same dtypes")
}

/// A dtype as the interpreter calls it: by the same name.
///
/// # Panics
/// Never: both have the same dtypes.
#[must_use]
pub fn dtype_to_semantics(dtype: machine::DType) -> DType {
    DType::parse(dtype.name()).expect("invariant: both have the same dtypes")
}

/// A tensor of the interpreter of elements as they lie in memory.
pub(crate) fn tensor_of(dtype: machine::DType, shape: &[i64], bytes: &[u8]) -> Option<Tensor> {
    let shape: Vec<usize> =
        shape.iter().map(|&dim| usize::try_from(dim).ok()).collect::<Option<_>>()?;
    macro_rules! read {
        ($variant:ident, $type:ty) => {{
            let size = size_of::<$type>();
            let element = |bytes: &[u8]| bytes.try_into().ok().map(<$type>::from_ne_bytes);
            let elements = bytes.chunks_exact(size).map(element).collect::<Option<Vec<_>>>()?;
            let array = ArrayD::from_shape_vec(IxDyn(&shape), elements).ok()?;
            Data::$variant(array.into_shared())
        }};
    }
    Some(Tensor::from_data(match dtype {
        machine::DType::F16 => read!(F16, f16),
        machine::DType::BF16 => read!(BF16, bf16),
        machine::DType::F32 => read!(F32, f32),
        machine::DType::F64 => read!(F64, f64),
        machine::DType::I8 => read!(I8, i8),
        machine::DType::I16 => read!(I16, i16),
        machine::DType::I32 => read!(I32, i32),
        machine::DType::I64 => read!(I64, i64),
        machine::DType::U8 => read!(U8, u8),
        machine::DType::U16 => read!(U16, u16),
        machine::DType::U32 => read!(U32, u32),
        machine::DType::U64 => read!(U64, u64),
        machine::DType::Bool => {
            let elements = bytes.iter().map(|&byte| byte != 0).collect();
            Data::Bool(ArrayD::from_shape_vec(IxDyn(&shape), elements).ok()?.into_shared())
        }
    }))
}

/// A value for the machine.
///
/// # Errors
/// When the machine has no such value from outside, or no memory for it.
pub fn to_machine(value: &Value) -> Result<machine::Value, String> {
    Ok(match value {
        Value::Tensor(tensor) => machine::Value::Tensor(tensor_to_machine(tensor)?),
        Value::Shape(dims) => machine::Value::Shape(dims.as_slice().into()),
        Value::Tuple(items) => {
            let items = items.iter().map(to_machine).collect::<Result<Vec<_>, _>>()?;
            let tuple = machine::Tuple::new(items).map_err(|stop| stop.to_string())?;
            machine::Value::Tuple(tuple)
        }
        Value::Prim(dtype, number) => {
            let number = match number {
                Number::Int(value) => machine::Number::Int(*value),
                Number::Float(value) => machine::Number::Float(*value),
            };
            machine::Value::Scalar(dtype_to_machine(*dtype), number)
        }
        Value::Str(text) => machine::Value::Str(text.as_str().into()),
        Value::None => machine::Value::None,
        other => return Err(format!("{} cannot be passed to the machine", other.kind())),
    })
}

fn tensor_to_machine(tensor: &Tensor) -> Result<machine::Tensor, String> {
    let shape: Vec<i64> =
        tensor.shape().iter().map(|&dim| i64::try_from(dim).unwrap_or(i64::MAX)).collect();
    let dtype = dtype_to_machine(tensor.dtype());
    let result = machine::Tensor::from_bytes(dtype, &shape, &elements(tensor))?;
    match tensor.undefined_elements() {
        None => Ok(result),
        Some(mask) => result.written_at(&mask.iter().map(|&u| u8::from(!u)).collect::<Vec<_>>()),
    }
}

/// A value for the interpreter, or to look at. `named` gives what stands for functions and for what only the
/// machine itself uses.
///
/// # Errors
/// When there is no such value.
pub fn to_semantics(
    value: &machine::Value,
    named: &mut dyn FnMut(&machine::Value) -> Option<Value>,
) -> Result<Value, String> {
    Ok(match value {
        machine::Value::Tensor(tensor) => Value::Tensor(tensor_to_semantics(tensor)?),
        machine::Value::Shape(dims) => Value::Shape(dims.to_vec()),
        machine::Value::Tuple(tuple) => {
            let items = tuple.items().iter().map(|item| to_semantics(item, named));
            Value::Tuple(items.collect::<Result<_, _>>()?)
        }
        machine::Value::Scalar(dtype, number) => {
            let number = match number {
                machine::Number::Int(value) => Number::Int(*value),
                machine::Number::Float(value) => Number::Float(*value),
            };
            Value::Prim(dtype_to_semantics(*dtype), number)
        }
        machine::Value::Str(text) => Value::Str(Name::from(&**text)),
        machine::Value::None => Value::None,
        machine::Value::Output(output) => {
            let dims = output.dims.iter().map(|&dim| Dim::Int(dim)).collect();
            let dtype = output.dtype.map(dtype_to_semantics);
            let tensor = TensorType { extents: Extents::Known(dims), dtype };
            Value::Annotation(Arc::new(Annotation::Tensor(tensor)))
        }
        other => named(other)
            .ok_or_else(|| format!("{} has no meaning outside of the machine", other.kind()))?,
    })
}

fn tensor_to_semantics(tensor: &machine::Tensor) -> Result<Tensor, String> {
    let wrong = || "a tensor of the machine has no shape".to_owned();
    let read = tensor_of(tensor.dtype(), tensor.shape(), tensor.bytes()).ok_or_else(wrong)?;
    if !tensor.is_written() {
        return Ok(Tensor::undefined(read.dtype(), read.shape()));
    }
    Ok(match tensor.written_elements() {
        None => read,
        Some(map) => read.with_undefined(map.iter().map(|&byte| byte == 0).collect()),
    })
}
