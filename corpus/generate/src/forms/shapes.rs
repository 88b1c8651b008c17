//! Shapes as values: taken from tensors, given back to operators.

use super::{Call, Form, int, one, unknown};
use crate::body::Body;
use crate::scope::{Class, Type};

pub(super) const FORMS: &[Form] = &[size, dims, by_shape, by_elements];

fn size(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 0..=5);
    one(format!("size({})", x.name), Type::new(Vec::new(), "i64"))
}

fn dims(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 1..=5);
    let shape = body.scope.fresh("s");
    body.line(&format!("{shape} = shape_of({})", x.name));
    one(format!("shape_to_tensor({shape})"), Type::new(vec![int(x.ty.rank())], "i64"))
}

/// The shape of one tensor for another.
fn by_shape(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 0..=4);
    let (shape, flat) = (body.scope.fresh("s"), body.scope.fresh("e"));
    body.line(&format!("{shape} = shape_of({})", x.name));
    body.line(&format!("{flat} = flatten({})", x.name));
    one(format!("reshape({flat}, {shape})"), x.ty)
}

/// Elements become dims that only a cast tells.
fn by_elements(body: &mut Body) -> Option<Call> {
    let dims = body.index(&[int(1)], false);
    let shape = body.scope.fresh("s");
    body.line(&format!("{shape} = tensor_to_shape({dims})"));
    unknown(format!("ones({shape}, \"f32\")"), 1, "f32")
}
