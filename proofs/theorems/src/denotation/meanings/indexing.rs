//! Elements at places that other elements tell.

use super::{Meaning, meaning, shape_of_first};
use crate::denotation::denoter::{Denoter, Stops, extent, tensor};
use crate::denotation::functions::{cast_of, widens};
use crate::denotation::term::{Domain, Known, Term, Test, unknown};
use crate::rules::rule::{Arg, Axis, Call};
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

fn fast(call: &Call) -> Known<()> {
    if *call.arg("mode") == Arg::Str("fast".into()) { Ok(()) } else { unknown("a mode of `take`") }
}

/// An index in a dtype that holds every number of another is the same index.
fn without_casts(index: Term) -> Term {
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
    fast(call)?;
    let (mut shape, axis) = axis_of(denoter, call, "x")?;
    let indices = denoter.shape(tensor(call, "indices")?)?;
    shape.splice(axis..=axis, indices);
    Ok(shape)
}

fn take(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    fast(call)?;
    let (shape, axis) = axis_of(denoter, call, "x")?;
    let indices = tensor(call, "indices")?;
    let width = denoter.shape(indices)?.len();
    let index = without_casts(denoter.element(indices, &at[axis..axis + width])?);
    let var = denoter.fresh("@");
    let mut place = at[..axis].to_vec();
    place.push(Dim::Var(var.clone()));
    place.extend_from_slice(&at[axis + width..]);
    let body = denoter.element(tensor(call, "x")?, &place)?;
    Ok(Term::Lookup(Box::new(index), (var, extent(&shape[axis])), Box::new(body)))
}

/// An index out of range stops the program.
fn take_stops(denoter: &mut Denoter, call: &Call) -> Known<()> {
    fast(call)?;
    let (shape, axis) = axis_of(denoter, call, "x")?;
    note(denoter, call, &shape[axis], "index/range")
}

fn note(denoter: &mut Denoter, call: &Call, axis: &Axis, what: &str) -> Known<()> {
    let indices = tensor(call, "indices")?;
    let own = denoter.shape(indices)?;
    let over = denoter.indices(&own);
    let at: Vec<Dim> = over.iter().map(|(name, _)| Dim::Var(name.clone())).collect();
    let index = without_casts(denoter.element(indices, &at)?);
    let terms = vec![index, Term::Extent(extent(axis))];
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
