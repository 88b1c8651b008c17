//! Collective operators of several devices, run by a single process.

use super::{Call, Form, one, roughly, times};
use crate::body::Body;
use crate::scope::Class;

pub(super) const FORMS: &[Form] =
    &[allreduce, gather, broadcast, exchange, reduce_scatter, scatter, shard];

fn allreduce(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Number, 0..=4);
    let name = body.choices.of(&["sum", "prod", "min", "max", "avg"]);
    one(format!("allreduce({}, \"{name}\")", x.name), x.ty)
}

fn gather(body: &mut Body) -> Option<Call> {
    let mut x = body.pick(Class::Any, 1..=4);
    x.ty.dims[0] = times(&x.ty.dims[0], 2);
    one(format!("allgather({}, 2)", x.name), x.ty)
}

fn broadcast(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 0..=4);
    one(format!("broadcast_from_worker0({})", x.name), x.ty)
}

fn exchange(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 1..=4);
    one(format!("all_to_all({}, 1, split_axis=0, concat_axis=0)", x.name), x.ty)
}

/// Of twice the dim, so that it can be divided.
fn doubled(body: &mut Body, class: Class) -> (String, crate::scope::Type) {
    let x = body.pick(class, 1..=4);
    let double = body.scope.fresh("s");
    body.line(&format!("{double} = concat(({0}, {0}), axis=0)", x.name));
    (double, x.ty)
}

fn reduce_scatter(body: &mut Body) -> Option<Call> {
    let (double, ty) = doubled(body, Class::Number);
    let name = body.choices.of(&["sum", "prod", "min", "max", "avg"]);
    roughly(format!("reduce_scatter({double}, 2, \"{name}\", axis=0)"), ty)
}

fn scatter(body: &mut Body) -> Option<Call> {
    let (double, ty) = doubled(body, Class::Any);
    roughly(format!("scatter_from_worker0({double}, 2, axis=0)"), ty)
}

/// Sharding is told and taken back; a value on a mesh is no operand of other operators.
fn shard(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 1..=4);
    let (placed, moved) = (body.scope.fresh("s"), body.scope.fresh("s"));
    body.line(&format!("{placed} = annotate_sharding({}, \"mesh[0]\", \"S[0]\")", x.name));
    body.line(&format!("{moved} = redistribute({placed}, \"mesh[0]\", \"R\")"));
    one(format!("zeros_like({})", x.name), x.ty)
}
