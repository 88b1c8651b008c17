//! Operators that only say where an element comes from.

use super::elementwise::stretched;
use super::{Meaning, meaning, shape_of_first};
use crate::denotation::denoter::{Denoter, extent, first, place, tensor};
use crate::denotation::term::{Known, Term, unknown};
use crate::rules::rule::{Arg, Axis, Call, Entry};
use relax_syntax::dim::{Dim, DimOp};
use std::ops::Range;

pub(super) static MEANINGS: &[Meaning] = &[
    meaning("permute_dims", permuted_shape, permuted),
    meaning("reshape", |d, call| d.extents(call.arg("shape")), reshaped),
    meaning("flatten", flat_shape, reshaped),
    meaning("nn.batch_flatten", rows_shape, reshaped),
    meaning("nn.pixel_shuffle", shuffled_shape, shuffled),
    meaning("broadcast_to", |d, call| d.extents(call.arg("shape")), broadcast),
    meaning("expand_dims", expanded_shape, expanded),
    meaning("squeeze", squeezed_shape, squeezed),
    meaning("flip", shape_of_first, flipped),
];

fn order(denoter: &mut Denoter, call: &Call) -> Known<Vec<usize>> {
    let shape = denoter.shape(tensor(call, "x")?)?;
    let grouped = shape.iter().any(|axis| matches!(axis, Axis::Group(_)));
    let order: Vec<usize> = match call.arg("axes") {
        Arg::None if grouped => return unknown("the axes of a group would be reversed"),
        Arg::None => (0..shape.len()).rev().collect(),
        axes => denoter.axes(&shape, axes)?,
    };
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if sorted == (0..shape.len()).collect::<Vec<_>>() {
        Ok(order)
    } else {
        unknown("the axes are not each named once")
    }
}

fn permuted_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let shape = denoter.shape(tensor(call, "x")?)?;
    Ok(order(denoter, call)?.into_iter().map(|at| shape[at].clone()).collect())
}

fn permuted(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let order = order(denoter, call)?;
    let mut index = vec![Dim::Int(0); order.len()];
    for (axis, from) in order.into_iter().enumerate() {
        index[from] = at[axis].clone();
    }
    denoter.element(tensor(call, "x")?, &index)
}

fn flat_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let shape = denoter.shape(tensor(call, "x")?)?;
    Ok(vec![Axis::Dim(volume(&shape))])
}

/// The first axis stays.
fn rows_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let shape = denoter.shape(tensor(call, "data")?)?;
    let [first @ Axis::Dim(_), rest @ ..] = shape.as_slice() else { return unknown("no axis") };
    Ok(vec![first.clone(), Axis::Dim(volume(rest))])
}

/// The place of the channels, which height and width follow, and the factor.
fn pixels(denoter: &mut Denoter, call: &Call) -> Known<(Vec<Axis>, usize, Dim)> {
    let shape = denoter.shape(tensor(call, "data")?)?;
    let Arg::Integer(factor) = call.arg("upscale_factor") else { return unknown("a factor") };
    let Some(channels) = shape.len().checked_sub(3) else { return unknown("fewer axes") };
    if shape[channels..].iter().any(|axis| matches!(axis, Axis::Group(_))) {
        return unknown("a group among the last axes");
    }
    Ok((shape, channels, factor.clone()))
}

fn shuffled_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let (mut shape, channels, factor) = pixels(denoter, call)?;
    let square = Dim::op(DimOp::Mul, factor.clone(), factor.clone());
    let dims = [(DimOp::FloorDiv, square), (DimOp::Mul, factor.clone()), (DimOp::Mul, factor)];
    for (axis, (op, by)) in shape[channels..].iter_mut().zip(dims) {
        *axis = Axis::Dim(denoter.facts.simplify(&Dim::op(op, extent(axis), by)));
    }
    Ok(shape)
}

