//! Creation of tensors from dims and a number; changes of dtype.

use super::{Call, Form, each, int, one, roughly};
use crate::body::Body;
use crate::constant::{dtype, scalar};
use crate::scope::{Class, Type, tuple};
use relax_syntax::dim::{Dim, DimOp};

pub(super) const FORMS: &[Form] =
    &[filled, like, arange, eye, eye_like, triangle, triangle, empty, random_bits];
pub(super) const CASTS: &[Form] = &[astype];

fn astype(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 0..=5);
    let dtype = dtype(body.choices);
    one(format!("astype({}, \"{dtype}\")", x.name), x.ty.of(dtype))
}

/// Of the dims of a tensor, or of one more.
fn dims(body: &mut Body) -> Vec<Dim> {
    let mut dims = body.pick(Class::Any, 0..=4).ty.dims;
    if body.choices.once_in(3) {
        let dim = body.dim();
        dims.push(dim);
    }
    dims
}

fn filled(body: &mut Body) -> Option<Call> {
    let (dims, dtype) = (dims(body), dtype(body.choices));
    let shape = tuple(&dims);
    let text = match body.choices.below(4) {
        0 => format!("zeros({shape}, \"{dtype}\")"),
        1 => format!("ones({shape}, \"{dtype}\")"),
        2 => format!("full({shape}, {})", scalar(body.choices, dtype)),
        _ => format!("full({shape}, 1, \"{dtype}\")"),
    };
    one(text, Type { dims, dtype })
}

fn like(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 0..=5);
    let value = scalar(body.choices, x.ty.dtype);
    let text = match body.choices.below(3) {
        0 => format!("zeros_like({})", x.name),
        1 => format!("ones_like({})", x.name),
        _ => format!("full_like({}, {value})", x.name),
    };
    one(text, x.ty)
}

fn arange(body: &mut Body) -> Option<Call> {
    let dim = body.dim();
    let dtype = body.choices.of(&["i64", "f32", "i32", "u8", "f16"]);
    let (text, length) = match body.choices.below(3) {
        0 => (format!("arange(0, {dim}, 1, dtype=\"{dtype}\")"), dim),
        1 => (format!("arange({dim}, dtype=\"{dtype}\")"), dim),
        _ => {
            let half = Dim::op(DimOp::CeilDiv, dim.clone(), Dim::Int(2));
            (format!("arange({dim}, 0, -2, dtype=\"{dtype}\")"), half)
        }
    };
    roughly(text, Type::new(vec![length], dtype))
}

fn eye(body: &mut Body) -> Option<Call> {
    let (n, m) = (body.dim(), body.dim());
    let (k, dtype) = (body.choices.of(&[0, 1, -1, 3]), dtype(body.choices));
    let ty = Type::new(vec![n.clone(), m.clone()], dtype);
    roughly(format!("eye({n}, {m}, {k}, dtype=\"{dtype}\")"), ty)
}

fn eye_like(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 2..=2);
    one(format!("eye_like({}, {})", x.name, body.choices.of(&[0, 1, -2])), x.ty)
}

fn triangle(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 2..=5);
    let name = body.choices.of(&["tril", "triu"]);
    one(format!("{name}({}, {})", x.name, body.choices.of(&[0, 1, -1, 5])), x.ty)
}

/// Its elements must not be read: what only looks at its dims may.
fn empty(body: &mut Body) -> Option<Call> {
    let (dims, dtype) = (dims(body), dtype(body.choices));
    let text = format!("empty({}, \"{dtype}\")", tuple(&dims));
    let ty = Type { dims, dtype };
    if body.choices.once_in(8) {
        return one(text, ty);
    }
    let name = body.scope.fresh("e");
    body.line(&format!("{name} = {text}"));
    one(format!("ones_like({name})"), ty)
}

fn random_bits(body: &mut Body) -> Option<Call> {
    let (dims, state) = (dims(body), super::neural::state(body));
    let stream = body.choices.of(&["", ", 3"]);
    let text = format!("random_bits({state}, {}{stream})", tuple(&dims));
    each(text, vec![Type::new(vec![int(4)], "u32"), Type::new(dims, "u32")])
}
