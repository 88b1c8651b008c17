//! Operators that move elements: a copy whose source index is computed from the index of the result.

use super::builder::{Buffer, Builder};
use super::{Request, TensorSpec, creation};
use crate::formula::{Scalar, select};
use crate::ops::Known;
use relax_syntax::dim::Dim;

/// The index into an extent that stretches to another one, for an index of that. An extent that is 1 for some sizes only is the
/// other one for all others, so that no index is cut which it has.
pub(super) fn stretched(own: &Dim, wide: &Dim, index: &Scalar) -> Scalar {
    match own {
        _ if own == wide => index.clone(),
        Dim::Int(1) => 0.into(),
        Dim::Int(_) => index.clone(),
        _ => index.clone().min(Scalar::from(own) - 1),
    }
}

/// The index into a tensor of `from` dims for an index into one of `to` dims, to which it
/// broadcasts.
pub(super) fn broadcast_index(from: &[Dim], to: &[Dim], at: &[Scalar]) -> Option<Vec<Scalar>> {
    let skipped = to.len().checked_sub(from.len())?;
    let pairs = from.iter().zip(&to[skipped..]).zip(&at[skipped..]);
    Some(pairs.map(|((own, wide), index)| stretched(own, wide, index)).collect())
}

/// `broadcast_to(x, shape)`
pub(in crate::ops) fn broadcast(request: &Request) -> Option<Builder> {
    let x = request.data()?;
    copy(request, |at| broadcast_index(&x.dims, &request.out().dims, at))
}

/// `permute_dims(x, axes)`: dim `i` of the result is dim `axes[i]` of `x`.
pub(in crate::ops) fn permute(request: &Request) -> Option<Builder> {
    let rank = request.data()?.rank();
    let axes = request.axes("axes", rank)?.unwrap_or_else(|| (0..rank).rev().collect());
    copy(request, |at| {
        let source = |axis| axes.iter().position(|&other| other == axis).map(|i| at[i].clone());
        (0..rank).map(source).collect()
    })
}

/// The same elements in row-major order under other dims: `reshape` and what is a case of it.
pub(in crate::ops) fn view(request: &Request) -> Option<Builder> {
    let (x, out) = (request.data()?, &request.out().dims);
    copy(request, |at| Some(viewed(&x.dims, out, at)))
}

/// The index into a tensor of `from` dims that has the same place in row-major order.
pub(super) fn viewed(from: &[Dim], to: &[Dim], at: &[Scalar]) -> Vec<Scalar> {
    same_but_ones(from, to, at).unwrap_or_else(|| split(from, &flat(to, at)))
}

/// The index where the dims are the same but for literal ones, which add nothing.
fn same_but_ones(from: &[Dim], to: &[Dim], at: &[Scalar]) -> Option<Vec<Scalar>> {
    let mut others = to.iter().zip(at).filter(|(dim, _)| **dim != Dim::Int(1));
    let each = from.iter().map(|dim| match dim {
        Dim::Int(1) => Some(0.into()),
        _ => others.next().filter(|(other, _)| *other == dim).map(|(_, index)| index.clone()),
    });
    let each: Option<Vec<Scalar>> = each.collect();
    each.filter(|_| others.next().is_none())
}

/// The position of an element in row-major order: less than the number of elements, as is every
/// value on the way to it.
pub(super) fn flat(dims: &[Dim], at: &[Scalar]) -> Scalar {
    let mut pairs = dims.iter().zip(at);
    let Some((_, first)) = pairs.next() else { return 0.into() };
    pairs.fold(first.clone(), |position, (dim, index)| position * dim + index)
}

/// The index of the element at a position. No dim is 0 where there is an element.
pub(super) fn split(dims: &[Dim], position: &Scalar) -> Vec<Scalar> {
    let each = (0..dims.len()).map(|axis| {
        let inner = &dims[axis + 1..];
        let stride = if inner.is_empty() { 1.into() } else { Scalar::from(&Dim::product(inner)) };
        let counted = position.clone().floor_div(stride);
        if axis == 0 { counted } else { counted % &dims[axis] }
    });
    each.collect()
}

