//! Floats as small integers with a scale and a zero point, and back.

use super::elementwise::{Element, Elementwise};
use super::{
    Constraint, Effect, Evaluate, Family, Infer, Kind, Literal, Operator, Param, Reject, Traps,
    constraint, optional, required,
};
use crate::formula::Scalar;
use crate::ops::Programs;
use crate::round::integer_range;
use half::{bf16, f16};
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::tensor::Intrinsic;

const ZERO_POINT: Constraint =
    constraint("C3", "zero_point has an integer dtype of at most 32 bits, or f16");
const AXIS: Constraint = constraint("C5", "axis is an axis of data");
const CHANNELS: Constraint = constraint(
    "C6",
    "scale and zero_point each have one element, or are vectors with one for each index of the axis",
);
const SCALE: Constraint = constraint("C2", "scale is a float tensor");

pub(super) static OPERATORS: &[Operator] = &[
    Operator {
        name: "dequantize",
        aliases: &[],
        family: Family::Quantization,
        doc: "scale * (data - zero_point), with one scale and zero point for all or for each index \
              of the axis. Rounded once to out_dtype; in f16 and bf16 a result too large is the \
              largest finite number, as in TVM, where NumPy gives infinity.",
        params: PARAMS_TO_FLOAT,
        constraints: &[
            constraint("C1", "data has an integer dtype of at most 32 bits, or a float one"),
            SCALE,
            ZERO_POINT,
            constraint("C4", "out_dtype is a float dtype"),
            AXIS,
            CHANNELS,
        ],
        effect: Effect::Pure,
        traps: Traps::Never,
        infer: |infer| {
            let accepts = |dtype: DType| dtype.is_float() || is_small_integer(dtype, 4);
            deduce(infer, accepts, DType::is_float)
        },
        program: Programs::Formula,
        eval: Evaluate::Elementwise(Elementwise::by_channel(dequantize)),
    },
    Operator {
        name: "quantize",
        aliases: &[],
        family: Family::Quantization,
        doc: "round(data / scale) + zero_point limited to the range of out_dtype, with one scale and \
              zero point for all or for each index of the axis. The quotient is rounded to the dtype \
              of data (f32 if scale has another one), and then to an integer, of two the even one; \
              NaN gives 0, as in `astype`.",
        params: PARAMS_TO_INTEGER,
        constraints: &[
            constraint("C1", "data is a float tensor"),
            SCALE,
            ZERO_POINT,
            constraint("C4", "out_dtype is an integer dtype of at most 16 bits"),
            AXIS,
            CHANNELS,
        ],
        effect: Effect::Pure,
        traps: Traps::Never,
        infer: |infer| deduce(infer, DType::is_float, |dtype| is_small_integer(dtype, 2)),
        program: Programs::Formula,
        eval: Evaluate::Elementwise(Elementwise::by_channel(quantize)),
    },
];

const PARAMS_TO_INTEGER: &[Param] = &params("int8");
const PARAMS_TO_FLOAT: &[Param] = &params("float32");

const fn params(out_dtype: &'static str) -> [Param; 5] {
    [
        required("data", Kind::Tensor),
        required("scale", Kind::Tensor),
        required("zero_point", Kind::Tensor),
        optional("axis", Kind::Dim, Literal::Int(-1)),
        optional("out_dtype", Kind::DType, Literal::Str(out_dtype)),
    ]
}

fn is_small_integer(dtype: DType, bytes: usize) -> bool {
    dtype.is_integer() && dtype.size() <= bytes
}

fn deduce(
    infer: &mut Infer,
    data: fn(DType) -> bool,
    out: fn(DType) -> bool,
) -> Result<Annotation, Reject> {
    infer.require_dtype("C1", "data", data)?;
    infer.require_dtype("C2", "scale", DType::is_float)?;
    infer.require_dtype("C3", "zero_point", |d| d == DType::F16 || is_small_integer(d, 4))?;
    let dtype = infer.dtype("out_dtype")?;
    if !out(dtype) {
        let accepted: Vec<_> =
            DType::ALL.into_iter().filter(|&d| out(d)).map(DType::name).collect();
        let message = format!("`out_dtype` must be one of {}, found {dtype}", accepted.join(" "));
        return Err(Reject { param: Some("out_dtype"), ..infer.reject("C4", message) });
    }
    let extents = infer.tensor("data")?.extents;
    let axis = infer.int("axis")?;
    // A scalar has no axis: there the default, and 0, mean all of it.
    let axis = extents.rank().map(|rank| infer.axis("C5", axis, rank.max(1))).transpose()?;
    let channels = axis.and_then(|axis| extents.dims()?.get(axis).cloned());
    for param in ["scale", "zero_point"] {
        require_channels(infer, param, extents.rank(), channels.as_ref())?;
    }
    Ok(Annotation::Tensor(TensorType { extents, dtype: Some(dtype) }))
}

