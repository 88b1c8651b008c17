//! Reductions and scans.

use super::{Call, Form, each, one};
use crate::body::Body;
use crate::scope::{Class, Type, Var};
use relax_syntax::dim::Dim;

pub(super) const FORMS: &[Form] =
    &[fold, fold, fold, of_numbers, of_floats, place, median, scan, scan];

/// The text of axes and `keepdims`, and the dims that are left.
fn reduced(body: &mut Body, x: &Var) -> (String, Vec<Dim>) {
    let rank = x.ty.rank();
    let axes: Vec<usize> = match body.choices.below(5) {
        _ if rank == 0 => Vec::new(),
        0 => vec![rank - 1],
        1 => vec![body.choices.below(rank)],
        2 if rank > 1 => vec![0, rank - 1],
        3 => (0..rank).collect(),
        _ => vec![0],
    };
    let keep = body.choices.once_in(2);
    let mut dims = Vec::new();
    for (axis, dim) in x.ty.dims.iter().enumerate() {
        match (axes.contains(&axis), keep) {
            (false, _) => dims.push(dim.clone()),
            (true, true) => dims.push(Dim::Int(1)),
            (true, false) => {}
        }
    }
    let keep = if keep { ", keepdims=True" } else { "" };
    if axes.len() == rank && body.choices.once_in(2) {
        return (keep.to_owned(), dims);
    }
    (format!(", axis={axes:?}{keep}"), dims)
}

fn reduce(body: &mut Body, class: Class, names: &[&'static str]) -> Option<Call> {
    let x = body.pick(class, 0..=5);
    let (axes, dims) = reduced(body, &x);
    let name = body.choices.of(names);
    one(format!("{name}({}{axes})", x.name), Type::new(dims, x.ty.dtype))
}

fn fold(body: &mut Body) -> Option<Call> {
    reduce(body, Class::Any, &["sum", "max", "min", "prod"])
}

fn of_numbers(body: &mut Body) -> Option<Call> {
    reduce(body, Class::Number, &["mean"])
}

fn of_floats(body: &mut Body) -> Option<Call> {
    reduce(body, Class::Float, &["variance", "std"])
}

fn place(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 1..=5);
    let (name, axis) = (body.choices.of(&["argmax", "argmin"]), body.axis(&x));
    let mut dims = x.ty.dims.clone();
    if body.choices.once_in(2) {
        dims.remove(axis);
        return one(format!("{name}({}, axis={axis})", x.name), Type::new(dims, "i64"));
    }
    dims[axis] = Dim::Int(1);
    one(format!("{name}({}, axis={axis}, keepdims=True)", x.name), Type::new(dims, "i64"))
}

fn median(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Number, 1..=5);
    if body.choices.once_in(3) {
        return one(format!("median({})", x.name), Type::new(Vec::new(), x.ty.dtype));
    }
    let axis = body.axis(&x);
    let mut ty = x.ty.clone();
    ty.dims.remove(axis);
    let places = ty.of("i64");
    each(format!("median({}, axis=[{axis}])", x.name), vec![ty, places])
}

fn scan(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Number, 1..=5);
    let name = body.choices.of(&["cumsum", "cumprod"]);
    let exclusive = body.choices.of(&["", ", exclusive=True"]);
    if body.choices.once_in(3) {
        let ty = Type::new(vec![x.ty.size()], x.ty.dtype);
        return one(format!("{name}({}{exclusive})", x.name), ty);
    }
    one(format!("{name}({}, axis={}{exclusive})", x.name, body.axis(&x)), x.ty)
}
