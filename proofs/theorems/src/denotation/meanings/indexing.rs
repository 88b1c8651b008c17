//! Elements at places that other elements tell.

use super::indices::Ranged;
use super::{Meaning, meaning, shape_of_first};
use crate::denotation::denoter::{Denoter, Stops, extent, tensor};
use crate::denotation::functions::{cast_of, widens};
use crate::denotation::names::LESS;
use crate::denotation::ranges::assume_index;
use crate::denotation::term::{Domain, Known, Term, Test, unknown};
use crate::rules::rule::{Arg, Axis, Call, Node};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

pub(super) static MEANINGS: &[Meaning] = &[
    Meaning { stops: take_stops, ..meaning("take", take_shape, take) },
    Meaning { stops: gather_stops, ..meaning("gather_elements", gather_shape, gather) },
    Meaning { dtype: |d, call| hot_dtype(d, call), ..meaning("one_hot", hot_shape, one_hot) },
];

/// The axis of the data, by number, and its extent.
fn axis_of(denoter: &mut Denoter, call: &Call, param: &str) -> Known<(Vec<Axis>, usize)> {
    let shape = denoter.shape(tensor(call, param)?)?;
    let axis = match call.arg("axis") {
        Arg::None if shape.len() == 1 => 0,
        Arg::Integer(position) => denoter.axis(&shape, position)?,
        _ => return unknown("no axis"),
    };
    Ok((shape, axis))
}

/// What `take` makes of an index out of range.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Stop,
    Clip,
}

fn mode(call: &Call) -> Known<Mode> {
    match call.arg("mode") {
        Arg::Str(text) if text.as_str() == "fast" => Ok(Mode::Stop),
        Arg::Str(text) if text.as_str() == "clip" => Ok(Mode::Clip),
        _ => unknown("a mode of `take`"),
    }
}

/// An index in a dtype that holds every number of another is the same index.
pub(super) fn without_casts(index: Term) -> Term {
    if let Term::Apply(Domain::Ring, name, args) = &index
        && let Some((from, to)) = cast_of(name)
        && from.is_integer()
        && widens(from, to)
        && let [inner] = args.as_slice()
    {
        return without_casts(inner.clone());
    }
    index
}

fn take_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    mode(call)?;
    let (mut shape, axis) = axis_of(denoter, call, "x")?;
    let indices = denoter.shape(tensor(call, "indices")?)?;
    shape.splice(axis..=axis, indices);
    Ok(shape)
}

fn take(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let (shape, axis) = axis_of(denoter, call, "x")?;
    let indices = tensor(call, "indices")?;
    let width = denoter.shape(indices)?.len();
    let index = denoter.element(indices, &at[axis..axis + width])?;
    let place = |along: Dim| [&at[..axis], &[along], &at[axis + width..]].concat();
    if mode(call)? == Mode::Clip {
        let Axis::Dim(Dim::Int(count @ 1..=MOST_CLIPPED)) = &shape[axis] else {
            return unknown("an index that is clipped to many");
        };
        return clipped(denoter, tensor(call, "x")?, &without_casts(index), (*count, &place));
    }
    if denoter.dtype(indices)? == DType::I64
        && let Some(ranged) = inside(denoter, &index, &extent(&shape[axis]))
    {
        let offset = ranged.offset.clone();
        let x = tensor(call, "x")?;
        return ranged.looked_up(denoter, offset, &mut |own, at| own.element(x, &place(at)));
    }
    let var = denoter.fresh("@");
    let body = denoter.element(tensor(call, "x")?, &place(Dim::Var(var.clone())))?;
    let index = Box::new(without_casts(index));
    Ok(Term::Lookup(index, (var, extent(&shape[axis])), Box::new(body)))
}

/// An index that is known to be one of an axis of this extent.
fn inside(denoter: &mut Denoter, index: &Term, extent: &Dim) -> Option<Ranged> {
    let ranged = Ranged::of(denoter, index)?;
    ranged.is_within(denoter, extent).then_some(ranged)
}

/// Elements of an axis among which a clipped index chooses one by one.
const MOST_CLIPPED: i64 = 4;

