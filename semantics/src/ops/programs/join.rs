//! Several tensors to one, and one to several.

use super::Request;
use super::builder::Builder;
use super::creation;
use super::movement::{flat, moved, with};
use super::random::element;
use crate::formula::{Scalar, select};
use crate::ops::Known;
use crate::philox::{dropout_scale, dropout_threshold};
use relax_syntax::dim::Dim;

/// Beyond that many tensors a choice among them is no program to read.
const MOST: usize = 64;

/// `concat` and `stack`: each element is chosen by its index along the axis.
pub(in crate::ops) fn joined(request: &Request) -> Option<Builder> {
    let is_stack = request.row.name == "stack";
    let out = request.out();
    let axis = if request.is_none("axis") { 0 } else { request.axis("axis", out.rank())? };
    let mut builder = Builder::new(request);
    let (parts, output) = (builder.list("tensors"), builder.output());
    if parts.is_empty() || parts.len() > MOST {
        return None;
    }
    builder.fill(&output, |at| {
        let (mut ends, mut values) = (Vec::new(), Vec::new());
        let mut start = Scalar::from(0);
        for (position, part) in (0..).zip(&parts) {
            if is_stack {
                let mut own = at.to_vec();
                own.remove(axis);
                values.push(part.at(&own));
                ends.push(Scalar::from(position + 1));
            } else {
                values.push(part.at(&with(at, axis, at[axis].clone() - &start)));
                start = start + &part.dims[axis];
                ends.push(start.clone());
            }
        }
        let last = values.pop().expect("invariant: there is a part");
        let pairs = values.into_iter().zip(ends).rev();
        pairs.fold(last, |others, (value, end)| select(at[axis].less(end), value, others))
    });
    Some(builder)
}

/// `split`: each part by itself, from where it starts.
pub(in crate::ops) fn split(request: &Request) -> Option<Builder> {
    let x = request.data()?;
    let axis = request.axis("axis", x.rank())?;
    let starts = starts(request, &x.dims[axis])?;
    let mut builder = Builder::new(request);
    let input = builder.input("x")?;
    for (output, start) in builder.outputs.clone().iter().zip(starts) {
        builder.fill(output, |at| input.at(&with(at, axis, start + &at[axis])));
    }
    Some(builder)
}

fn starts(request: &Request, extent: &Dim) -> Option<Vec<Scalar>> {
    let extent = Scalar::from(extent);
    if let Known::Dim(sections) = request.attrs.get("indices_or_sections")? {
        let sections = sections.as_int()?;
        let each = extent.ceil_div(sections);
        return Some((0..sections).map(|at| Scalar::from(at) * &each).map(without_zero).collect());
    }
    let indices = request.indices("indices_or_sections")?;
    let inner = indices.into_iter().map(|index| index.clamped(0, &extent));
    Some(std::iter::once(0.into()).chain(inner).collect())
}

/// `0 * e` is 0.
fn without_zero(product: Scalar) -> Scalar {
    use relax_syntax::ir::tensor::TExpr;
    match &product.0 {
        TExpr::Binary(_, operands) if operands.0 == TExpr::Int(0) => 0.into(),
        _ => product,
    }
}

/// `meshgrid`: grid `i` varies along its own axis.
pub(in crate::ops) fn meshgrid(request: &Request) -> Option<Builder> {
    let exchanged = !request.is_none("indexing") && request.str("indexing")? == "xy";
    let mut builder = Builder::new(request);
    let inputs = builder.list("tensors");
    let count = inputs.len();
    for (index, (input, output)) in inputs.iter().zip(builder.outputs.clone()).enumerate() {
        let axis = if exchanged && count > 1 && index < 2 { 1 - index } else { index };
        builder
            .fill(&output, |at| input.at(if input.rank() == 0 { &[] } else { &at[axis..=axis] }));
    }
    Some(builder)
}

/// `dropout`: the data, and ones; with a state, each element where its bits are not too small, and which these are.
pub(in crate::ops) fn dropout(request: &Request) -> Option<Builder> {
    let mut builder = Builder::new(request);
    let data = builder.input("data")?;
    let [kept, mask] = builder.outputs.clone().try_into().ok()?;
    if let Some(state) = builder.input("state") {
        let (rate, stream) = (request.float("rate")?, request.int("stream")?);
        let (wide, scale) = dropout_scale(rate, data.dtype);
        builder.nest(&data.dims, |builder, at| {
            // A dropped element is read as well: where nothing has written it, that is a trap.
            let value = builder.bind(data.at(at));
            let bits = element(builder, &state, stream, flat(&data.dims, at));
            let bits = builder.bind(bits);
            let is_kept = bits.at_least(i64::from(dropout_threshold(rate)));
            let scaled = value.cast(data.dtype, wide) * scale;
            let scaled = scaled.cast(wide, data.dtype);
            builder.store(&kept, at, select(is_kept.clone(), scaled, 0.0));
            builder.store(&mask, at, select(is_kept, 1.0, 0.0));
        });
        return Some(builder);
    }
    moved(&mut builder, &data, &kept);
    let one = creation::number(mask.dtype, &Known::Dim(Dim::Int(1)))?;
    builder.fill(&mask, |_| one);
    Some(builder)
}