/// `triu` and `tril`: a part of the elements, zeros elsewhere.
pub(in crate::ops) fn triangle(request: &Request) -> Option<Builder> {
    let k = request.number("k")?;
    let mut builder = Builder::new(request);
    let (x, output) = (builder.input("x")?, builder.output());
    let zero = creation::number(x.dtype, &Known::Dim(Dim::Int(0)))?;
    builder.fill(&output, |at| {
        let distance = at[x.rank() - 1].clone() - &at[x.rank() - 2];
        let is_kept =
            if request.row.name == "tril" { distance.at_most(k) } else { distance.at_least(k) };
        select(is_kept, x.at(at), zero)
    });
    Some(builder)
}

/// Movements whose source index is a formula of the index.
pub(in crate::ops) fn mapped(request: &Request) -> Option<Builder> {
    let x = request.data()?;
    match request.row.name {
        "flip" => flip(request, x),
        "repeat" => repeat(request, x),
        "tile" => copy(request, |at| {
            let (own, skipped) = (x.rank(), at.len() - x.rank());
            let pairs = x.dims.iter().zip(&at[skipped..]).zip(&request.out().dims[skipped..]);
            let index = |((dim, index), wide): ((&Dim, &Scalar), &Dim)| match dim {
                _ if dim == wide => index.clone(),
                Dim::Int(1) => 0.into(),
                _ => index.clone() % dim,
            };
            Some(pairs.map(index).take(own).collect())
        }),
        "reverse_sequence" => reverse_sequence(request),
        _ => pixel_shuffle(request, x),
    }
}

/// With one index replaced.
pub(super) fn with(at: &[Scalar], axis: usize, index: Scalar) -> Vec<Scalar> {
    let mut other = at.to_vec();
    other[axis] = index;
    other
}

/// Counted from the other end of an extent.
fn mirrored(dim: &Dim, index: &Scalar) -> Scalar {
    Scalar::from(dim) - 1 - index
}

fn flip(request: &Request, x: &TensorSpec) -> Option<Builder> {
    let axis = request.axis("axis", x.rank())?;
    copy(request, |at| Some(with(at, axis, mirrored(&x.dims[axis], &at[axis]))))
}

fn repeat(request: &Request, x: &TensorSpec) -> Option<Builder> {
    let repeats = request.number("repeats")?;
    if request.is_none("axis") {
        return copy(request, |at| Some(split(&x.dims, &at[0].clone().floor_div(repeats))));
    }
    let axis = request.axis("axis", x.rank())?;
    copy(request, |at| Some(with(at, axis, at[axis].clone().floor_div(repeats))))
}

fn reverse_sequence(request: &Request) -> Option<Builder> {
    let rank = request.data()?.rank();
    let (sequence, batch) = (request.axis("seq_axis", rank)?, request.axis("batch_axis", rank)?);
    let mut builder = Builder::new(request);
    let (data, lengths) = (builder.input("data")?, builder.input("seq_lengths")?);
    let output = builder.output();
    builder.nest(&output.dims, |builder, at| {
        let most = Scalar::from(&data.dims[sequence]);
        let length = builder.bind(lengths.limited(&at[batch..=batch], most));
        let index = &at[sequence];
        let source = select(index.less(&length), length.clone() - 1 - index, index);
        builder.store(&output, at, data.at(&with(at, sequence, source)));
    });
    Some(builder)
}

fn pixel_shuffle(request: &Request, x: &TensorSpec) -> Option<Builder> {
    let factor = request.int("upscale_factor")?;
    let square = factor.checked_mul(factor)?;
    copy(request, |at| {
        let (batch, image) = at.split_at(x.rank() - 3);
        let [channel, row, column] = image else { return None };
        let pixel = row.clone() % factor * factor + column.clone() % factor;
        let mut source = batch.to_vec();
        source.push(channel.clone() * square + pixel);
        source.extend([row, column].map(|index| index.clone().floor_div(factor)));
        Some(source)
    })
}

/// The first operand, element by element from where `source` says.
pub(super) fn copy(
    request: &Request,
    source: impl FnOnce(&[Scalar]) -> Option<Vec<Scalar>>,
) -> Option<Builder> {
    let mut builder = Builder::new(request);
    let (input, output) = (builder.input(request.inputs.first()?.param)?, builder.output());
    let mut is_known = true;
    builder.nest(&output.dims, |builder, at| match source(at) {
        Some(from) => builder.store(&output, at, input.at(&from)),
        None => is_known = false,
    });
    is_known.then_some(builder)
}

/// Every element of one buffer to another of the same shape.
pub(super) fn moved(builder: &mut Builder, from: &Buffer, to: &Buffer) {
    let dtype = to.dtype;
    builder.fill(to, |at| from.at(at).cast(from.dtype, dtype));
}
