//! Gather, scatter and other indexing: indices are in range more often than not.

use super::{Call, Form, int, one, unknown};
use crate::body::Body;
use crate::scope::{Class, Type};
use relax_syntax::dim::Dim;

pub(super) const FORMS: &[Form] = &[
    take,
    take,
    slice,
    slice,
    dynamic_slice,
    gather_elements,
    gather_nd,
    scatter_elements,
    scatter_nd,
    slice_scatter,
    one_hot,
    index_tensor,
    index_put,
];

fn take(body: &mut Body) -> Option<Call> {
    let mut x = body.pick(Class::Any, 1..=4);
    let (axis, dim) = (body.axis(&x), body.dim());
    let dims = if body.choices.once_in(4) { Vec::new() } else { vec![dim] };
    let mode = body.choices.of(&["fast", "clip", "wrap"]);
    let indices = body.index(&dims, mode != "fast");
    x.ty.dims.splice(axis..=axis, dims);
    one(format!("take({}, {indices}, axis={axis}, mode=\"{mode}\")", x.name), x.ty)
}

/// Bounds may lie outside, count from the end, or cross.
fn slice(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 1..=5);
    let axis = body.axis(&x);
    let begin = body.choices.of(&["0", "1", "-2", "5"]).to_owned();
    let (begin, end, stride) = match body.choices.below(4) {
        0 => (begin, body.dim().to_string(), 1),
        1 => (begin, x.ty.dims[axis].to_string(), 2),
        2 => ("-1".to_owned(), "-100".to_owned(), -1),
        _ => (begin, body.choices.of(&["3", "-1", "100"]).to_owned(), 1),
    };
    let text = format!("strided_slice({}, [{axis}], [{begin}], [{end}], [{stride}])", x.name);
    unknown(text, x.ty.rank(), x.ty.dtype)
}

fn dynamic_slice(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 1..=3);
    let rank = x.ty.rank();
    let all = |value: &str| format!("const([{}], \"i64\")", vec![value; rank].join(", "));
    let begin = if body.choices.once_in(3) { body.index(&[int(rank)], true) } else { all("0") };
    let (end, stride) = (body.choices.of(&["3", "-1", "1"]), body.choices.of(&["1", "2", "-1"]));
    let text = format!("dynamic_strided_slice({}, {begin}, {}, {})", x.name, all(end), all(stride));
    unknown(text, rank, x.ty.dtype)
}

fn gather_elements(body: &mut Body) -> Option<Call> {
    let mut x = body.pick(Class::Any, 1..=4);
    let axis = body.axis(&x);
    x.ty.dims[axis] = body.dim();
    let indices = body.index(&x.ty.dims, false);
    one(format!("gather_elements({}, {indices}, axis={axis})", x.name), x.ty)
}

fn gather_nd(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 1..=4);
    let (depth, dim) = (1 + body.choices.below(x.ty.rank().min(2)), body.dim());
    let indices = body.index(&[dim.clone(), int(depth)], false);
    let mut dims = vec![dim];
    dims.extend(x.ty.dims[depth..].iter().cloned());
    one(format!("gather_nd({}, {indices})", x.name), Type::new(dims, x.ty.dtype))
}

fn scatter_elements(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 1..=4);
    let axis = body.axis(&x);
    let mut updates = x.ty.clone();
    updates.dims[axis] = body.dim();
    let indices = body.index(&updates.dims, false);
    let values = body.exact(&updates);
    let reduction = reduction(body, x.ty.dtype, true);
    let text = format!(
        "scatter_elements({}, {indices}, {values}, axis={axis}, reduction=\"{reduction}\")",
        x.name
    );
    one(text, x.ty)
}

fn reduction(body: &mut Body, dtype: &str, with_mean: bool) -> &'static str {
    match dtype {
        "bool" => "update",
        _ if with_mean && Class::Float.has(dtype) => {
            body.choices.of(&["update", "add", "mul", "max", "min", "mean"])
        }
        _ => body.choices.of(&["update", "add", "mul", "max", "min"]),
    }
}

fn scatter_nd(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 1..=4);
    let dim = body.dim();
    let indices = body.index(&[dim.clone(), int(1)], false);
    let mut dims = vec![dim];
    dims.extend(x.ty.dims[1..].iter().cloned());
    let values = body.exact(&Type::new(dims, x.ty.dtype));
    let reduction = reduction(body, x.ty.dtype, false);
    let text = format!("scatter_nd({}, {indices}, {values}, reduction=\"{reduction}\")", x.name);
    one(text, x.ty)
}

fn slice_scatter(body: &mut Body) -> Option<Call> {
    let mut x = body.pick(Class::Any, 1..=4);
    let axis = body.axis(&x);
    let literal = matches!(x.ty.dims[axis], Dim::Int(2..));
    let (begin, end) =
        if literal { ("0", "2".to_owned()) } else { ("0", x.ty.dims[axis].to_string()) };
    let ty = x.ty.clone();
    if literal {
        x.ty.dims[axis] = Dim::Int(2);
    }
    let source = body.exact(&x.ty);
    one(format!("slice_scatter({}, {source}, {begin}, {end}, 1, axis={axis})", x.name), ty)
}

fn one_hot(body: &mut Body) -> Option<Call> {
    let mut x = body.pick(Class::Integer, 0..=4);
    let depth = body.dim();
    x.ty.dims.push(depth.clone());
    let (on, off) = ("const(1.0, \"f32\")", "const(-0.0, \"f32\")");
    one(format!("one_hot({}, {on}, {off}, {depth}, axis=-1)", x.name), x.ty.of("f32"))
}

fn index_tensor(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 2..=4);
    let dim = body.dim();
    let first = body.index(std::slice::from_ref(&dim), false);
    let mut dims = vec![dim.clone()];
    if body.choices.once_in(2) {
        let second = body.index(&[dim], false);
        dims.extend(x.ty.dims[2..].iter().cloned());
        let ty = Type::new(dims, x.ty.dtype);
        return one(format!("index_tensor({}, [{first}, {second}])", x.name), ty);
    }
    dims.extend(x.ty.dims[1..].iter().cloned());
    one(format!("index_tensor({}, [{first}])", x.name), Type::new(dims, x.ty.dtype))
}

fn index_put(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Number, 2..=2);
    let dim = body.dim();
    let (first, second) = (
        body.index(std::slice::from_ref(&dim), false),
        body.index(std::slice::from_ref(&dim), false),
    );
    let values = body.exact(&Type::new(vec![dim], x.ty.dtype));
    let accumulate = body.choices.of(&["", ", accumulate=True"]);
    one(format!("index_put({}, [{first}, {second}], {values}{accumulate})", x.name), x.ty)
}
