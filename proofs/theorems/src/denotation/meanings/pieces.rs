//! Tensors put together and taken apart: conditions on an index say where an element lies.

use super::movement::{unravel, volume};
use super::{Meaning, Parts, add, is_true, like_first, meaning, mul, sub};
use crate::denotation::denoter::{Denoter, extent, first, tensor};
use crate::denotation::term::{Known, Term, unknown};
use crate::rules::rule::{Arg, Axis, Call, Entry, Node};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};

pub(super) static MEANINGS: &[Meaning] = &[
    meaning("concat", joined_shape, joined),
    meaning("stack", stacked_shape, stacked),
    Meaning {
        parts: Some(Parts {
            dtype: |d, call, _| like_first(d, call),
            shape: part_shape,
            element: part_element,
        }),
        ..meaning("split", |_, _| unknown("a tuple"), |_, _, _| unknown("a tuple"))
    },
    meaning("strided_slice", sliced_shape, sliced),
    meaning("repeat", repeated_shape, repeated),
    meaning("tile", tiled_shape, tiled),
    meaning("nn.pad", padded_shape, padded),
];

fn parts(call: &Call) -> Known<&[Node]> {
    match call.arg("tensors") {
        Arg::Nodes(nodes) if !nodes.is_empty() => Ok(nodes),
        _ => unknown("expected a list of tensors"),
    }
}

fn the_axis(denoter: &Denoter, shape: &[Axis], call: &Call) -> Known<usize> {
    match call.arg("axis") {
        Arg::Integer(position) => denoter.axis(shape, position),
        Arg::None if shape.len() == 1 => Ok(0),
        _ => unknown("expected an axis"),
    }
}

fn joined_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let parts = parts(call)?;
    let mut shape = denoter.shape(&parts[0])?;
    let axis = the_axis(denoter, &shape, call)?;
    for part in &parts[1..] {
        let other = denoter.shape(part)?;
        let alike = other.len() == shape.len()
            && (0..shape.len()).all(|at| at == axis || denoter.same(&shape[at], &other[at]));
        if !alike {
            return unknown("parts of other dims");
        }
        shape[axis] = Axis::Dim(add(extent(&shape[axis]), extent(&other[axis])));
    }
    Ok(shape)
}

fn joined(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let parts = parts(call)?;
    let axis = {
        let shape = denoter.shape(&parts[0])?;
        the_axis(denoter, &shape, call)?
    };
    let mut begins = vec![Dim::Int(0)];
    for part in parts {
        let shape = denoter.shape(part)?;
        let end = add(begins[begins.len() - 1].clone(), extent(&shape[axis]));
        begins.push(end);
    }
    let mut result = None;
    for (part, (begin, end)) in parts.iter().zip(begins.iter().zip(&begins[1..])).rev() {
        let mut index = at.to_vec();
        index[axis] = sub(at[axis].clone(), begin.clone());
        let term = denoter.element(part, &index)?;
        result = Some(match result {
            None => term,
            Some(after) => {
                Term::choose(Claim::new(at[axis].clone(), Relation::Less, end.clone()), term, after)
            }
        });
    }
    result.map_or_else(|| unknown("no parts"), Ok)
}

/// Where `stack` puts its axis.
fn stacked_axis(denoter: &mut Denoter, call: &Call) -> Known<(Vec<Axis>, usize)> {
    let parts = parts(call)?;
    let shape = denoter.shape(&parts[0])?;
    for part in &parts[1..] {
        let other = denoter.shape(part)?;
        if other.len() != shape.len()
            || !(0..shape.len()).all(|i| denoter.same(&shape[i], &other[i]))
        {
            return unknown("parts of other dims");
        }
    }
    let count = Axis::Dim(Dim::Int(i64::try_from(parts.len()).unwrap_or(i64::MAX)));
    for at in 0..=shape.len() {
        let mut result = shape.clone();
        result.insert(at, count.clone());
        if let Arg::Integer(position) = call.arg("axis")
            && denoter.axis(&result, position).ok() == Some(at)
        {
            return Ok((result, at));
        }
    }
    unknown("no place for the new axis")
}

fn stacked_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    Ok(stacked_axis(denoter, call)?.0)
}

fn stacked(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let (_, axis) = stacked_axis(denoter, call)?;
    let mut index = at.to_vec();
    let which = index.remove(axis);
    let mut result = None;
    for (place, part) in parts(call)?.iter().enumerate().rev() {
        let term = denoter.element(part, &index)?;
        let own = Dim::Int(i64::try_from(place).unwrap_or(i64::MAX));
        result = Some(match result {
            None => term,
            Some(after) => {
                Term::choose(Claim::new(which.clone(), Relation::AtMost, own), term, after)
            }
        });
    }
    result.map_or_else(|| unknown("no parts"), Ok)
}

