//! Sorting, ranking and sets: some dims of results depend on elements.

use super::{Call, Form, each, one, unknown};
use crate::body::Body;
use crate::scope::{Class, Type};
use relax_syntax::dim::Dim;

pub(super) const FORMS: &[Form] = &[sort, argsort, topk, unique, nonzero, bucketize];

fn sort(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 1..=4);
    let descending = body.choices.of(&["", ", descending=True"]);
    one(format!("sort({}, axis={}{descending})", x.name, body.axis(&x)), x.ty)
}

fn argsort(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 1..=4);
    let descending = body.choices.of(&["", ", descending=True"]);
    let text = format!("argsort({}, axis={}{descending}, dtype=\"i64\")", x.name, body.axis(&x));
    one(text, x.ty.of("i64"))
}

fn topk(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 1..=4);
    let (axis, k) = (body.axis(&x), body.choices.of(&[1, 2]));
    let largest = body.choices.of(&["", ", largest=False"]);
    let mut ty = x.ty.clone();
    ty.dims[axis] = Dim::Int(k);
    // A literal extent that is too small would be wrong for all dims.
    if matches!(x.ty.dims[axis], Dim::Int(extent) if extent < k) {
        return None;
    }
    if body.choices.once_in(2) {
        let places = ty.of("i32");
        return each(format!("topk({}, {k}, axis={axis}{largest})", x.name), vec![ty, places]);
    }
    one(format!("topk({}, {k}, axis={axis}, ret_type=\"values\"{largest})", x.name), ty)
}

fn unique(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 1..=3);
    match body.choices.below(3) {
        0 => unknown(format!("unique({})", x.name), 1, x.ty.dtype),
        1 => {
            let axis = body.axis(&x);
            unknown(format!("unique({}, axis={axis})", x.name), x.ty.rank(), x.ty.dtype)
        }
        _ => {
            let parts = body.scope.fresh("s");
            body.line(&format!("{parts} = unique({}, False, return_inverse=True)", x.name));
            one(format!("{parts}[1]"), Type::new(vec![x.ty.size()], "i64"))
                .map(|call| super::Call { made: super::Made::Unknown(1, "i64"), ..call })
        }
    }
}

fn nonzero(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 0..=4);
    unknown(format!("nonzero({})", x.name), 2, "i64")
}

fn bucketize(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Number, 0..=4);
    let dim = body.dim();
    let boundaries = body.exact(&Type::new(vec![dim], x.ty.dtype));
    let (right, narrow) =
        (body.choices.of(&["", ", right=True"]), body.choices.of(&["", ", out_int32=True"]));
    let dtype = if narrow.is_empty() { "i64" } else { "i32" };
    one(format!("bucketize({}, {boundaries}{narrow}{right})", x.name), x.ty.of(dtype))
}
