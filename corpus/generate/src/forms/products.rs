//! Matrix and tensor products.

use super::{Call, Form, one};
use crate::body::Body;
use crate::scope::{Class, Type};

pub(super) const FORMS: &[Form] = &[matmul, matmul, batched, einsum, outer];

/// With a matrix or vector made for it, or with its own transpose.
fn matmul(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Number, 1..=4);
    let inner = x.ty.dims[x.ty.rank() - 1].clone();
    let mut dims = x.ty.dims.clone();
    dims.pop();
    let ty = |dims| Type::new(dims, x.ty.dtype);
    if body.choices.once_in(4) {
        let y = body.exact(&ty(vec![inner]));
        return one(format!("matmul({}, {y})", x.name), ty(dims));
    }
    let columns = body.dim();
    let y = body.exact(&ty(vec![inner, columns.clone()]));
    dims.push(columns);
    one(format!("matmul({}, {y})", x.name), ty(dims))
}

fn batched(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Number, 3..=4);
    let mut dims = x.ty.dims.clone();
    let rank = dims.len();
    dims.swap(rank - 1, rank - 2);
    let y = body.exact(&Type::new(dims, x.ty.dtype));
    let mut dims = x.ty.dims.clone();
    dims[rank - 1] = dims[rank - 2].clone();
    one(format!("matmul({}, {y})", x.name), Type::new(dims, x.ty.dtype))
}

fn einsum(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Number, 2..=2);
    let (rows, inner) = (x.ty.dims[0].clone(), x.ty.dims[1].clone());
    let columns = body.dim();
    let y = body.exact(&Type::new(vec![inner.clone(), columns.clone()], x.ty.dtype));
    let (subscripts, dims) = match body.choices.below(5) {
        0 => ("ab,bc->ac", vec![rows, columns]),
        1 => ("ab,bc->ca", vec![columns, rows]),
        2 => ("ab,bc->b", vec![inner]),
        3 => ("ab,bc->abc", vec![rows, inner, columns]),
        _ => ("ab,bc->", Vec::new()),
    };
    let text = format!("einsum(({}, {y}), subscripts=\"{subscripts}\")", x.name);
    one(text, Type::new(dims, x.ty.dtype))
}

fn outer(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Number, 1..=1);
    let dim = body.dim();
    let y = body.exact(&Type::new(vec![dim.clone()], x.ty.dtype));
    let ty = Type::new(vec![x.ty.dims[0].clone(), dim], x.ty.dtype);
    one(format!("outer({}, {y})", x.name), ty)
}