/// Where a part of `split` begins and ends on the axis.
fn part_range(denoter: &mut Denoter, call: &Call, part: usize) -> Known<(usize, Dim, Dim)> {
    let shape = denoter.shape(first(call)?)?;
    let axis = the_axis(denoter, &shape, call)?;
    let whole = extent(&shape[axis]);
    let (begin, end) = match call.arg("indices_or_sections") {
        Arg::Integer(Dim::Int(sections)) if *sections > 0 => {
            section(denoter, &whole, *sections, i64::try_from(part).unwrap_or(i64::MAX))?
        }
        Arg::List(cuts) => {
            let mut places = vec![Dim::Int(0)];
            for cut in cuts {
                let Entry::One(cut) = cut else { return unknown("cuts") };
                places.push(clamped(denoter, cut, &whole));
            }
            places.push(whole);
            for pair in places.windows(2) {
                if !denoter.at_most(pair[0].clone(), pair[1].clone()) {
                    return unknown("cuts that may not be in order");
                }
            }
            match places.get(part..part + 2) {
                Some([begin, end]) => (begin.clone(), end.clone()),
                _ => return unknown("no such part"),
            }
        }
        _ => return unknown("sections that are not written out"),
    };
    Ok((axis, begin, end))
}

/// Begin and end of one of so many sections: they are of equal size, or the last one is what is left.
fn section(denoter: &mut Denoter, whole: &Dim, sections: i64, part: i64) -> Known<(Dim, Dim)> {
    if part >= sections {
        return unknown("no such part");
    }
    let size = Dim::op(DimOp::FloorDiv, whole.clone(), Dim::Int(sections));
    if denoter.equal(&mul(size.clone(), Dim::Int(sections)), whole) {
        let place = |n| mul(size.clone(), Dim::Int(n));
        return Ok((place(part), place(part + 1)));
    }
    let size = Dim::op(DimOp::CeilDiv, whole.clone(), Dim::Int(sections));
    let place = |n| mul(size.clone(), Dim::Int(n));
    if !denoter.at_most(place(sections - 1), whole.clone()) {
        return unknown("sections that may be too large");
    }
    Ok((place(part), if part + 1 == sections { whole.clone() } else { place(part + 1) }))
}

/// A place moved into the axis.
fn clamped(denoter: &mut Denoter, place: &Dim, extent: &Dim) -> Dim {
    let mut inside = place.clone();
    if !denoter.at_most(0, place.clone()) {
        inside = Dim::op(DimOp::Max, Dim::Int(0), inside);
    }
    if !denoter.at_most(place.clone(), extent.clone()) {
        inside = Dim::op(DimOp::Min, inside, extent.clone());
    }
    inside
}

fn part_shape(denoter: &mut Denoter, call: &Call, part: usize) -> Known<Vec<Axis>> {
    let (axis, begin, end) = part_range(denoter, call, part)?;
    let mut shape = denoter.shape(first(call)?)?;
    shape[axis] = Axis::Dim(sub(end, begin));
    Ok(shape)
}

fn part_element(denoter: &mut Denoter, call: &Call, part: usize, at: &[Dim]) -> Known<Term> {
    let (axis, begin, _) = part_range(denoter, call, part)?;
    let mut index = at.to_vec();
    index[axis] = add(begin, at[axis].clone());
    denoter.element(first(call)?, &index)
}

fn dims_of(arg: &Arg) -> Known<Vec<Dim>> {
    match arg {
        Arg::Integer(dim) => Ok(vec![dim.clone()]),
        Arg::List(entries) => entries
            .iter()
            .map(
                |entry| if let Entry::One(dim) = entry { Ok(dim.clone()) } else { unknown("dims") },
            )
            .collect(),
        _ => unknown("expected dims"),
    }
}

/// Axis, begin, stride and extent of every cut of a `strided_slice`.
fn cuts(denoter: &mut Denoter, call: &Call) -> Known<Vec<(usize, Dim, Dim, Dim)>> {
    let shape = denoter.shape(tensor(call, "x")?)?;
    let axes = denoter.axes(&shape, call.arg("axes"))?;
    let (begins, ends) = (dims_of(call.arg("begin"))?, dims_of(call.arg("end"))?);
    let strides = match call.arg("strides") {
        Arg::None => vec![Dim::Int(1); axes.len()],
        strides => dims_of(strides)?,
    };
    if begins.len() != axes.len() || ends.len() != axes.len() || strides.len() != axes.len() {
        return unknown("not one cut an axis");
    }
    let mut cuts = Vec::new();
    for (at, axis) in axes.into_iter().enumerate() {
        let (begin, end, stride) = (begins[at].clone(), ends[at].clone(), strides[at].clone());
        let whole = extent(&shape[axis]);
        if !denoter.at_most(1, stride.clone()) {
            if is_true(call, "assume_inbound") {
                return unknown("a slice that may go backwards");
            }
            let (begin, extent) = backwards(denoter, &whole, (&begin, &end, &stride))?;
            cuts.push((axis, begin, stride, extent));
            continue;
        }
        let inside = denoter.at_most(0, begin.clone())
            && denoter.at_most(begin.clone(), end.clone())
            && denoter.at_most(end.clone(), whole.clone());
        if !inside && is_true(call, "assume_inbound") {
            return unknown("a slice that may leave its axis");
        }
        let (begin, end) = if inside { (begin, end) } else { kept(denoter, &whole, (begin, end))? };
        let extent = Dim::op(DimOp::CeilDiv, sub(end, begin.clone()), stride.clone());
        cuts.push((axis, begin, stride, extent));
    }
    Ok(cuts)
}

