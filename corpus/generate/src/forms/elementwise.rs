//! Elementwise operators of one, two and three operands.

use super::{Call, Form, one};
use crate::body::Body;
use crate::scope::Class;

pub(super) const FORMS: &[Form] =
    &[of_floats, of_floats, of_numbers, tests, logical_not, bitwise_not, clip];
pub(super) const BINARY: &[Form] = &[
    arithmetic,
    arithmetic,
    arithmetic,
    of_two_floats,
    comparison,
    comparison,
    logical,
    bitwise,
    shift,
];
pub(super) const TERNARY: &[Form] = &[fma, choice, choice];

fn of_floats(body: &mut Body) -> Option<Call> {
    const NAMES: [&str; 18] = [
        "exp", "log", "sqrt", "rsqrt", "sigmoid", "tanh", "sin", "cos", "tan", "asin", "acos",
        "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erf",
    ];
    let x = body.pick(Class::Float, 0..=5);
    one(format!("{}({})", body.choices.of(&NAMES), x.name), x.ty)
}

fn of_numbers(body: &mut Body) -> Option<Call> {
    const NAMES: [&str; 8] =
        ["negative", "abs", "square", "sign", "round", "floor", "ceil", "trunc"];
    let x = body.pick(Class::Number, 0..=5);
    one(format!("{}({})", body.choices.of(&NAMES), x.name), x.ty)
}

fn tests(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Number, 0..=5);
    let name = body.choices.of(&["isnan", "isinf", "isfinite"]);
    one(format!("{name}({})", x.name), x.ty.of("bool"))
}

fn logical_not(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 0..=5);
    one(format!("logical_not({})", x.name), x.ty.of("bool"))
}

fn bitwise_not(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::IntegerOrBool, 0..=5);
    one(format!("bitwise_not({})", x.name), x.ty)
}

fn clip(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Number, 0..=5);
    let bounds = if Class::Float.has(x.ty.dtype) {
        body.choices.of(&["0.0, 1.0", "-0.5, 0.5", "1.0, -1.0", "-0.0, 0.0"])
    } else {
        body.choices.of(&["0, 1", "1, 3", "3, 2"])
    };
    one(format!("clip({}, {bounds})", x.name), x.ty)
}

/// A call of two operands that broadcast, in either order.
fn call(
    body: &mut Body,
    class: Class,
    names: &[&'static str],
    dtype: Option<&'static str>,
) -> Call {
    let x = body.pick(class, 0..=5);
    let y = body.partner(&x);
    let name = body.choices.of(names);
    let (a, b) = if body.choices.once_in(2) { (y, x.name) } else { (x.name, y) };
    let ty = dtype.map_or_else(|| x.ty.clone(), |dtype| x.ty.of(dtype));
    Call { text: format!("{name}({a}, {b})"), made: super::Made::One(ty) }
}

fn arithmetic(body: &mut Body) -> Option<Call> {
    const NAMES: [&str; 10] = [
        "add",
        "subtract",
        "multiply",
        "divide",
        "maximum",
        "minimum",
        "power",
        "floor_divide",
        "floor_mod",
        "mod",
    ];
    Some(call(body, Class::Number, &NAMES, None))
}

fn of_two_floats(body: &mut Body) -> Option<Call> {
    Some(call(body, Class::Float, &["atan2", "log_add_exp"], None))
}

fn comparison(body: &mut Body) -> Option<Call> {
    const NAMES: [&str; 6] =
        ["less", "equal", "greater", "less_equal", "greater_equal", "not_equal"];
    Some(call(body, Class::Any, &NAMES, Some("bool")))
}

fn logical(body: &mut Body) -> Option<Call> {
    Some(call(body, Class::Any, &["logical_and", "logical_or", "logical_xor"], Some("bool")))
}

fn bitwise(body: &mut Body) -> Option<Call> {
    let names = ["bitwise_and", "bitwise_or", "bitwise_xor"];
    Some(call(body, Class::IntegerOrBool, &names, None))
}

fn shift(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Integer, 0..=5);
    let name = body.choices.of(&["left_shift", "right_shift"]);
    let by = match body.choices.below(4) {
        0 => body.partner(&x),
        _ => format!("const({}, \"{}\")", body.choices.of(&[1, 7, 0, 8, 31]), x.ty.dtype),
    };
    one(format!("{name}({}, {by})", x.name), x.ty)
}

fn fma(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Number, 0..=5);
    let (y, z) = (body.exact(&x.ty), body.exact(&x.ty));
    one(format!("ewise_fma({}, {y}, {z})", x.name), x.ty)
}

fn choice(body: &mut Body) -> Option<Call> {
    let x = body.pick(Class::Any, 0..=5);
    let test = if body.choices.once_in(3) {
        body.exact(&x.ty.of("bool"))
    } else {
        let test = body.scope.fresh("c");
        let name = body.choices.of(&["less", "greater_equal", "not_equal"]);
        let other = body.partner(&x);
        body.line(&format!("{test} = {name}({}, {other})", x.name));
        test
    };
    let y = body.partner(&x);
    one(format!("where({test}, {}, {y})", x.name), x.ty)
}
