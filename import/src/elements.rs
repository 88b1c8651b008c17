//! Tensors of a model: their dtype, and their elements out of raw bytes, typed fields or a file beside
//! the model. What the dims claim is held against the bytes that are there before anything is allocated.

use crate::beside::Beside;
use crate::proto;
use crate::reason::{Done, Reason};
use crate::weight::{Stored, Weight};
use half::{bf16, f16};
use ndarray::{ArrayD, IxDyn};
use prost::bytes::Bytes;
use relax_semantics::tensor::Tensor;
use relax_syntax::dtype::DType;
use std::sync::Arc;

/// The value of `data_location` for data outside of the model.
pub(crate) const EXTERNAL: i32 = 1;

/// The dtype of a number of `TensorProto.DataType`.
pub(crate) fn dtype(number: i32) -> Done<DType> {
    Ok(match number {
        1 => DType::F32,
        2 => DType::U8,
        3 => DType::I8,
        4 => DType::U16,
        5 => DType::I16,
        6 => DType::I32,
        7 => DType::I64,
        9 => DType::Bool,
        10 => DType::F16,
        11 => DType::F64,
        12 => DType::U32,
        13 => DType::U64,
        16 => DType::BF16,
        other => return Err(Reason::Unsupported(format!("the dtype {}", foreign(other)))),
    })
}

/// The name of a dtype: the language's where it has it, else ONNX's.
pub(crate) fn name_of(number: i32) -> String {
    dtype(number).map_or_else(|_| foreign(number), |dtype| dtype.name().to_owned())
}

/// The name of a dtype that the language does not have.
fn foreign(number: i32) -> String {
    let name = match number {
        0 => "undefined",
        8 => "string",
        14 => "complex64",
        15 => "complex128",
        17 => "float8e4m3fn",
        18 => "float8e4m3fnuz",
        19 => "float8e5m2",
        20 => "float8e5m2fnuz",
        23 => "float4e2m1",
        24 => "float8e8m0",
        other => return format!("number {other}"),
    };
    name.to_owned()
}

/// The value of a tensor message.
pub(crate) fn tensor(message: &proto::Tensor, beside: Option<Beside>) -> Done<Tensor> {
    weight(message, beside, 0).map(|weight| match weight {
        Weight::Computed(tensor) => Arc::unwrap_or_clone(tensor),
        Weight::Stored(stored) => stored.tensor(),
    })
}

/// As [`tensor`], but what has more than so many elements stays as it lies in the model, where it lies there as bytes.
pub(crate) fn weight(
    message: &proto::Tensor,
    beside: Option<Beside>,
    decoded: usize,
) -> Done<Weight> {
    let dtype = dtype(message.data_type.unwrap_or(0))?;
    let (shape, count) = shape(message)?;
    if message.data_location == Some(EXTERNAL) {
        let beside =
            beside.ok_or_else(|| wrong(message, "its data lies in a file beside the model"))?;
        let bytes = beside.external(message, dtype, count)?;
        return Ok(of_model(dtype, shape, bytes.into(), decoded));
    }
    if let Some(raw) = &message.raw_data {
        let expected = count.checked_mul(width(dtype));
        if expected != Some(raw.len()) {
            let why = format!(
                "its dims {:?} of {dtype} do not take the {} bytes that it has",
                message.dims,
                raw.len()
            );
            return Err(wrong(message, why));
        }
        return Ok(of_model(dtype, shape, raw.clone(), decoded));
    }
    of_fields(message, dtype, &shape, count).map(|tensor| Weight::Computed(Arc::new(tensor)))
}

fn of_model(dtype: DType, shape: Vec<usize>, bytes: Bytes, decoded: usize) -> Weight {
    if bytes.len() / width(dtype) > decoded {
        return Weight::Stored(Stored::new(dtype, shape, bytes));
    }
    Weight::Computed(Arc::new(of_bytes(dtype, &shape, &bytes)))
}

pub(crate) fn wrong(message: &proto::Tensor, why: impl std::fmt::Display) -> Reason {
    let name = message.name.as_deref().unwrap_or_default();
    Reason::Invalid(format!("the tensor `{name}`: {why}"))
}

