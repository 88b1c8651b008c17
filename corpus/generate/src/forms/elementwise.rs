//! Elementwise operators of one, two and three operands. Most forms come from the table: the rows with a
//! formula, each with the dtypes that it accepts.

use super::{Call, Form, one};
use crate::body::Body;
use crate::scope::Class;
use relax_semantics::ops::{self, Defined, Kind, Layout, Operator};
use relax_syntax::dtype::DType;
use std::sync::LazyLock;

pub(super) const FORMS: &[Form] = &[unary, unary, unary, unary, unary, unary, clip];
pub(super) const BINARY: &[Form] =
    &[binary, binary, binary, binary, binary, binary, binary, binary, shift];
pub(super) const TERNARY: &[Form] = &[fma, choice, choice];

/// A row whose tensors have one dtype and whose other parameters have defaults.
#[derive(Clone, Copy)]
struct Row {
    name: &'static str,
    class: Class,
    is_truth: bool,
}

static UNARY: LazyLock<Vec<Row>> = LazyLock::new(|| rows(1, |_| true));
static PAIRS: LazyLock<Vec<Row>> = LazyLock::new(|| rows(2, |row| !is_shift(row)));
static SHIFTS: LazyLock<Vec<Row>> = LazyLock::new(|| rows(2, is_shift));

fn is_shift(row: &Operator) -> bool {
    let partial = row.elementwise().and_then(|own| own.partial);
    partial.is_some_and(|partial| partial.defined == Defined::BelowWidth)
}

fn rows(tensors: usize, takes: fn(&Operator) -> bool) -> Vec<Row> {
    let is_form = |row: &&Operator| {
        let own = row.params.iter().filter(|param| param.kind == Kind::Tensor).count();
        let given = row.params.iter().filter(|param| param.default.is_none()).count();
        let broadcasts = row.elementwise().is_some_and(|own| own.layout == Layout::Broadcast);
        broadcasts && own == tensors && given == tensors && takes(row)
    };
    let of_row = |row: &'static Operator| {
        let result = |dtype| row.result_dtype(&vec![dtype; tensors]);
        let accepted = [DType::F32, DType::I32, DType::Bool].map(|dtype| result(dtype).is_some());
        let (class, one) = match accepted {
            [true, true, true] => (Class::Any, DType::F32),
            [true, true, false] => (Class::Number, DType::F32),
            [true, false, false] => (Class::Float, DType::F32),
            [false, true, true] => (Class::IntegerOrBool, DType::I32),
            [false, true, false] => (Class::Integer, DType::I32),
            _ => return None,
        };
        let is_truth = result(one) == Some(DType::Bool);
        Some(Row { name: row.short_name(), class, is_truth })
    };
    ops::all().filter(is_form).filter_map(of_row).collect()
}

fn unary(body: &mut Body) -> Option<Call> {
    let row = body.choices.of(&UNARY);
    let x = body.pick(row.class, 0..=5);
    let ty = if row.is_truth { x.ty.of("bool") } else { x.ty };
    one(format!("{}({})", row.name, x.name), ty)
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

/// Two operands that broadcast, in either order.
fn binary(body: &mut Body) -> Option<Call> {
    let row = body.choices.of(&PAIRS);
    let x = body.pick(row.class, 0..=5);
    let y = body.partner(&x);
    let ty = if row.is_truth { x.ty.of("bool") } else { x.ty };
    let (a, b) = if body.choices.once_in(2) { (y, x.name) } else { (x.name, y) };
    one(format!("{}({a}, {b})", row.name), ty)
}

fn shift(body: &mut Body) -> Option<Call> {
    let row = body.choices.of(&SHIFTS);
    let x = body.pick(row.class, 0..=5);
    let by = match body.choices.below(4) {
        0 => body.partner(&x),
        _ => format!("const({}, \"{}\")", body.choices.of(&[1, 7, 0, 8, 31]), x.ty.dtype),
    };
    one(format!("{}({}, {by})", row.name, x.name), x.ty)
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