/// One element, or a vector of as many as data has along the axis (`channels`, where known).
fn require_channels(
    infer: &mut Infer,
    param: &'static str,
    data_rank: Option<usize>,
    channels: Option<&Dim>,
) -> Result<(), Reject> {
    let Extents::Known(dims) = infer.tensor(param)?.extents else { return Ok(()) };
    let vector = dims.len() == 1 && data_rank != Some(0);
    for dim in &dims {
        let message = || {
            let channels = channels.map_or_else(String::new, |c| format!(" or a vector of {c}"));
            let shape: Vec<_> = dims.iter().map(ToString::to_string).collect();
            format!("`{param}` must be one element{channels}, found shape ({})", shape.join(", "))
        };
        if !vector {
            infer.require_equal("C6", dim, &Dim::Int(1), message)?;
        } else if let Some(channels) = channels
            && !infer.proves_equal(dim, &Dim::Int(1))
            && !infer.proves_equal(dim, channels)
        {
            // One of both factors is 0.
            let less = |other| Dim::op(DimOp::Sub, dim.clone(), other);
            let product = Dim::op(DimOp::Mul, less(Dim::Int(1)), less(channels.clone()));
            infer.require("C6", Claim::new(product, Relation::Equal, 0), message)?;
        }
    }
    Ok(())
}

fn quantize(e: &Element) -> Option<Scalar> {
    let [x, scale, zero] = <[Scalar; 3]>::try_from(e.in_f64()).ok()?;
    let common = common_dtype(e.dtypes[0], e.dtypes[1]);
    let quotient = (x / scale).cast(DType::F64, common).cast(common, DType::F64);
    let (low, high) = integer_range(e.out);
    let level = quotient.call(Intrinsic::Round) + zero;
    Some(level.clamped(low as f64, high as f64).cast(DType::F64, e.out))
}

/// The dtype in which floats of two dtypes are divided.
fn common_dtype(a: DType, b: DType) -> DType {
    match (a, b) {
        _ if a == b => a,
        (DType::F64, _) | (_, DType::F64) => DType::F64,
        _ => DType::F32,
    }
}

fn dequantize(e: &Element) -> Option<Scalar> {
    let [x, scale, zero] = <[Scalar; 3]>::try_from(e.in_f64()).ok()?;
    let value = (x - zero) * scale;
    let largest = match e.out {
        DType::F16 => Some(f16::MAX.to_f64()),
        DType::BF16 => Some(bf16::MAX.to_f64()),
        _ => None,
    };
    let limited = match largest {
        Some(largest) => value.clamped(-largest, largest),
        None => value,
    };
    Some(limited.cast(DType::F64, e.out))
}

#[cfg(test)]
mod tests {
    use super::super::{Limits, apply, lookup};
    use super::*;
    use crate::stop::Stop;
    use crate::tensor::{Number, Tensor};
    use crate::value::Value;

    fn trap_of(axis: i64, out_dtype: &str, scales: &[usize]) -> String {
        let data = Tensor::full(DType::F32, &[2, 3], Number::Int(1));
        let scale = Tensor::full(DType::F32, scales, Number::Int(1));
        let zero = Tensor::full(DType::I8, &[], Number::Int(0));
        let args = [data, scale, zero].map(Value::Tensor).into_iter();
        let args = args.chain([Value::int(axis), Value::Str(out_dtype.into())]).collect();
        let row = lookup("quantize").expect("a row");
        match apply(row, args, Vec::new(), &Limits::default(), None) {
            Err(Stop::Trap(trap)) => trap.id,
            Err(other) => other.to_string(),
            Ok(_) => "fine".to_owned(),
        }
    }

    #[test]
    fn wild_attributes_are_refused() {
        assert_eq!(trap_of(-1, "i8", &[3]), "fine");
        assert_eq!(trap_of(-2, "i8", &[2]), "fine");
        assert_eq!(trap_of(0, "i8", &[1, 1, 1]), "fine");
        assert_eq!(trap_of(i64::MIN, "i8", &[]), "quantize/C5");
        assert_eq!(trap_of(2, "i8", &[]), "quantize/C5");
        assert_eq!(trap_of(0, "i32", &[]), "quantize/C4");
        assert_eq!(trap_of(0, "no dtype", &[]), "quantize/kind");
        assert_eq!(trap_of(0, "u8", &[3]), "quantize/C6");
        assert_eq!(trap_of(0, "u8", &[2, 1]), "quantize/C6");
        assert_eq!(trap_of(0, "u8", &[0]), "quantize/C6");
    }
}