/// Row and column in a square of pixels say which of its channels.
fn shuffled(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let (_, channels, factor) = pixels(denoter, call)?;
    let op = |op, a: &Dim, b: &Dim| Dim::op(op, a.clone(), b.clone());
    let (channel, row, column) = (&at[channels], &at[channels + 1], &at[channels + 2]);
    let mut place = channel.clone();
    for pixel in [row, column] {
        let own = op(DimOp::FloorMod, pixel, &factor);
        place = op(DimOp::Add, &op(DimOp::Mul, &place, &factor), &own);
    }
    let mut index = at[..channels].to_vec();
    index.push(place);
    index.extend([row, column].map(|pixel| op(DimOp::FloorDiv, pixel, &factor)));
    denoter.element(tensor(call, "data")?, &index)
}

pub(super) fn volume(shape: &[Axis]) -> Dim {
    let dims: Vec<Dim> = shape.iter().map(extent).collect();
    Dim::product(&dims)
}

/// The place in row-major order.
pub(super) fn linear(shape: &[Axis], at: &[Dim]) -> Dim {
    let step = |total, (axis, index): (&Axis, &Dim)| {
        Dim::op(DimOp::Add, Dim::op(DimOp::Mul, total, extent(axis)), index.clone())
    };
    shape.iter().zip(at).fold(Dim::Int(0), |total, pair| {
        if total == Dim::Int(0) { pair.1.clone() } else { step(total, pair) }
    })
}

/// The index at a place in row-major order.
pub(super) fn unravel(shape: &[Axis], place: &Dim) -> Vec<Dim> {
    let mut index = Vec::with_capacity(shape.len());
    for (axis, own) in shape.iter().enumerate() {
        let inner = volume(&shape[axis + 1..]);
        let quotient = Dim::op(DimOp::FloorDiv, place.clone(), inner);
        index.push(if axis == 0 {
            quotient
        } else {
            Dim::op(DimOp::FloorMod, quotient, extent(own))
        });
    }
    index
}

/// A reshape keeps the row-major place. Axes that both shapes begin or end with keep their index.
fn reshaped(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let x = first(call)?;
    let from = denoter.shape(x)?;
    let to = super::meaning_of(call.row.name)
        .map_or_else(|| unknown("no meaning"), |meaning| (meaning.shape)(denoter, call))?;
    if to.contains(&Axis::Dim(Dim::Int(-1))) {
        return unknown("an inferred dim");
    }
    let (volume_from, volume_to) = (volume(&from), volume(&to));
    if !denoter.equal(&volume_from, &volume_to) {
        return unknown("the sizes of a reshape are not known to be equal");
    }
    let pairs = from.iter().zip(&to);
    let lead = pairs.take_while(|(a, b)| a == b).count();
    let pairs = from[lead..].iter().rev().zip(to[lead..].iter().rev());
    let tail = pairs.take_while(|(a, b)| a == b).count();
    let (from_end, to_end) = (from.len() - tail, to.len() - tail);
    let mut index = at[..lead].to_vec();
    let mut begin = (lead, lead);
    for end in cuts(denoter, (&from, lead..from_end), (&to, lead..to_end)) {
        let place = linear(&to[begin.1..end.1], &at[begin.1..end.1]);
        index.extend(unravel(&from[begin.0..end.0], &place));
        begin = end;
    }
    index.extend_from_slice(&at[to_end..]);
    denoter.element(x, &index)
}

/// Where axes of two shapes end that are the same elements: the products up to there are equal, so the row-major place within
/// each part is one of its own. The last one is the end of both.
fn cuts(
    denoter: &mut Denoter,
    (from, own): (&[Axis], Range<usize>),
    (to, others): (&[Axis], Range<usize>),
) -> Vec<(usize, usize)> {
    let mut volumes = |shape: &[Axis], range: &Range<usize>| -> Vec<Dim> {
        let ends = range.start + 1..range.end;
        ends.map(|end| denoter.facts.simplify(&volume(&shape[range.start..end]))).collect()
    };
    let (of_own, of_others) = (volumes(from, &own), volumes(to, &others));
    let mut found = Vec::new();
    let mut next = 0;
    for (at, volume) in of_own.iter().enumerate() {
        let rest = of_others.iter().enumerate().skip(next);
        let Some((other, _)) = rest.into_iter().find(|(_, other)| *other == volume) else {
            continue;
        };
        found.push((own.start + 1 + at, others.start + 1 + other));
        next = other + 1;
    }
    found.push((own.end, others.end));
    found
}

