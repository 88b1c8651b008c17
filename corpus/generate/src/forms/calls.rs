//! Calls of tensor programs, of libraries and of functions as values; effects.

use super::{Call, Form, Made, one};
use crate::body::Body;
use crate::scope::{Class, Type};

pub(super) const FORMS: &[Form] = &[
    tensor_program,
    tensor_program,
    in_place,
    library,
    library,
    packed,
    by_name,
    by_name,
    closure,
    effect,
];

fn tensor_program(body: &mut Body) -> Option<Call> {
    body.call_tensor_program()
}

fn in_place(body: &mut Body) -> Option<Call> {
    body.call_in_place()
}

fn library(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::F32, 2..=2);
    let (rows, inner) = (x.ty.dims[0].clone(), x.ty.dims[1].clone());
    if body.choices.once_in(3) {
        let weight = body.exact(&Type::f32(vec![inner]));
        let ty = x.ty.text();
        let text = format!("call_dps_library(\"cutlass.rms_norm\", [{}, {weight}], {ty})", x.name);
        return one(text, x.ty);
    }
    let columns = body.dim();
    let w = body.exact(&Type::f32(vec![inner, columns.clone()]));
    let ty = Type::f32(vec![rows, columns]);
    let name = body.choices.of(&["cublas.matmul", "cublas.matmul_relu", "cutlass.matmul"]);
    one(format!("call_dps_library(\"{name}\", [{}, {w}], {})", x.name, ty.text()), ty)
}

/// One that is pure, so that it may stand anywhere; the other at the top of a function.
fn packed(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::F32, 0..=4);
    let name = if body.may_have_effects() { "call_packed" } else { "call_pure_packed" };
    let name = if body.choices.once_in(2) { "call_pure_packed" } else { name };
    one(format!("{name}(\"builtin.relu\", {}, ret={})", x.name, x.ty.text()), x.ty)
}

/// Operators under names, as lowering leaves them.
fn by_name(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Float, 0..=4);
    let name = body.choices.of(&["exp", "relu", "tanh", "negative"]);
    if body.choices.once_in(2) && body.may_have_effects() {
        let raw = body.scope.fresh("s");
        body.line(&format!("{raw} = builtin.run_operator(\"{name}\", {})", x.name));
        return one(format!("match_cast({raw}, {})", x.ty.text()), x.ty);
    }
    one(format!("builtin.call_operator(\"{name}\", {})", x.name), x.ty)
}

/// Some arguments now, the others later.
fn closure(body: &mut Body) -> Option<Call> {
    body.call_by_closure()
}

fn effect(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 0..=3);
    if !body.may_have_effects() {
        return None;
    }
    if body.choices.once_in(3) {
        let test = body.scope.fresh("c");
        body.line(&format!("{test} = greater(size({}), const(0, \"i64\"))", x.name));
        body.line(&format!("assert_op({test}, format=\"it has elements\")"));
    } else {
        body.line(&format!("print(\"it is {{}}\", {})", x.name));
    }
    Some(Call { text: String::new(), made: Made::Nothing })
}
