//! Collective operators of several devices, run by a single process.

use super::{Call, Form, one, roughly, times};
use crate::body::Body;
use crate::scope::Class;

pub(super) const FORMS: &[Form] =
    &[allreduce, gather, broadcast, exchange, reduce_scatter, scatter, shard, of_one_rank];

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

/// Collectives of a group of one rank: several ranks are no program of one process.
fn of_one_rank(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Number, 2..=4);
    let group = format!("{}, \"mesh[0]\", 0, 1, 0", x.name);
    let (rows, columns) = (&x.ty.dims[0], &x.ty.dims[1]);
    let call = match body.choices.of(&[0, 1, 2, 3, 4, 5, 6, 7]) {
        0 => format!("spmd.all_gather({group}, 0, {rows})"),
        1 => format!("spmd.all_reduce({group}, \"max\")"),
        2 => format!("spmd.all_to_all({group}, 0, 1, {columns})"),
        3 => format!("spmd.own_shard({}, 1, 0, 1)", x.name),
        4 => format!("spmd.only({}, 1, 0, 0)", x.name),
        5 => format!("spmd.send({group}, 0, 0, {rows})"),
        6 => format!("spmd.broadcast({group}, 0, {rows})"),
        _ => format!("spmd.reduce_scatter({group}, 1)"),
    };
    one(call, x.ty)
}
