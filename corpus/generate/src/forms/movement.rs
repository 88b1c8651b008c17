//! Data movement: views, permutations, broadcasts.

use super::{Call, Form, int, one, roughly, times};
use crate::body::Body;
use crate::scope::{Class, Type, list, product, tuple};
use relax_syntax::dim::Dim;

pub(super) const FORMS: &[Form] = &[
    broadcast,
    collapse,
    expand,
    flatten,
    flip,
    permute,
    repeat,
    reshape,
    reshape,
    squeeze,
    tile,
    reverse_sequence,
];

fn broadcast(body: &mut Body) -> Option<Call> {
    let mut x = body.pick(Class::Any, 0..=4);
    let ones = x.ty.dims.iter().position(|dim| *dim == Dim::Int(1));
    match ones {
        Some(axis) if body.choices.once_in(2) => x.ty.dims[axis] = body.dim(),
        _ => {
            let dim = body.dim();
            x.ty.dims.insert(0, dim);
        }
    }
    let shape = if body.choices.once_in(2) {
        format!("shape({})", list(&x.ty.dims))
    } else {
        tuple(&x.ty.dims)
    };
    roughly(format!("broadcast_to({}, {shape})", x.name), x.ty)
}

/// To fewer dims, and to 1 where there were more.
fn collapse(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Number, 1..=5);
    let dropped = body.choices.below(x.ty.rank());
    let mut ty = Type::new(x.ty.dims[dropped..].to_vec(), x.ty.dtype);
    let axis = body.choices.below(ty.rank());
    ty.dims[axis] = Dim::Int(1);
    if body.choices.once_in(2) {
        let target = body.exact(&ty);
        return one(format!("collapse_sum_like({}, {target})", x.name), ty);
    }
    one(format!("collapse_sum_to({}, {})", x.name, tuple(&ty.dims)), ty)
}

fn expand(body: &mut Body) -> Option<Call> {
    let mut x = body.pick(Class::Any, 0..=4);
    let axis = body.choices.below(x.ty.rank() + 1);
    x.ty.dims.insert(axis, Dim::Int(1));
    if body.choices.once_in(2) {
        x.ty.dims.insert(0, Dim::Int(1));
        return one(format!("expand_dims({}, [0, {}])", x.name, axis + 1), x.ty);
    }
    one(format!("expand_dims({}, axis=[{axis}])", x.name), x.ty)
}

fn flatten(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 0..=5);
    one(format!("flatten({})", x.name), Type::new(vec![x.ty.size()], x.ty.dtype))
}

fn flip(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 1..=5);
    one(format!("flip({}, axis={})", x.name, body.axis(&x)), x.ty)
}

/// An order of the dims: a rotation, or all of them turned around.
fn permute(body: &mut Body) -> Option<Call> {
    let mut x = body.pick(Class::Any, 0..=5);
    if x.ty.rank() < 2 || body.choices.once_in(2) {
        x.ty.dims.reverse();
        return one(format!("permute_dims({})", x.name), x.ty);
    }
    let by = body.choices.below(x.ty.rank());
    let mut axes: Vec<usize> = (0..x.ty.rank()).collect();
    axes.rotate_left(by);
    axes.swap(0, 1);
    let dims = axes.iter().map(|&axis| x.ty.dims[axis].clone()).collect();
    let text = format!("permute_dims({}, {axes:?})", x.name);
    one(text, Type::new(dims, x.ty.dtype))
}

fn repeat(body: &mut Body) -> Option<Call> {
    let mut x = body.pick(Class::Any, 1..=5);
    let times_repeated = body.choices.of(&[2, 1, 3, 0]);
    if body.choices.once_in(4) {
        let ty = Type::new(vec![times(&x.ty.size(), times_repeated)], x.ty.dtype);
        return one(format!("repeat({}, {times_repeated})", x.name), ty);
    }
    let axis = body.axis(&x);
    x.ty.dims[axis] = times(&x.ty.dims[axis], times_repeated);
    one(format!("repeat({}, {times_repeated}, axis={axis})", x.name), x.ty)
}

fn reshape(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 0..=5);
    let mut dims = x.ty.dims.clone();
    match body.choices.below(5) {
        0 => dims.reverse(),
        1 if dims.len() > 1 => {
            let merged = product(&dims[..2]);
            dims.splice(..2, [merged]);
        }
        2 => dims.push(Dim::Int(1)),
        3 => {
            // Undecided: it holds where the size is divisible.
            let other = body.dim();
            dims =
                vec![Dim::op(relax_syntax::dim::DimOp::FloorDiv, x.ty.size(), Dim::Int(2)), other];
        }
        _ if !dims.is_empty() => {
            let mut written: Vec<String> = dims.iter().map(Dim::to_string).collect();
            let last = written.len() - 1;
            written[last] = "-1".to_owned();
            let text = format!("reshape({}, ({},))", x.name, written.join(", "));
            return super::unknown(text, dims.len(), x.ty.dtype);
        }
        _ => dims.push(Dim::Int(1)),
    }
    let text = format!("reshape({}, shape({}))", x.name, list(&dims));
    roughly(text, Type::new(dims, x.ty.dtype))
}

fn squeeze(body: &mut Body) -> Option<Call> {
    let found = body.scope.such(body.choices, |ty| ty.dims.contains(&Dim::Int(1)));
    let Some(mut x) = found else { return expand(body) };
    let axis = x.ty.dims.iter().position(|dim| *dim == Dim::Int(1))?;
    if body.choices.once_in(4) && x.ty.dims.iter().all(|dim| matches!(dim, Dim::Int(_))) {
        x.ty.dims.retain(|dim| *dim != Dim::Int(1));
        return one(format!("squeeze({})", x.name), x.ty);
    }
    x.ty.dims.remove(axis);
    one(format!("squeeze({}, axis=[{axis}])", x.name), x.ty)
}

fn tile(body: &mut Body) -> Option<Call> {
    let mut x = body.pick(Class::Any, 1..=4);
    let mut repeats = Vec::new();
    for dim in &mut x.ty.dims {
        let by = body.choices.of(&[1, 2, 3]);
        *dim = times(dim, by);
        repeats.push(by);
    }
    if body.choices.once_in(3) {
        x.ty.dims.insert(0, int(2));
        repeats.insert(0, 2);
    }
    one(format!("tile({}, {repeats:?})", x.name), x.ty)
}

fn reverse_sequence(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 2..=5);
    let lengths = Type::new(vec![x.ty.dims[0].clone()], body.choices.of(&["i32", "i64"]));
    let lengths = body.exact(&lengths);
    one(format!("reverse_sequence({}, {lengths}, seq_axis=1, batch_axis=0)", x.name), x.ty)
}
