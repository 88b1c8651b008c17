//! Products of tensors: sums of products over the axes that the result does not have.

use super::Request;
use super::builder::{Buffer, Builder};
use super::movement::{broadcast_index, stretched};
use super::reduction::{stored, summed, total};
use crate::formula::Scalar;
use crate::ops::einsum::{Term, parse};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use std::collections::BTreeMap;

/// Products of integers are formed in the dtype of the result, in which they wrap; not as floats.
fn is_known(from: DType, to: DType) -> bool {
    from != DType::Bool && to != DType::Bool && (from.is_float() || !to.is_float())
}

/// `matmul(a, b)`: a vector is a row on the left, a column on the right.
pub(in crate::ops) fn matmul(request: &Request) -> Option<Builder> {
    let mut builder = Builder::new(request);
    let (a, b, output) = (builder.input("x1")?, builder.input("x2")?, builder.output());
    if !is_known(a.dtype, output.dtype) {
        return None;
    }
    let total = total(&mut builder, &output, a.dtype);
    let inner = vec![a.dims.last()?.clone()];
    let (rows, columns) = (usize::from(a.rank() > 1), usize::from(b.rank() > 1));
    let batch = output.rank() - rows - columns;
    let batch_of = |operand: &Buffer, at: &[Scalar]| {
        let own = &operand.dims[..operand.rank().saturating_sub(2)];
        broadcast_index(own, &output.dims[..batch], &at[..batch]).unwrap_or_default()
    };
    builder.nest(&output.dims, |builder, at| {
        summed(builder, &total, at, &inner, |k| {
            let mut at_a = batch_of(&a, at);
            at_a.extend_from_slice(&at[batch..batch + rows]);
            at_a.push(k[0].clone());
            let mut at_b = batch_of(&b, at);
            at_b.push(k[0].clone());
            at_b.extend_from_slice(&at[batch + rows..]);
            a.at(&at_a).cast(a.dtype, total.dtype) * b.at(&at_b).cast(b.dtype, total.dtype)
        });
        stored(builder, &output, at, &total, total.value(at));
    });
    Some(builder)
}

/// `outer(a, b)`
pub(in crate::ops) fn outer(request: &Request) -> Option<Builder> {
    let mut builder = Builder::new(request);
    let (a, b, output) = (builder.input("x1")?, builder.input("x2")?, builder.output());
    builder.fill(&output, |at| a.at(&at[..1]) * b.at(&at[1..]));
    Some(builder)
}

/// `einsum(operands, subscripts)`
pub(in crate::ops) fn einsum(request: &Request) -> Option<Builder> {
    let subscripts = parse(request.str("subscripts")?).ok()?;
    let mut builder = Builder::new(request);
    let (operands, output) = (builder.list("operands"), builder.output());
    let dtype = operands.first()?.dtype;
    if !is_known(dtype, output.dtype) {
        return None;
    }
    let mut extents: BTreeMap<char, Dim> = BTreeMap::new();
    for (term, operand) in subscripts.operands.iter().zip(&operands) {
        for (label, dim) in labelled(term, &operand.dims) {
            extents.entry(label).or_insert_with(|| dim.clone());
        }
    }
    let result: Vec<char> = subscripts.result.labels().collect();
    let summed_labels: Vec<char> =
        extents.keys().copied().filter(|label| !result.contains(label)).collect();
    let inner: Vec<Dim> = summed_labels.iter().map(|label| extents[label].clone()).collect();
    let total = total(&mut builder, &output, dtype);
    builder.nest(&output.dims, |builder, at| {
        summed(builder, &total, at, &inner, |along| {
            let mut places: BTreeMap<char, Scalar> =
                labelled(&subscripts.result, at).map(|(label, at)| (label, at.clone())).collect();
            places.extend(summed_labels.iter().copied().zip(along.iter().cloned()));
            let factors = subscripts.operands.iter().zip(&operands).map(|(term, operand)| {
                let own = element(term, operand, &subscripts.result, (&output.dims, at), &places);
                operand.at(&own).cast(dtype, total.dtype)
            });
            factors.reduce(|a, b| a * b).unwrap_or(0.into())
        });
        stored(builder, &output, at, &total, total.value(at));
    });
    Some(builder)
}

/// How many dims `...` stands for.
fn dots(term: &Term, rank: usize) -> usize {
    rank.saturating_sub(term.named())
}

/// Each label of a term, with what stands at its place.
fn labelled<'a, T>(term: &'a Term, items: &'a [T]) -> impl Iterator<Item = (char, &'a T)> {
    let after = &items[term.before.len() + dots(term, items.len())..];
    term.labels().zip(items[..term.before.len()].iter().chain(after))
}

/// The index into an operand, whose dims of `...` broadcast to those of the result.
fn element(
    term: &Term,
    operand: &Buffer,
    result: &Term,
    (dims, at): (&[Dim], &[Scalar]),
    places: &BTreeMap<char, Scalar>,
) -> Vec<Scalar> {
    let (own, all) = (dots(term, operand.rank()), dots(result, dims.len()));
    let first = result.before.len() + all - own;
    let middle = (0..own).map(|place| {
        let wide = first + place;
        stretched(&operand.dims[term.before.len() + place], &dims[wide], &at[wide])
    });
    let label = |label: &char| places[label].clone();
    let after = term.after.iter().flatten().map(label);
    term.before.iter().map(label).chain(middle).chain(after).collect()
}
