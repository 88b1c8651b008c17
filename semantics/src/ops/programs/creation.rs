//! Tensors from shapes and numbers: programs without inputs, or with a scalar.

use super::Request;
use super::builder::Builder;
use crate::formula::{Scalar, select};
use crate::ops::Known;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

/// One value everywhere.
/// A tensor of one value.
pub(in crate::ops) fn constant(request: &Request) -> Option<Builder> {
    let mut builder = Builder::new(request);
    let output = builder.output();
    let fill = builder.input("fill_value");
    let value = match (request.row.name, fill) {
        (name, _) if name.starts_with("zeros") => number(output.dtype, &Known::Dim(Dim::Int(0)))?,
        (name, _) if name.starts_with("ones") => number(output.dtype, &Known::Dim(Dim::Int(1)))?,
        (_, Some(fill)) => fill.at(&[]).cast(fill.dtype, output.dtype),
        _ => match request.attrs.get("fill_value")? {
            Known::Dim(Dim::Int(value)) => number(output.dtype, &Known::Dim(Dim::Int(*value)))?,
            Known::Dim(_) => request.number("fill_value")?.cast(DType::I64, output.dtype),
            known => number(output.dtype, known)?,
        },
    };
    builder.fill(&output, |_| value);
    Some(builder)
}

/// A number of the text in a dtype, as `astype` converts it.
pub(super) fn number(dtype: DType, known: &Known) -> Option<Scalar> {
    let value = match known {
        Known::Dim(Dim::Int(value)) => return Some(integer(dtype, *value)),
        Known::Bool(value) => return Some(integer(dtype, i64::from(*value))),
        Known::Float(value) => *value,
        _ => return None,
    };
    Some(match dtype {
        DType::Bool => (value != 0.0).into(),
        // Converted when the program runs: limited to the range of the dtype.
        _ if !dtype.is_float() => Scalar::from(value).into_dtype(dtype),
        _ => value.into(),
    })
}

/// An integer as a number of a dtype.
pub(super) fn integer(dtype: DType, value: i64) -> Scalar {
    match dtype {
        DType::Bool => (value != 0).into(),
        // Not every integer is a number of a narrower dtype.
        _ if !dtype.is_float() && dtype != DType::I64 && !(0..=127).contains(&value) => {
            Scalar::from(value).into_dtype(dtype)
        }
        _ if dtype.is_float() && value.unsigned_abs() < 1 << 53 => (value as f64).into(),
        _ => value.into(),
    }
}

/// `start + i * step`
pub(in crate::ops) fn arange(request: &Request) -> Option<Builder> {
    let is_number =
        |name: &str| matches!(request.attrs.get(name), Some(Known::Dim(_) | Known::Float(_)));
    if !is_number("start") || !is_number("step") {
        return None;
    }
    let zero = Known::Dim(Dim::Int(0));
    let start = if request.is_none("end") { &zero } else { request.attrs.get("start")? };
    let step = request.attrs.get("step")?;
    let mut builder = Builder::new(request);
    let output = builder.output();
    let exact = [start, step].iter().all(|known| matches!(known, Known::Dim(_)));
    let scalar = |known: &Known| match known {
        Known::Dim(dim) if exact => request.index(dim),
        Known::Dim(dim) => wide(request.index(dim)),
        Known::Float(value) => (*value).into(),
        _ => 0.into(),
    };
    let (start, step) = (scalar(start), scalar(step));
    builder.fill(&output, |at| {
        let index = at[0].clone();
        if exact {
            (start + index * step).cast(DType::I64, output.dtype)
        } else {
            (start + wide(index) * step).cast(DType::F64, output.dtype)
        }
    });
    Some(builder)
}

fn wide(index: Scalar) -> Scalar {
    index.into_dtype(DType::F64)
}

/// `eye` and `eye_like`
pub(in crate::ops) fn eye(request: &Request) -> Option<Builder> {
    let k = request.number("k")?;
    let mut builder = Builder::new(request);
    let output = builder.output();
    builder.fill(&output, |at| {
        let on = (at[1].clone() - &at[0]).equals(k);
        if output.dtype == DType::Bool {
            return on;
        }
        select(on, integer(output.dtype, 1), integer(output.dtype, 0))
    });
    Some(builder)
}

/// `size(x)`: the product of dims modulo 2⁶⁴, for in i64 a factor may leave it before another one is 0.
pub(in crate::ops) fn size(request: &Request) -> Option<Builder> {
    let mut builder = Builder::new(request);
    let (x, output) = (builder.input("expr")?, builder.output());
    let factors = x.dims.iter().map(|dim| Scalar::from(dim).into_dtype(DType::U64));
    let product = factors.reduce(|a, b| a * b);
    let value = product.map_or(1.into(), |product| product.into_dtype(DType::I64));
    builder.fill(&output, |_| value);
    Some(builder)
}

/// `shape_to_tensor(s)`: a store for each dim.
pub(in crate::ops) fn dims(request: &Request) -> Option<Builder> {
    let dims = request.indices("expr")?;
    let mut builder = Builder::new(request);
    let output = builder.output();
    for (at, dim) in (0..).zip(dims) {
        builder.nest(&[], |builder, _| builder.store(&output, &[Scalar::from(at)], dim));
    }
    Some(builder)
}