/// The dims of a message, and how many elements they take.
pub(crate) fn shape(message: &proto::Tensor) -> Done<(Vec<usize>, usize)> {
    let extents = message.dims.iter().map(|&dim| usize::try_from(dim));
    let shape = extents.collect::<Result<Vec<usize>, _>>();
    let shape = shape.map_err(|_| wrong(message, "a dim is negative"))?;
    let count = shape.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent));
    let count = count.ok_or_else(|| wrong(message, "its dims are too large"))?;
    Ok((shape, count))
}

/// Bytes of one element.
pub(crate) fn width(dtype: DType) -> usize {
    match dtype {
        DType::F64 | DType::I64 | DType::U64 => 8,
        DType::F32 | DType::I32 | DType::U32 => 4,
        DType::F16 | DType::BF16 | DType::I16 | DType::U16 => 2,
        DType::I8 | DType::U8 | DType::Bool => 1,
    }
}

/// Elements out of little-endian bytes, whose number was checked.
pub(crate) fn of_bytes(dtype: DType, shape: &[usize], bytes: &[u8]) -> Tensor {
    use relax_semantics::tensor::Data;
    macro_rules! read {
        ($variant:ident, $of:expr, $width:literal) => {{
            let of = $of;
            let elements = bytes.chunks_exact($width).map(|chunk| {
                of(<[u8; $width]>::try_from(chunk).expect("invariant: chunks have this width"))
            });
            Data::$variant(array(shape, elements.collect()).into_shared())
        }};
    }
    Tensor::from_data(match dtype {
        DType::F16 => read!(F16, f16::from_le_bytes, 2),
        DType::BF16 => read!(BF16, bf16::from_le_bytes, 2),
        DType::F32 => read!(F32, f32::from_le_bytes, 4),
        DType::F64 => read!(F64, f64::from_le_bytes, 8),
        DType::I8 => read!(I8, i8::from_le_bytes, 1),
        DType::I16 => read!(I16, i16::from_le_bytes, 2),
        DType::I32 => read!(I32, i32::from_le_bytes, 4),
        DType::I64 => read!(I64, i64::from_le_bytes, 8),
        DType::U8 => read!(U8, u8::from_le_bytes, 1),
        DType::U16 => read!(U16, u16::from_le_bytes, 2),
        DType::U32 => read!(U32, u32::from_le_bytes, 4),
        DType::U64 => read!(U64, u64::from_le_bytes, 8),
        DType::Bool => read!(Bool, |byte: [u8; 1]| byte[0] != 0, 1),
    })
}

fn array<T>(shape: &[usize], elements: Vec<T>) -> ArrayD<T> {
    ArrayD::from_shape_vec(IxDyn(shape), elements)
        .expect("invariant: the number of elements was held against the dims")
}

/// Elements out of the typed fields: narrow dtypes share `int32_data`, halves lie there as bits.
fn of_fields(message: &proto::Tensor, dtype: DType, shape: &[usize], count: usize) -> Done<Tensor> {
    let found = match dtype {
        DType::F32 => message.float_data.len(),
        DType::F64 => message.double_data.len(),
        DType::I64 => message.int64_data.len(),
        DType::U64 | DType::U32 => message.uint64_data.len(),
        _ => message.int32_data.len(),
    };
    if found != count {
        let why =
            format!("its dims {:?} do not take the {found} elements that it has", message.dims);
        return Err(wrong(message, why));
    }
    let small = |of: &dyn Fn(u16) -> f64| {
        let bits = message.int32_data.iter().map(|&bits| of(bits as u16));
        Tensor::from_floats(dtype, array(shape, bits.collect()))
    };
    let ints = |values: Vec<i128>| Tensor::from_ints(dtype, array(shape, values));
    Ok(match dtype {
        DType::F32 => {
            let floats = message.float_data.iter().map(|&value| f64::from(value));
            Tensor::from_floats(dtype, array(shape, floats.collect()))
        }
        DType::F64 => Tensor::from_floats(dtype, array(shape, message.double_data.clone())),
        DType::F16 => small(&|bits| f16::from_bits(bits).to_f64()),
        DType::BF16 => small(&|bits| bf16::from_bits(bits).to_f64()),
        DType::I64 => ints(message.int64_data.iter().map(|&value| value.into()).collect()),
        DType::U64 | DType::U32 => {
            ints(message.uint64_data.iter().map(|&value| value.into()).collect())
        }
        _ => ints(message.int32_data.iter().map(|&value| value.into()).collect()),
    })
}
