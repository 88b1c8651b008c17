//! Normalization over axes or channels, softmax.

use super::{Call, Form, each, one};
use crate::body::Body;
use crate::scope::{Class, Type};

pub(super) const FORMS: &[Form] =
    &[softmax, softmax, layer_norm, rms_norm, group_norm, instance_norm, batch_norm];

fn softmax(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Float, 1..=4);
    let name = body.choices.of(&["softmax", "log_softmax"]);
    one(format!("{name}({}, axis={})", x.name, body.axis(&x)), x.ty)
}

/// Over the last axis or the last two.
fn layer_norm(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Float, 1..=4);
    let first = x.ty.rank() - 1 - usize::from(x.ty.rank() > 1 && body.choices.once_in(2));
    let ty = Type::new(x.ty.dims[first..].to_vec(), x.ty.dtype);
    let (gamma, beta) = (body.exact(&ty), body.exact(&ty));
    let axes: Vec<usize> = (first..x.ty.rank()).collect();
    let part = body.choices.of(&["", ", center=False", ", scale=False"]);
    one(format!("layer_norm({}, {gamma}, {beta}, axes={axes:?}{part})", x.name), x.ty)
}

fn rms_norm(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Float, 1..=4);
    if body.choices.once_in(3) {
        return one(format!("rms_norm({})", x.name), x.ty);
    }
    let last = x.ty.dims[x.ty.rank() - 1].clone();
    let weight = body.exact(&Type::new(vec![last], x.ty.dtype));
    one(format!("rms_norm({}, {weight})", x.name), x.ty)
}

/// Of four channels.
fn group_norm(body: &mut Body) -> Option<Call> {
    let dims = vec![body.dim(), super::int(4), body.dim()];
    let ty = Type::new(dims, body.choices.of(&["f32", "f16", "f64"]));
    let x = body.exact(&ty);
    let channels = Type::new(vec![super::int(4)], ty.dtype);
    let (gamma, beta) = (body.exact(&channels), body.exact(&channels));
    let groups = body.choices.of(&[1, 2, 4]);
    let text =
        format!("group_norm({x}, {gamma}, {beta}, num_groups={groups}, channel_axis=1, axes=[2])");
    one(text, ty)
}

fn instance_norm(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Float, 3..=3);
    let channels = Type::new(vec![x.ty.dims[1].clone()], x.ty.dtype);
    let (gamma, beta) = (body.exact(&channels), body.exact(&channels));
    let text = format!("instance_norm({}, {gamma}, {beta}, channel_axis=1, axes=[2])", x.name);
    one(text, x.ty)
}

fn batch_norm(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Float, 2..=4);
    let channels = Type::new(vec![x.ty.dims[1].clone()], x.ty.dtype);
    let parameters: Vec<String> = (0..4).map(|_| body.exact(&channels)).collect();
    let training = body.choices.of(&["", ", training=False"]);
    let text = format!("batch_norm({}, {}, axis=1{training})", x.name, parameters.join(", "));
    each(text, vec![x.ty, channels.clone(), channels])
}
