//! Elementwise operators: one loop nest over the result, operands broadcast by their indices.
//!
//! The scalar is the formula of the operator's row, so the result is that of the operator bit for bit.

use super::Request;
use super::builder::{Buffer, Builder};
use super::movement::{broadcast_index, stretched};
use crate::formula::Scalar;
use crate::ops::{Element, Elementwise, Layout, Partial, normalize_axis};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::BinOp;

/// One store for each element of the result, of the formula of the operands' elements.
pub(super) fn elementwise(request: &Request, own: &Elementwise) -> Option<Builder> {
    let (dtype, out) = (request.data()?.dtype, request.out().dtype);
    let dtypes: Vec<DType> = request.inputs.iter().map(|input| input.spec.dtype).collect();
    let partial = own.partial.filter(|partial| {
        let covers = |low, high| partial.defined.covers(dtype, low, high);
        !dtype.is_float() && !request.lies_in("x2", covers)
    });
    let builder = Builder::new(request);
    nest(request, builder, (own.layout, partial), |builder, output, at, operands| {
        let attrs = &request.attrs;
        let element = Element { operands, dtypes: &dtypes, dtype, out, attrs };
        (own.formula)(&element).map(|value| builder.store(output, at, value))
    })
}

/// Statements for each element of the result, of the operands' elements. Integers without a result are a
/// trap, with their place.
fn nest(
    request: &Request,
    mut builder: Builder,
    (layout, partial): (Layout, Option<Partial>),
    write: impl FnOnce(&mut Builder, &Buffer, &[Scalar], &[Scalar]) -> Option<()>,
) -> Option<Builder> {
    let (output, mut is_known) = (builder.output(), true);
    let params: Vec<&str> = request.inputs.iter().map(|input| input.param).collect();
    let inputs: Vec<Buffer> = params.iter().filter_map(|param| builder.input(param)).collect();
    builder.nest(&output.dims, |builder, at| {
        let values = inputs.iter().enumerate().map(|(number, x)| {
            let index = match layout {
                Layout::Channels if number > 0 => channel_index(request, &x.dims, at)?,
                _ => broadcast_index(&x.dims, &output.dims, at)?,
            };
            Some(x.at(&index))
        });
        let values = values.collect::<Option<Vec<Scalar>>>().map(|values| match partial {
            Some(partial) => required(builder, request, partial, at, values),
            None => values,
        });
        is_known = values.and_then(|values| write(builder, &output, at, &values)).is_some();
    });
    is_known.then_some(builder)
}

/// The index into a vector along the axis of the call, or into the only element.
fn channel_index(request: &Request, own: &[Dim], at: &[Scalar]) -> Option<Vec<Scalar>> {
    let data = request.data()?;
    let axis = normalize_axis(request.int("axis")?, data.rank());
    match (own, axis) {
        ([own], Some(axis)) => Some(vec![stretched(own, &data.dims[axis], &at[axis])]),
        ([_], None) => Some(vec![0.into()]),
        (own, _) => own.iter().all(|dim| *dim == Dim::Int(1)).then(|| vec![0.into(); own.len()]),
    }
}

/// Names for two integers, after a check that they have a result.
fn required(
    builder: &mut Builder,
    request: &Request,
    partial: Partial,
    at: &[Scalar],
    values: Vec<Scalar>,
) -> Vec<Scalar> {
    let dtype = builder.output().dtype;
    let values: Vec<Scalar> = values.into_iter().map(|value| builder.bind(value)).collect();
    let mut shown: Vec<_> = values.iter().map(|value| (value.clone(), dtype)).collect();
    shown.extend(at.iter().map(|index| (index.clone(), DType::I64)));
    let holds = values.last().map(|x2| partial.defined.condition(dtype, x2));
    // `{} has no quotient by {}, at element [{}, {}] of the result`
    let index = vec!["{}"; at.len()].join(", ");
    let message = format!("{{}} {} {{}}, at element [{index}] of the result", partial.relation);
    let trap = format!("{}/C3", request.row.short_name());
    holds.iter().for_each(|holds| builder.check_elements(holds, &trap, &message, &shown));
    values
}

/// `power(x1, x2)`. That of integers is a product with a factor for each bit of the exponent.
pub(in crate::ops) fn power(request: &Request) -> Option<Builder> {
    let (own, dtype) = (request.row.elementwise()?, request.data()?.dtype);
    if dtype.is_float() {
        return elementwise(request, own);
    }
    let bits = i64::try_from(dtype.size() * 8).ok()?;
    let mut builder = Builder::new(request);
    let squares = builder.allocate("S", &request.out().dims, dtype);
    nest(request, builder, (own.layout, own.partial), |builder, result, at, operands| {
        let [base, exponent] = operands else { return None };
        builder.store(result, at, 1);
        builder.store(&squares, at, base);
        builder.nest(&[Dim::Int(bits)], |builder, bit| {
            let bit = bit[0].clone().cast(DType::I64, dtype);
            let is_set = Scalar::pair(BinOp::ShiftRight, exponent, bit) % 2;
            builder.when(is_set.equals(1), |builder| {
                builder.update(result, at, BinOp::Mul, squares.at(at));
            });
            builder.store(&squares, at, squares.at(at) * squares.at(at));
        });
        Some(())
    })
}
