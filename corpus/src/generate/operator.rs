//! Calls of operators on variables in scope, with the type of each result.

use super::choices::Choices;
use super::scope::{Scope, Type, Var, tuple};
use relax_syntax::dim::{Dim, DimOp};

type Typed = (String, Type);
type Rule = fn(&mut Choices, &Scope, Var) -> Option<Typed>;

/// The forms of calls; each takes a tensor of f32.
const RULES: &[Rule] = &[
    unary, binary, stretched, product, rearranged, reshaped, joined, reduced, compared, converted,
    created, extended, scanned,
];

/// A call; `exp` of something where the chosen form has no operands or would get too large.
pub(super) fn operator(choices: &mut Choices, scope: &Scope) -> Typed {
    let rule = RULES[choices.below(RULES.len())];
    let operand = scope.float(choices);
    let fallback = (format!("exp({})", operand.name), operand.ty.clone());
    rule(choices, scope, operand).filter(|(_, ty)| ty.is_small()).unwrap_or(fallback)
}

fn unary(choices: &mut Choices, _: &Scope, x: Var) -> Option<Typed> {
    let names =
        ["exp", "relu", "tanh", "negative", "abs", "sigmoid", "sqrt", "log", "nn.gelu", "round"];
    Some((format!("{}({})", choices.of(&names), x.name), x.ty))
}

/// Two operands of one type, or one of them a scalar.
fn binary(choices: &mut Choices, scope: &Scope, x: Var) -> Option<Typed> {
    let name =
        choices.of(&["add", "subtract", "multiply", "divide", "maximum", "minimum", "power"]);
    let y = match choices.below(3) {
        0 => "const(0.5, \"f32\")".to_owned(),
        _ => scope.such(choices, |ty| *ty == x.ty)?.name,
    };
    let (a, b) = if choices.once_in(2) { (y, x.name) } else { (x.name, y) };
    Some((format!("{name}({a}, {b})"), x.ty))
}

/// Against its own sums: a dim of 1 stretches.
fn stretched(choices: &mut Choices, _: &Scope, x: Var) -> Option<Typed> {
    let axis = choices.below(x.ty.dims.len().max(1));
    (axis < x.ty.dims.len()).then(|| {
        let sums = format!("sum({}, axis=[{axis}], keepdims=True)", x.name);
        (format!("subtract({}, {sums})", x.name), x.ty)
    })
}

/// With a matrix whose first dim is its last, or with its own transpose.
fn product(choices: &mut Choices, scope: &Scope, x: Var) -> Option<Typed> {
    let [rows, inner] = x.ty.dims.as_slice() else { return None };
    let fits = |ty: &Type| ty.dtype == "f32" && ty.dims.len() == 2 && ty.dims[0] == *inner;
    match scope.such(choices, fits) {
        Some(y) if choices.once_in(2) => {
            let ty = Type::f32(vec![rows.clone(), y.ty.dims[1].clone()]);
            Some((format!("matmul({}, {})", x.name, y.name), ty))
        }
        _ => {
            let ty = Type::f32(vec![rows.clone(), rows.clone()]);
            Some((format!("matmul({0}, permute_dims({0}))", x.name), ty))
        }
    }
}

fn rearranged(choices: &mut Choices, _: &Scope, x: Var) -> Option<Typed> {
    let mut dims = x.ty.dims.clone();
    let axis = choices.below(dims.len().max(1));
    match choices.below(3) {
        0 => {
            dims.reverse();
            Some((format!("permute_dims({})", x.name), Type::f32(dims)))
        }
        1 => {
            dims.insert(axis, Dim::Int(1));
            Some((format!("expand_dims({}, axis=[{axis}])", x.name), Type::f32(dims)))
        }
        _ if dims.is_empty() => None,
        _ => Some((format!("flip({}, axis={axis})", x.name), x.ty)),
    }
}

fn reshaped(choices: &mut Choices, _: &Scope, x: Var) -> Option<Typed> {
    if choices.once_in(2) {
        let size = x.ty.size();
        return Some((format!("flatten({})", x.name), Type::f32(vec![size])));
    }
    let mut dims = x.ty.dims.clone();
    dims.reverse();
    let shape = dims.iter().map(Dim::to_string).collect::<Vec<_>>().join(", ");
    Some((format!("reshape({}, shape({shape}))", x.name), Type::f32(dims)))
}