/// The first element where the index is below 1, else the second where it is below 2, and so on; the last one otherwise.
fn clipped(
    denoter: &mut Denoter,
    x: &Node,
    index: &Term,
    (count, place): (i64, &dyn Fn(Dim) -> Vec<Dim>),
) -> Known<Term> {
    let mut result = denoter.element(x, &place(Dim::Int(count - 1)))?;
    for at in (0..count - 1).rev() {
        let next = Term::Number(Domain::Ring, (at + 1) as f64);
        let is_here = Term::apply(Domain::Ring, LESS, vec![index.clone(), next]);
        let own = denoter.element(x, &place(Dim::Int(at)))?;
        result = Term::If(Test::Element(Box::new(is_here)), Box::new(own), Box::new(result));
    }
    Ok(result)
}

/// An index out of range stops the program, unless it is clipped to an axis that has an element.
fn take_stops(denoter: &mut Denoter, call: &Call) -> Known<()> {
    if mode(call)? == Mode::Clip {
        let (shape, axis) = axis_of(denoter, call, "x")?;
        let has_some = denoter.at_most(1, extent(&shape[axis]));
        return if has_some { Ok(()) } else { unknown("an axis that may be empty") };
    }
    let (shape, axis) = axis_of(denoter, call, "x")?;
    note(denoter, call, &shape[axis], "index/range")
}

fn note(denoter: &mut Denoter, call: &Call, axis: &Axis, what: &str) -> Known<()> {
    let indices = tensor(call, "indices")?;
    let own = denoter.shape(indices)?;
    let over = denoter.indices(&own);
    let at: Vec<Dim> = over.iter().map(|(name, _)| Dim::Var(name.clone())).collect();
    denoter.facts.push();
    over.iter().for_each(|binder| assume_index(binder, &mut *denoter.facts));
    let index = denoter.element(indices, &at);
    let is_wide = denoter.dtype(indices) == Ok(DType::I64);
    let is_inside = index
        .as_ref()
        .is_ok_and(|index| is_wide && inside(denoter, index, &extent(axis)).is_some());
    denoter.facts.pop();
    let index = index?;
    if is_inside {
        return Ok(());
    }
    let terms = vec![without_casts(index), Term::Extent(extent(axis))];
    denoter.stops.push(Stops { what: what.to_owned(), over, terms });
    Ok(())
}

fn gather_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    denoter.shape(tensor(call, "indices")?)
}

fn gather(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let (shape, axis) = axis_of(denoter, call, "data")?;
    let index = without_casts(denoter.element(tensor(call, "indices")?, at)?);
    let var = denoter.fresh("@");
    let mut place = at.to_vec();
    place[axis] = Dim::Var(var.clone());
    let body = denoter.element(tensor(call, "data")?, &place)?;
    Ok(Term::Lookup(Box::new(index), (var, extent(&shape[axis])), Box::new(body)))
}

fn gather_stops(denoter: &mut Denoter, call: &Call) -> Known<()> {
    let (shape, axis) = axis_of(denoter, call, "data")?;
    note(denoter, call, &shape[axis], "index/range")
}

fn hot_value(call: &Call, param: &str) -> Known<(f64, DType)> {
    match call.arg(param) {
        Arg::Float(value) => Ok((*value, DType::F64)),
        _ => unknown("a value that is not written out"),
    }
}

fn hot_dtype(_: &Denoter, call: &Call) -> Known<DType> {
    Ok(hot_value(call, "on_value")?.1)
}

fn hot_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let mut shape = shape_of_first(denoter, call)?;
    let Arg::Integer(depth) = call.arg("depth") else { return unknown("no depth") };
    if *call.arg("axis") != Arg::Integer(Dim::Int(-1)) {
        return unknown("an axis other than the last");
    }
    shape.push(Axis::Dim(depth.clone()));
    Ok(shape)
}

fn one_hot(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let (on, _) = hot_value(call, "on_value")?;
    let (off, _) = hot_value(call, "off_value")?;
    let Some((last, outer)) = at.split_last() else { return unknown("no axis") };
    let index = denoter.element(tensor(call, "indices")?, outer)?;
    let here = Term::apply(Domain::Ring, "equal", vec![index, Term::Extent(last.clone())]);
    let value = |value| Box::new(Term::Number(Domain::Bits, value));
    Ok(Term::If(Test::Element(Box::new(here)), value(on), value(off)))
}
