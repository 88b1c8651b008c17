//! Collectives where one worker stands for all: parts of its own tensor, and as many copies of it as there are workers.

use super::Request;
use super::builder::Builder;
use super::movement::{copy, with};
use crate::formula::Scalar;
use crate::ops::Known;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, Intrinsic};

/// `allgather(x, workers)`: x over and over along dim 0.
pub(in crate::ops) fn all_gather(request: &Request) -> Option<Builder> {
    let x = request.data()?;
    copy(request, |at| Some(with(at, 0, at[0].clone() % &x.dims[0])))
}

/// `scatter_from_worker0`: the first part, whose indices are those of the whole.
pub(in crate::ops) fn scatter(request: &Request) -> Option<Builder> {
    copy(request, |at| Some(at.to_vec()))
}

/// `all_to_all`: the first part along one axis, over and over along the other one.
pub(in crate::ops) fn all_to_all(request: &Request) -> Option<Builder> {
    let x = request.data()?;
    let (split, concat) =
        (request.axis("split_axis", x.rank())?, request.axis("concat_axis", x.rank())?);
    let own = &x.dims[concat];
    let part = match split == concat {
        true => Dim::op(DimOp::FloorDiv, own.clone(), Dim::Int(workers(request)?)),
        false => own.clone(),
    };
    copy(request, |at| Some(with(at, concat, at[concat].clone() % &part)))
}

/// `reduce_scatter`: the first part, of as many equal tensors as there are workers reduced to one.
pub(in crate::ops) fn reduce_scatter(request: &Request) -> Option<Builder> {
    let (x, workers) = (request.data()?, workers(request)?);
    match request.str("op_type")? {
        // What is not 0 is true, and stays so.
        _ if x.dtype == DType::Bool => scatter(request),
        "sum" => each(request, |x, dtype| times(x, workers, dtype)),
        "prod" if x.dtype.is_float() => each(request, |x, dtype| {
            let exponent = Scalar::from(workers as f64);
            x.cast(dtype, DType::F64).call_with(Intrinsic::Pow, &[exponent]).cast(DType::F64, dtype)
        }),
        "prod" => integer_power(request, workers),
        // The least, greatest and mean of equal numbers are that number.
        _ => scatter(request),
    }
}

fn workers(request: &Request) -> Option<i64> {
    match request.attrs.get("num_workers")? {
        Known::Dim(dim) => dim.as_int(),
        _ => None,
    }
}

/// A function of the element at the same index.
fn each(request: &Request, value: impl Fn(Scalar, DType) -> Scalar) -> Option<Builder> {
    let dtype = request.data()?.dtype;
    let mut builder = Builder::new(request);
    let (x, output) = (builder.input("x")?, builder.output());
    builder.fill(&output, |at| value(x.at(at), dtype));
    Some(builder)
}

/// A product that is rounded once; one of integers wraps.
fn times(x: Scalar, workers: i64, dtype: DType) -> Scalar {
    if dtype.is_float() {
        let product = x.cast(dtype, DType::F64) * Scalar::from(workers as f64);
        return product.cast(DType::F64, dtype);
    }
    // The cast wraps, too.
    x * Scalar::from(workers).into_dtype(dtype)
}

/// A factor for each bit of the exponent.
fn integer_power(request: &Request, exponent: i64) -> Option<Builder> {
    let mut builder = Builder::new(request);
    let (x, output) = (builder.input("x")?, builder.output());
    let squares = builder.allocate("S", &output.dims, x.dtype);
    builder.nest(&output.dims, |builder, at| {
        builder.store(&output, at, 1);
        builder.store(&squares, at, x.at(at));
        let mut left = exponent;
        while left > 0 {
            if left % 2 == 1 {
                builder.update(&output, at, BinOp::Mul, squares.at(at));
            }
            left /= 2;
            if left > 0 {
                builder.store(&squares, at, squares.at(at) * squares.at(at));
            }
        }
    });
    Some(builder)
}