/// Behind itself, or stacked on itself.
fn joined(choices: &mut Choices, _: &Scope, x: Var) -> Option<Typed> {
    let mut dims = x.ty.dims.clone();
    let axis = choices.below(dims.len().max(1));
    if choices.once_in(2) {
        dims.insert(0, Dim::Int(2));
        return Some((format!("stack(({0}, exp({0})), axis=0)", x.name), Type::f32(dims)));
    }
    let dim = dims.get_mut(axis)?;
    *dim = Dim::op(DimOp::Add, dim.clone(), dim.clone());
    Some((format!("concat(({0}, {0}), axis={axis})", x.name), Type::f32(dims)))
}

fn reduced(choices: &mut Choices, _: &Scope, x: Var) -> Option<Typed> {
    let name = choices.of(&["sum", "mean", "max", "min", "prod", "variance"]);
    let mut dims = x.ty.dims.clone();
    if dims.is_empty() || choices.once_in(4) {
        return Some((format!("{name}({})", x.name), Type::f32(Vec::new())));
    }
    let axis = choices.below(dims.len());
    if choices.once_in(2) {
        dims[axis] = Dim::Int(1);
        let text = format!("{name}({}, axis=[{axis}], keepdims=True)", x.name);
        return Some((text, Type::f32(dims)));
    }
    dims.remove(axis);
    Some((format!("{name}({}, axis=[{axis}])", x.name), Type::f32(dims)))
}

/// A comparison, or a choice by one.
fn compared(choices: &mut Choices, scope: &Scope, x: Var) -> Option<Typed> {
    let name = choices.of(&["less", "greater_equal", "equal", "not_equal"]);
    let test = format!("{name}({}, const(0.25, \"f32\"))", x.name);
    if choices.once_in(2) {
        return Some((test, Type { dtype: "bool", ..x.ty }));
    }
    let other = scope.such(choices, |ty| *ty == x.ty)?.name;
    Some((format!("where({test}, {}, {other})", x.name), x.ty))
}

fn converted(choices: &mut Choices, _: &Scope, x: Var) -> Option<Typed> {
    let dtype = choices.of(&["f16", "bf16", "f64", "i32", "i64", "u8", "bool"]);
    Some((format!("astype({}, \"{dtype}\")", x.name), Type { dtype: static_name(dtype), ..x.ty }))
}

/// The name of a dtype for as long as the program runs.
fn static_name(dtype: &str) -> &'static str {
    relax_syntax::dtype::DType::parse(dtype).map_or("f32", relax_syntax::dtype::DType::name)
}

fn created(choices: &mut Choices, _: &Scope, x: Var) -> Option<Typed> {
    let shape = tuple(&x.ty.dims);
    match choices.below(3) {
        0 => Some((format!("zeros({shape}, \"f32\")"), x.ty)),
        1 => Some((format!("full_like({}, const(-0.0, \"f32\"))", x.name), x.ty)),
        _ => {
            let dim = x.ty.dims.first()?.clone();
            let ty = Type { dims: vec![dim.clone()], dtype: "i64" };
            Some((format!("arange(0, {dim}, 1, dtype=\"i64\")"), ty))
        }
    }
}

/// Under one more dim, or repeated.
fn extended(choices: &mut Choices, _: &Scope, x: Var) -> Option<Typed> {
    let mut dims = x.ty.dims.clone();
    if choices.once_in(2) {
        dims.insert(0, Dim::Int(2));
        let shape = dims.iter().map(Dim::to_string).collect::<Vec<_>>().join(", ");
        return Some((format!("broadcast_to({}, shape({shape}))", x.name), Type::f32(dims)));
    }
    let axis = choices.below(dims.len().max(1));
    let dim = dims.get_mut(axis)?;
    *dim = Dim::op(DimOp::Mul, dim.clone(), Dim::Int(2));
    Some((format!("repeat({}, 2, axis={axis})", x.name), Type::f32(dims)))
}

/// Along the last axis.
fn scanned(choices: &mut Choices, _: &Scope, x: Var) -> Option<Typed> {
    let name = choices.of(&["softmax", "cumsum", "log_softmax"]);
    (!x.ty.dims.is_empty()).then(|| (format!("{name}({}, axis=-1)", x.name), x.ty))
}