/// Begin and extent of a slice that goes backwards to the first element: its end is a number so far below 0 that it is before it.
fn backwards(
    denoter: &mut Denoter,
    whole: &Dim,
    (begin, end, stride): (&Dim, &Dim, &Dim),
) -> Known<(Dim, Dim)> {
    let (Some(first), Some(end), Some(stride)) = (begin.as_int(), end.as_int(), stride.as_int())
    else {
        return unknown("a slice that may go backwards");
    };
    // No axis has so many elements.
    if stride >= 0 || end > -(1 << 40) {
        return unknown("a slice that may go backwards");
    }
    let last = sub(whole.clone(), Dim::Int(1));
    let begin = if first < 0 {
        Dim::op(DimOp::Max, add(whole.clone(), begin.clone()), Dim::Int(-1))
    } else {
        Dim::op(DimOp::Min, begin.clone(), last)
    };
    let begin = denoter.facts.simplify(&begin);
    let count = Dim::op(DimOp::CeilDiv, add(begin.clone(), Dim::Int(1)), Dim::Int(-stride));
    Ok((begin, count))
}

/// Where a slice begins and ends: an index that is negative counts from the end, and is then clamped. A slice that is empty
/// ends where it begins, which may be beyond the axis.
fn kept(denoter: &mut Denoter, whole: &Dim, (begin, end): (Dim, Dim)) -> Known<(Dim, Dim)> {
    let mut begin = from_front(denoter, whole, begin)?;
    if !denoter.at_most(0, begin.clone()) {
        begin = Dim::op(DimOp::Max, begin, Dim::Int(0));
    }
    let mut end = from_front(denoter, whole, end)?;
    if !denoter.at_most(end.clone(), whole.clone()) {
        end = Dim::op(DimOp::Min, end, whole.clone());
    }
    if !denoter.at_most(begin.clone(), end.clone()) {
        end = Dim::op(DimOp::Max, end, begin.clone());
    }
    Ok((begin, end))
}

/// An index counted from the front, up to what clamping at 0 makes equal.
fn from_front(denoter: &mut Denoter, whole: &Dim, index: Dim) -> Known<Dim> {
    if index.as_int().is_some_and(|index| index.unsigned_abs() > 1 << 40) {
        return unknown("an index that is far beyond the axis");
    }
    let wrapped = add(index.clone(), whole.clone());
    if denoter.at_most(0, index.clone()) {
        return Ok(index);
    }
    if denoter.at_most(index.clone(), -1) {
        return Ok(wrapped);
    }
    // Where it is negative it is before the first element, with the extent added or without.
    denoter.facts.push();
    denoter.facts.assume(Claim::new(index.clone(), Relation::AtMost, -1));
    let is_before = denoter.at_most(wrapped, 0);
    denoter.facts.pop();
    if is_before { Ok(index) } else { unknown("an index that may count from the end") }
}

fn sliced_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let mut shape = denoter.shape(tensor(call, "x")?)?;
    for (axis, _, _, extent) in cuts(denoter, call)? {
        shape[axis] = Axis::Dim(extent);
    }
    Ok(shape)
}

fn sliced(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let mut index = at.to_vec();
    for (axis, begin, stride, _) in cuts(denoter, call)? {
        index[axis] = add(begin, Dim::op(DimOp::Mul, at[axis].clone(), stride));
    }
    denoter.element(tensor(call, "x")?, &index)
}

fn repeats(call: &Call) -> Known<Dim> {
    match call.arg("repeats") {
        Arg::Integer(dim) => Ok(dim.clone()),
        _ => unknown("a number of repeats"),
    }
}

fn repeated_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let mut shape = denoter.shape(tensor(call, "data")?)?;
    if *call.arg("axis") == Arg::None {
        return Ok(vec![Axis::Dim(mul(volume(&shape), repeats(call)?))]);
    }
    let axis = the_axis(denoter, &shape, call)?;
    shape[axis] = Axis::Dim(Dim::op(DimOp::Mul, extent(&shape[axis]), repeats(call)?));
    Ok(shape)
}

