//! `n = sym_var(upper_bound=64)` and `func_attr(key, value)`, which both levels have.

use super::codes;
use super::dim::DimTable;
use crate::ast::{Expr, ExprKind, Identifier, Statement, StatementKind};
use crate::diagnostic::Diagnostic;
use crate::ir::{AttrValue, Attrs};

/// The call of `name` that an expression is.
#[must_use]
pub(super) fn call_of<'a>(expr: &'a Expr, name: &str) -> Option<&'a [crate::ast::Argument]> {
    match &expr.kind {
        ExprKind::Call { callee, arguments } => {
            matches!(&callee.kind, ExprKind::Name(found) if found == name).then_some(arguments)
        }
        _ => None,
    }
}

/// The names and calls of `n, m = sym_var(), sym_var()`; `None` for any other statement.
fn declarations(statement: &Statement) -> Option<Vec<(Identifier, &Expr)>> {
    let StatementKind::Assign { target, annotation: None, value } = &statement.kind else {
        return None;
    };
    let pairs: Vec<(&Expr, &Expr)> = match (&target.kind, &value.kind) {
        (ExprKind::Tuple(names), ExprKind::Tuple(values)) if names.len() == values.len() => {
            names.iter().zip(values).collect()
        }
        _ => vec![(target, value)],
    };
    pairs
        .into_iter()
        .map(|(name, value)| match &name.kind {
            ExprKind::Name(text) if call_of(value, "sym_var").is_some() => {
                Some((Identifier { name: text.clone(), span: name.span }, value))
            }
            _ => None,
        })
        .collect()
}

/// True for a line that declares symbolic variables.
#[must_use]
pub(super) fn is_sym_var(statement: &Statement) -> bool {
    declarations(statement).is_some()
}

/// Declares what the `sym_var` lines of a function's body say, those in nested blocks included and
/// those in nested functions not.
pub(super) fn declare_all(
    body: &[Statement],
    dims: &mut DimTable,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for statement in body {
        match &statement.kind {
            StatementKind::If { then, otherwise, .. } => {
                declare_all(then, dims, diagnostics);
                declare_all(otherwise, dims, diagnostics);
            }
            StatementKind::With { body, .. } | StatementKind::For { body, .. } => {
                declare_all(body, dims, diagnostics);
            }
            _ => {
                for (name, call) in declarations(statement).into_iter().flatten() {
                    if let Err(diagnostic) = declare(&name, call, dims) {
                        diagnostics.push(diagnostic);
                    }
                }
            }
        }
    }
}

fn declare(name: &Identifier, call: &Expr, dims: &mut DimTable) -> Result<(), Diagnostic> {
    let var = dims.declare(&name.name, name.span);
    for argument in call_of(call, "sym_var").unwrap_or_default() {
        let span = argument.value.span;
        let wrong = |message: &str| Err(Diagnostic::error(codes::SYM_VAR, span, message));
        let keyword = argument.keyword.as_ref().map(|keyword| keyword.name.as_str());
        let slot = match keyword {
            Some("lower_bound") => &mut var.lower,
            Some("upper_bound") => &mut var.upper,
            Some("multiple_of") => &mut var.multiple_of,
            _ => return wrong("`sym_var` takes lower_bound=, upper_bound= and multiple_of="),
        };
        let ExprKind::Int(value) = argument.value.kind else {
            return wrong("expected a literal integer");
        };
        if keyword == Some("multiple_of") && value < 1 {
            return wrong("`multiple_of` must be at least 1");
        }
        if slot.replace(value).is_some() {
            return wrong("this fact is given twice");
        }
    }
    let (low, step) = (var.lower.unwrap_or(0).max(0), var.multiple_of.unwrap_or(1));
    let first = low.checked_add(step - 1).map(|sum| sum / step * step);
    match (first, var.upper) {
        (None, _) => {
            Err(Diagnostic::error(codes::SYM_VAR, call.span, "no i64 satisfies these facts"))
        }
        (Some(first), Some(upper)) if first > upper => {
            let message = format!("no value of `{}` satisfies these facts", name.name);
            Err(Diagnostic::error(codes::SYM_VAR, call.span, message))
        }
        _ => Ok(()),
    }
}

/// Adds `func_attr(key, value)` or `module_attr(key, value)` to `attrs`.
///
/// # Errors
/// A wrong form, or a key given twice.
pub(super) fn read_attr(
    call: &Expr,
    arguments: &[crate::ast::Argument],
    attrs: &mut Attrs,
) -> Result<(), Diagnostic> {
    let wrong = |message: &str| Err(Diagnostic::error(codes::ATTRIBUTE, call.span, message));
    let [key, value] = arguments else {
        return wrong("expected a key and a value");
    };
    let (None, None, ExprKind::Str(key)) = (&key.keyword, &value.keyword, &key.value.kind) else {
        return wrong("expected a key in quotes and a value");
    };
    let value = match &value.value.kind {
        ExprKind::Str(text) => AttrValue::Str(text.clone()),
        ExprKind::Int(value) => AttrValue::Int(*value),
        ExprKind::Float(value) => AttrValue::Float(*value),
        ExprKind::Bool(value) => AttrValue::Bool(*value),
        _ => return wrong("an attribute is a string, an integer, a float or a bool"),
    };
    if attrs.iter().any(|(known, _)| known == key) {
        return wrong("this attribute is given twice");
    }
    attrs.push((key.clone(), value));
    Ok(())
}
