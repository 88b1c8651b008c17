//! Concatenation, stacking and splitting.

use super::{Call, Form, each, int, one, plus, unknown};
use crate::body::Body;
use crate::scope::{Class, Type};
use relax_syntax::dim::{Dim, DimOp};

pub(super) const FORMS: &[Form] = &[concat, concat, stack, split, split_at, meshgrid];

fn concat(body: &mut Body) -> Option<Call> {
    let mut x = body.pick(Class::Any, 1..=4);
    let axis = body.axis(&x);
    let mut other = x.ty.clone();
    if body.choices.once_in(2) {
        other.dims[axis] = body.dim();
    }
    let y = body.exact(&other);
    x.ty.dims[axis] = plus(&x.ty.dims[axis], &other.dims[axis]);
    one(format!("concat(({}, {y}), axis={axis})", x.name), x.ty)
}

fn stack(body: &mut Body) -> Option<Call> {
    let mut x = body.pick(Class::Any, 0..=4);
    let y = body.exact(&x.ty);
    let axis = body.choices.below(x.ty.rank() + 1);
    if body.choices.once_in(3) {
        x.ty.dims.insert(axis, int(3));
        return one(format!("stack(({0}, {y}, {0}), axis={axis})", x.name), x.ty);
    }
    x.ty.dims.insert(axis, int(2));
    one(format!("stack(({}, {y}), axis={axis})", x.name), x.ty)
}

/// Of twice the dim, so that the parts are equal.
fn split(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 1..=4);
    let axis = body.axis(&x);
    let (double, mut ty) = (body.scope.fresh("s"), x.ty.clone());
    body.line(&format!("{double} = concat(({0}, {0}), axis={axis})", x.name));
    ty.dims[axis] = x.ty.dims[axis].clone();
    each(format!("split({double}, 2, axis={axis})"), vec![ty.clone(), ty])
}

/// At places that may lie beyond the end.
fn split_at(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 1..=4);
    let axis = body.axis(&x);
    let at = body.choices.of(&[1, 0, 2, 7]);
    let parts = body.scope.fresh("s");
    body.line(&format!("{parts} = split({}, [{at}], axis={axis})", x.name));
    let dim = &x.ty.dims[axis];
    let first = Dim::op(DimOp::Min, Dim::Int(at), dim.clone());
    let mut ty = x.ty.clone();
    if body.choices.once_in(2) {
        return unknown(format!("{parts}[1]"), ty.rank(), ty.dtype);
    }
    ty.dims[axis] = first;
    super::roughly(format!("{parts}[0]"), ty)
}

fn meshgrid(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 1..=1);
    let dim = body.dim();
    let y = body.exact(&Type::new(vec![dim.clone()], x.ty.dtype));
    let (indexing, dims) = if body.choices.once_in(2) {
        ("xy", vec![dim, x.ty.dims[0].clone()])
    } else {
        ("ij", vec![x.ty.dims[0].clone(), dim])
    };
    let ty = Type::new(dims, x.ty.dtype);
    each(format!("meshgrid([{}, {y}], indexing=\"{indexing}\")", x.name), vec![ty.clone(), ty])
}