fn broadcast(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let x = tensor(call, "x")?;
    let (own, out) = (denoter.shape(x)?, denoter.extents(call.arg("shape"))?);
    let index = stretched(denoter, &own, &out, at)?;
    denoter.element(x, &index)
}

/// Where the result of `expand_dims` has its new axes. Only one axis is put in at a time where there
/// are groups.
fn new_axes(denoter: &mut Denoter, call: &Call) -> Known<Vec<usize>> {
    let shape = denoter.shape(tensor(call, "x")?)?;
    let positions: Vec<Dim> = match call.arg("axis") {
        Arg::Integer(dim) => vec![dim.clone()],
        Arg::List(entries) => entries
            .iter()
            .map(
                |entry| if let Entry::One(dim) = entry { Ok(dim.clone()) } else { unknown("axes") },
            )
            .collect::<Known<_>>()?,
        _ => return unknown("no axis"),
    };
    match positions.as_slice() {
        [] => Ok(Vec::new()),
        [position] => {
            // Counted from behind, the new axis itself is one of those that are counted.
            let mut longer = shape.clone();
            longer.push(Axis::Dim(Dim::Int(1)));
            let found = (0..=shape.len()).find(|&at| {
                let mut result = shape.clone();
                result.insert(at, Axis::Dim(Dim::Int(1)));
                place(&result, position).ok() == Some(at)
            });
            found.map_or_else(|| unknown("no place for a new axis"), |at| Ok(vec![at]))
        }
        _ if shape.iter().all(|axis| matches!(axis, Axis::Dim(_))) => {
            let rank = shape.len() + positions.len();
            let blank = vec![Axis::Dim(Dim::Int(1)); rank];
            positions.iter().map(|position| denoter.axis(&blank, position)).collect()
        }
        _ => unknown("several new axes beside a group"),
    }
}

fn expanded_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let shape = denoter.shape(tensor(call, "x")?)?;
    let new = new_axes(denoter, call)?;
    let mut old = shape.into_iter();
    let rank = old.len() + new.len();
    let axis = |at| if new.contains(&at) { Some(Axis::Dim(Dim::Int(1))) } else { old.next() };
    Ok((0..rank).map_while(axis).collect())
}

fn expanded(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let new = new_axes(denoter, call)?;
    let kept = at.iter().enumerate().filter(|(axis, _)| !new.contains(axis));
    let index: Vec<Dim> = kept.map(|(_, index)| index.clone()).collect();
    denoter.element(tensor(call, "x")?, &index)
}

fn dropped(denoter: &mut Denoter, call: &Call) -> Known<Vec<usize>> {
    let shape = denoter.shape(tensor(call, "x")?)?;
    match call.arg("axis") {
        Arg::None => unknown("which axes are dropped depends on dims"),
        axes => denoter.axes(&shape, axes),
    }
}

fn squeezed_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let dropped = dropped(denoter, call)?;
    let shape = denoter.shape(tensor(call, "x")?)?;
    let kept = shape.into_iter().enumerate().filter(|(axis, _)| !dropped.contains(axis));
    Ok(kept.map(|(_, axis)| axis).collect())
}

fn squeezed(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let dropped = dropped(denoter, call)?;
    let mut rest = at.iter().cloned();
    let rank = at.len() + dropped.len();
    let axis = |axis| if dropped.contains(&axis) { Some(Dim::Int(0)) } else { rest.next() };
    let index: Vec<Dim> = (0..rank).map_while(axis).collect();
    denoter.element(tensor(call, "x")?, &index)
}

fn flipped(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let x = tensor(call, "data")?;
    let shape = denoter.shape(x)?;
    let [axis] = denoter.axes(&shape, call.arg("axis"))?[..] else { return unknown("one axis") };
    let mut index = at.to_vec();
    let last = Dim::op(DimOp::Sub, extent(&shape[axis]), Dim::Int(1));
    index[axis] = Dim::op(DimOp::Sub, last, at[axis].clone());
    denoter.element(x, &index)
}
