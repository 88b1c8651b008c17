//! Floats as small integers with a scale and a zero point, and back.

use super::Request;
use super::builder::{Buffer, Builder};
use super::movement::stretched;
use relax_semantics::formula::Scalar;
use relax_semantics::ops::normalize_axis;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::{Class, DType};
use relax_syntax::ir::tensor::Intrinsic;

/// `quantize` and `dequantize`
pub(super) fn quantization(request: &Request) -> Option<Builder> {
    let mut builder = Builder::new(request);
    let (data, output) = (builder.input("data")?, builder.output());
    let (scale, zero) = (builder.input("scale")?, builder.input("zero_point")?);
    let axis = request.int("axis")?;
    let channel = normalize_axis(axis, data.rank());
    let is_known = [&scale, &zero].iter().all(|parameter| {
        parameter.rank() == 1 || parameter.dims.iter().all(|dim| *dim == Dim::Int(1))
    });
    if !is_known {
        return None;
    }
    let (is_back, out) = (request.row.name == "dequantize", output.dtype);
    builder.fill(&output, |at| {
        let x = data.wide(at);
        let [scale_at, zero_at] =
            [&scale, &zero].map(|parameter| parameter.wide(&place(parameter, &data, channel, at)));
        let value = if is_back {
            limited((x - zero_at) * scale_at, out)
        } else {
            let common = common_dtype(data.dtype, scale.dtype);
            let quotient = (x / scale_at).cast(DType::F64, common).cast(common, DType::F64);
            let (low, high) = range(out);
            (quotient.call(Intrinsic::Round) + zero_at).clamped(low, high)
        };
        value.cast(DType::F64, out)
    });
    Some(builder)
}

/// Where a parameter is read: by the channel, or its only element.
fn place(parameter: &Buffer, data: &Buffer, channel: Option<usize>, at: &[Scalar]) -> Vec<Scalar> {
    match (parameter.dims.as_slice(), channel) {
        ([own], Some(axis)) => vec![stretched(own, &data.dims[axis], &at[axis])],
        (dims, _) => vec![0.into(); dims.len()],
    }
}

/// The dtype in which floats of two dtypes are divided.
fn common_dtype(a: DType, b: DType) -> DType {
    match (a, b) {
        _ if a == b => a,
        (DType::F64, _) | (_, DType::F64) => DType::F64,
        _ => DType::F32,
    }
}

/// In the narrowest dtypes no farther than the largest finite number.
fn limited(value: Scalar, dtype: DType) -> Scalar {
    let largest = match dtype {
        DType::F16 => 65504.0,
        // (2 - 2⁻⁷) * 2¹²⁷
        DType::BF16 => (2.0 - 2f64.powi(-7)) * 2f64.powi(127),
        _ => return value,
    };
    value.clamped(-largest, largest)
}

/// The least and greatest value of an integer dtype of at most 16 bits.
fn range(dtype: DType) -> (f64, f64) {
    let bits = i32::try_from(dtype.size() * 8).unwrap_or(16);
    match dtype.class() {
        Class::Signed => (-(2f64.powi(bits - 1)), 2f64.powi(bits - 1) - 1.0),
        _ => (0.0, 2f64.powi(bits) - 1.0),
    }
}
