//! `const([[1.0, 2.0]], "f32")` and `param("name", Tensor((2,), "f32"))`.

use super::annotation::{annotation_of_expr, dtype_of_expr};
use super::codes;
use super::dim::DimTable;
use crate::annotation::Annotation;
use crate::ast::{Argument, Expr, ExprKind, UnaryOp};
use crate::diagnostic::Diagnostic;
use crate::dim::Dim;
use crate::dtype::{Class, DType};
use crate::ir::graph::Literals;
use crate::ir::{Constant, External};

type Read<T> = Result<T, Diagnostic>;

/// Reads the arguments of `const(value, dtype)`.
///
/// # Errors
/// What is wrong, at its place.
pub fn constant_of_arguments(call: &Expr, arguments: &[Argument]) -> Read<Constant> {
    let [value, dtype] = arguments else {
        return Err(wrong(call, "`const` takes a value and a dtype"));
    };
    let dtype = dtype_of_expr(&dtype.value)?;
    constant(&value.value, dtype)
}

/// Reads nested lists of numbers as a constant of `dtype`; floats are rounded to it once.
///
/// # Errors
/// When the lists form no box, or an element does not fit the dtype.
pub fn constant(value: &Expr, dtype: DType) -> Read<Constant> {
    let mut shape = Vec::new();
    let mut inner = value;
    while let ExprKind::List(items) = &inner.kind {
        shape.push(items.len());
        match items.first() {
            Some(first) => inner = first,
            None => break,
        }
    }
    let mut data =
        if dtype.is_float() { Literals::Float(Vec::new()) } else { Literals::Int(Vec::new()) };
    collect(value, &shape, dtype, &mut data)?;
    Ok(Constant { shape, dtype, data })
}

fn collect(value: &Expr, shape: &[usize], dtype: DType, data: &mut Literals) -> Read<()> {
    if let ExprKind::List(items) = &value.kind {
        let Some((&extent, rest)) = shape.split_first() else {
            return Err(wrong(value, "expected a number, found a list: the lists form no box"));
        };
        if items.len() != extent {
            let message =
                format!("expected {extent} elements as in the first list, found {}", items.len());
            return Err(wrong(value, &message));
        }
        return items.iter().try_for_each(|item| collect(item, rest, dtype, data));
    }
    if !shape.is_empty() {
        return Err(wrong(value, "expected a list, found a number: the lists form no box"));
    }
    match data {
        Literals::Float(values) => values.push(float_element(value, dtype)?),
        Literals::Int(values) => values.push(int_element(value, dtype)?),
    }
    Ok(())
}

fn float_element(value: &Expr, dtype: DType) -> Read<f64> {
    let number = number_of_expr(value).ok_or_else(|| wrong(value, "expected a number"))?;
    Ok(round(dtype, number))
}

/// A number literal: with a sign, `inf` and `nan` too.
#[must_use]
pub fn number_of_expr(value: &Expr) -> Option<f64> {
    match &value.kind {
        ExprKind::Float(number) => Some(*number),
        ExprKind::Int(number) => Some(*number as f64),
        ExprKind::BigInt(number) => Some(*number as f64),
        ExprKind::Name(name) if name == "inf" => Some(f64::INFINITY),
        ExprKind::Name(name) if name == "nan" => Some(f64::NAN),
        ExprKind::Unary(UnaryOp::Negate, operand) => number_of_expr(operand).map(|number| -number),
        _ => None,
    }
}

/// f32 and f64 are all that text needs to be exact about: the narrower floats are rounded where
/// they become elements, from the f64 that was written.
fn round(dtype: DType, number: f64) -> f64 {
    if dtype == DType::F32 { f64::from(number as f32) } else { number }
}

fn int_element(value: &Expr, dtype: DType) -> Read<i128> {
    let number = match value.kind {
        ExprKind::Int(number) => i128::from(number),
        ExprKind::BigInt(number) => i128::from(number),
        ExprKind::Bool(flag) if dtype == DType::Bool => i128::from(flag),
        _ => {
            let expected = if dtype == DType::Bool { "`True` or `False`" } else { "an integer" };
            return Err(wrong(value, &format!("expected {expected} for dtype {dtype}")));
        }
    };
    let bits = u32::try_from(dtype.size() * 8).expect("a dtype has at most 64 bits");
    let (low, high) = match dtype.class() {
        Class::Bool => (0, 1),
        Class::Unsigned => (0, (1i128 << bits) - 1),
        _ => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
    };
    if number < low || number > high {
        return Err(wrong(value, &format!("{number} does not fit {dtype} ({low} to {high})")));
    }
    Ok(number)
}

/// Reads the arguments of `param(name, annotation)`.
///
/// # Errors
/// What is wrong, at its place.
pub fn external_of_arguments(
    call: &Expr,
    arguments: &[Argument],
    dims: &mut DimTable,
) -> Read<External> {
    let refuse =
        |expr: &Expr, message: &str| Err(Diagnostic::error(codes::EXTERNAL, expr.span, message));
    let [name, annotation] = arguments else {
        return refuse(call, "`param` takes a name and an annotation");
    };
    let ExprKind::Str(name) = &name.value.kind else {
        return refuse(&name.value, "expected the name in quotes");
    };
    let read = annotation_of_expr(&annotation.value, dims)?;
    let literal = match &read {
        Annotation::Tensor(tensor) if tensor.dtype.is_some() => {
            tensor.extents.dims().is_some_and(|dims| dims.iter().all(|dim| dim.as_int() >= Some(0)))
        }
        _ => false,
    };
    if !literal {
        return refuse(&annotation.value, "expected a Tensor with literal dims and a dtype");
    }
    Ok(External { name: name.clone(), annotation: read })
}

fn wrong(expr: &Expr, message: &str) -> Diagnostic {
    Diagnostic::error(codes::CONSTANT, expr.span, message)
}

/// The dims of a constant.
#[must_use]
pub fn constant_dims(constant: &Constant) -> Vec<Dim> {
    constant.shape.iter().map(|&d| Dim::Int(i64::try_from(d).unwrap_or(i64::MAX))).collect()
}
