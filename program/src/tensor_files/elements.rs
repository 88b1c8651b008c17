//! Byte encoding of elements, in either byte order.

use half::{bf16, f16};
use ndarray::{ArrayD, IxDyn};
use relax_semantics::tensor::{Data, Tensor};
use relax_syntax::dtype::DType;
use std::borrow::Cow;
use zerocopy::IntoBytes;

/// The order of the bytes of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

/// The number of bytes that elements of a shape take; `None` when nothing could hold them.
pub(super) fn byte_count(dtype: DType, shape: &[usize]) -> Option<usize> {
    // Extents of 0 must not hide others that no address space holds.
    let hull =
        shape.iter().try_fold(dtype.size(), |all, &extent| all.checked_mul(extent.max(1)))?;
    isize::try_from(hull).ok()?;
    Some(if shape.contains(&0) { 0 } else { hull })
}

/// Builds the array of one element type from bytes.
macro_rules! read_as {
    ($element:ty, $variant:ident, $shape:expr, $bytes:expr, $order:expr) => {{
        let elements = $bytes.chunks_exact(size_of::<$element>()).map(|chunk| {
            let bytes = chunk.try_into().expect("invariant: chunks have the size of the element");
            match $order {
                Order::Little => <$element>::from_le_bytes(bytes),
                Order::Big => <$element>::from_be_bytes(bytes),
            }
        });
        let array = ArrayD::from_shape_vec(IxDyn($shape), elements.collect())
            .map_err(|_| "the bytes do not fit the shape".to_owned())?;
        Tensor::from_data(Data::$variant(array.into_shared()))
    }};
}

/// A tensor of row-major elements.
///
/// Errors when there are more or fewer bytes than the shape asks for.
pub(super) fn from_bytes(
    dtype: DType,
    shape: &[usize],
    bytes: &[u8],
    order: Order,
) -> Result<Tensor, String> {
    let expected = byte_count(dtype, shape)
        .ok_or_else(|| format!("the shape {shape:?} is beyond what a machine can hold"))?;
    if bytes.len() != expected {
        return Err(format!(
            "the shape {shape:?} of {dtype} takes {expected} bytes, found {}",
            bytes.len()
        ));
    }
    Ok(match dtype {
        DType::F16 => read_as!(f16, F16, shape, bytes, order),
        DType::BF16 => read_as!(bf16, BF16, shape, bytes, order),
        DType::F32 => read_as!(f32, F32, shape, bytes, order),
        DType::F64 => read_as!(f64, F64, shape, bytes, order),
        DType::I8 => read_as!(i8, I8, shape, bytes, order),
        DType::I16 => read_as!(i16, I16, shape, bytes, order),
        DType::I32 => read_as!(i32, I32, shape, bytes, order),
        DType::I64 => read_as!(i64, I64, shape, bytes, order),
        DType::U8 => read_as!(u8, U8, shape, bytes, order),
        DType::U16 => read_as!(u16, U16, shape, bytes, order),
        DType::U32 => read_as!(u32, U32, shape, bytes, order),
        DType::U64 => read_as!(u64, U64, shape, bytes, order),
        DType::Bool => {
            let flags = bytes.iter().map(|&byte| byte != 0).collect();
            let array = ArrayD::from_shape_vec(IxDyn(shape), flags)
                .map_err(|_| "the bytes do not fit the shape".to_owned())?;
            Tensor::from_bools(array)
        }
    })
}

/// The row-major elements, little end first; as they lie in memory where that is the same.
pub(super) fn to_bytes(tensor: &Tensor) -> Cow<'_, [u8]> {
    macro_rules! bytes {
        ($($variant:ident)*) => {
            match tensor.data() {
                $(Data::$variant(elements) => match elements.as_slice() {
                    Some(slice) if cfg!(target_endian = "little") => Cow::Borrowed(slice.as_bytes()),
                    _ => elements.iter().flat_map(|element| element.to_le_bytes()).collect(),
                },)*
                Data::Bool(flags) => flags.iter().map(|&flag| u8::from(flag)).collect(),
            }
        };
    }
    bytes!(F16 BF16 F32 F64 I8 I16 I32 I64 U8 U16 U32 U64)
}