fn repeated(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let x = tensor(call, "data")?;
    let shape = denoter.shape(x)?;
    if *call.arg("axis") == Arg::None {
        let place = Dim::op(DimOp::FloorDiv, at[0].clone(), repeats(call)?);
        return denoter.element(x, &unravel(&shape, &place));
    }
    let axis = the_axis(denoter, &shape, call)?;
    let mut index = at.to_vec();
    index[axis] = Dim::op(DimOp::FloorDiv, at[axis].clone(), repeats(call)?);
    denoter.element(x, &index)
}

/// One number of repeats an axis, for tensors without groups. Where there are more of one, the other has ones before it.
fn tiles(denoter: &mut Denoter, call: &Call) -> Known<(Vec<Axis>, Vec<Dim>)> {
    let mut shape = denoter.shape(tensor(call, "data")?)?;
    let mut repeats = dims_of(call.arg("repeats"))?;
    if !shape.iter().all(|axis| matches!(axis, Axis::Dim(_))) {
        return unknown("tiles of a group of axes");
    }
    let rank = shape.len().max(repeats.len());
    shape.splice(0..0, vec![Axis::Dim(Dim::Int(1)); rank - shape.len()]);
    repeats.splice(0..0, vec![Dim::Int(1); rank - repeats.len()]);
    Ok((shape, repeats))
}

fn tiled_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let (shape, repeats) = tiles(denoter, call)?;
    let pairs = shape.iter().zip(repeats);
    Ok(pairs.map(|(axis, n)| Axis::Dim(Dim::op(DimOp::Mul, extent(axis), n))).collect())
}

fn tiled(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let (shape, _) = tiles(denoter, call)?;
    let x = tensor(call, "data")?;
    let new = shape.len() - denoter.shape(x)?.len();
    let pairs = shape.iter().zip(at).skip(new);
    let index: Vec<Dim> =
        pairs.map(|(axis, at)| Dim::op(DimOp::FloorMod, at.clone(), extent(axis))).collect();
    denoter.element(x, &index)
}

/// Before and after each axis.
type Widths = Vec<(Dim, Dim)>;

/// The widths of a constant padding beside the axes that it pads; a group of axes has none.
fn widths(denoter: &mut Denoter, call: &Call) -> Known<(Vec<Axis>, Widths)> {
    let shape = denoter.shape(tensor(call, "data")?)?;
    let other = || unknown("a padding of this kind");
    let Arg::List(entries) = call.arg("pad_width") else { return other() };
    let mut left = entries.as_slice();
    let mut widths = Vec::with_capacity(shape.len());
    for axis in &shape {
        match (axis, left) {
            (Axis::Group(own), [Entry::Unpadded(group), rest @ ..]) if own == group => {
                widths.push((Dim::Int(0), Dim::Int(0)));
                left = rest;
            }
            (Axis::Dim(_), [Entry::One(before), Entry::One(after), rest @ ..]) => {
                widths.push((before.clone(), after.clone()));
                left = rest;
            }
            _ => return other(),
        }
    }
    let constant = *call.arg("pad_mode") == Arg::Str("constant".into());
    if constant && left.is_empty() { Ok((shape, widths)) } else { other() }
}

fn padded_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let (shape, widths) = widths(denoter, call)?;
    let padded = |(axis, (before, after)): (&Axis, &(Dim, Dim))| match axis {
        Axis::Group(_) => axis.clone(),
        Axis::Dim(dim) => Axis::Dim(add(add(dim.clone(), before.clone()), after.clone())),
    };
    Ok(shape.iter().zip(&widths).map(padded).collect())
}

fn padded(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let (shape, widths) = widths(denoter, call)?;
    let x = tensor(call, "data")?;
    let Arg::Float(value) = call.arg("pad_value") else { return unknown("a value to pad with") };
    let fill = Term::Number(denoter.domain(x)?, *value);
    let pairs = at.iter().zip(&widths);
    let index: Vec<Dim> = pairs.map(|(at, (before, _))| sub(at.clone(), before.clone())).collect();
    let mut term = denoter.element(x, &index)?;
    for ((axis, (before, _)), at) in shape.iter().zip(&widths).zip(at).rev() {
        if matches!(axis, Axis::Group(_)) {
            continue;
        }
        let end = add(before.clone(), extent(axis));
        term = Term::choose(Claim::new(at.clone(), Relation::Less, end), term, fill.clone());
        if *before != Dim::Int(0) {
            let is_before = Claim::new(at.clone(), Relation::Less, before.clone());
            term = Term::choose(is_before, fill.clone(), term);
        }
    }
    Ok(term)
}
