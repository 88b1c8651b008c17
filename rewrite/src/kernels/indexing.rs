//! Elements found by elements. One that is out of range stops the program with the code of the operator's
//! constraint.

use super::Request;
use super::builder::Builder;
use super::creation::number;
use super::ranking::{Order, is_before, is_equal};
use super::scalar::{Scalar, select};
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::BinOp;

/// What `take` says of an index out of range.
const OUT_OF_RANGE: &str = "an index must satisfy 0 <= index < {}, found {}";

/// `take`: indices are checked before anything is taken, as an empty result has some to check, too.
pub(super) fn take(request: &Request) -> Option<Builder> {
    let x = request.data()?;
    let axis = if request.is_none("axis") { 0 } else { request.axis("axis", x.rank())? };
    let mode = request.str("mode")?;
    let extent = x.dims[axis].as_int();
    let is_total = match mode {
        "clip" | "wrap" => extent.is_some_and(|extent| extent > 0),
        "nan" => true,
        _ => extent.is_some_and(|extent| request.lies_in("indices", 0, i128::from(extent) - 1)),
    };
    let mut builder = Builder::new(request);
    let (x, indices, output) = (builder.input("x")?, builder.input("indices")?, builder.output());
    if !is_total {
        // What is found beyond i64 has no place in a message.
        if indices.dtype == DType::U64 {
            return None;
        }
        builder.nest(&indices.dims, |builder, at| {
            let extent = Scalar::from(&x.dims[axis]);
            let mut index = || builder.bind(indices.at(at).cast(indices.dtype, DType::I64));
            let (inside, found) = match mode {
                "clip" => (extent.greater(0), Scalar::from(0)),
                "wrap" => (extent.greater(0), index()),
                _ => {
                    let index = index();
                    (index.at_least(0).and(index.less(&extent)), index)
                }
            };
            builder.check(inside, "take/C4", OUT_OF_RANGE, &[extent, found]);
        });
    }
    builder.nest(&output.dims, |builder, at| {
        let dim = Scalar::from(&x.dims[axis]);
        let own = &at[axis..axis + indices.rank()];
        let index = match mode {
            "clip" => indices.limited(own, dim - 1),
            "wrap" if indices.dtype == DType::U64 => {
                (indices.at(own) % dim.into_dtype(DType::U64)).into_dtype(DType::I64)
            }
            // One beyond i64 is negative afterwards, and out of range as before.
            _ => indices.at(own).cast(indices.dtype, DType::I64),
        };
        let index = builder.bind(if mode == "wrap" { index % &x.dims[axis] } else { index });
        let mut source = at[..axis].to_vec();
        source.push(index.clone());
        source.extend_from_slice(&at[axis + indices.rank()..]);
        let value = x.at(&source);
        // Written so that equal programs are equal values, which a literal NaN is not.
        let nan = Scalar::from(f64::INFINITY) - f64::INFINITY;
        let inside = index.at_least(0).and(index.less(&x.dims[axis]));
        let value = if mode == "nan" { select(inside, value, nan) } else { value };
        builder.store(&output, at, value);
    });
    Some(builder)
}

/// `one_hot`: an element that is no index of the new axis meets none.
pub(super) fn one_hot(request: &Request) -> Option<Builder> {
    let out = request.out();
    let axis = request.axis("axis", out.rank())?;
    let mut builder = Builder::new(request);
    let (indices, output) = (builder.input("indices")?, builder.output());
    let choice = |param: &str| match builder.input(param) {
        Some(tensor) => Some(tensor.at(&[])),
        None => number(out.dtype, request.attrs.get(param)?),
    };
    let (on, off) = (choice("on_value")?, choice("off_value")?);
    builder.fill(&output, |at| {
        let mut own = at.to_vec();
        let index = own.remove(axis);
        select(indices.at(&own).cast(indices.dtype, DType::I64).equals(index), on, off)
    });
    Some(builder)
}

/// `bucketize`: how many boundaries come before each element.
pub(super) fn bucketize(request: &Request) -> Option<Builder> {
    let right = request.bool("right")?;
    let mut builder = Builder::new(request);
    let (input, bounds) = (builder.input("input_tensor")?, builder.input("boundaries")?);
    let output = builder.output();
    builder.nest(&output.dims, |builder, at| {
        builder.store(&output, at, 0);
        builder.nest(&bounds.dims, |builder, bound| {
            let (a, b) = (bounds.at(bound), input.at(at));
            let before = is_before(input.dtype, Order::Ascending, &a, &b);
            let counts = if right { before.or(is_equal(input.dtype, &a, &b)) } else { before };
            builder.update(&output, at, BinOp::Add, select(counts, 1, 0));
        });
    });
    Some(builder)
}
