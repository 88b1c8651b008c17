//! Dims, dtypes and attributes in the words of TVM.

use super::tree::{argument, arguments, call, callee, expr, items, name, string, taken};
use super::{Refused, Turned, refuse};
use relax_syntax::Name;
use relax_syntax::ast::{Expr, ExprKind, Statement, StatementKind};
use relax_syntax::dtype::DType;
use relax_syntax::parse::parse_expression;
use relax_syntax::print::print_expression;
use relax_syntax::span::Span;
use std::collections::BTreeSet;

/// A line whose argument is a dictionary, which the grammar does not have: a name stands for its text.
pub(super) fn attributes(given: &[&Expr], directive: &str) -> Statement {
    let pairs = given.iter().filter_map(|call| {
        let (key, value) = (taken(call, 0, &[])?, taken(call, 1, &[])?);
        Some(format!("{}: {}", print_expression(key), print_expression(value)))
    });
    let text = format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "));
    let span = Span::default();
    super::tree::bare(call(directive, vec![argument(name(&text, span))], span))
}

/// The text of a dim as TVM has it, and its variables.
pub(super) fn dim(tree: &Expr, variables: &mut BTreeSet<Name>) -> Turned<Expr> {
    let parsed;
    let tree = match &tree.kind {
        ExprKind::Str(text) => {
            let wrong = |_| Refused { span: tree.span, why: format!("the dim `{text}`") };
            parsed = parse_expression(text, 0).map_err(wrong)?;
            &parsed
        }
        _ => tree,
    };
    let kind = match &tree.kind {
        ExprKind::Int(_) => return Ok(tree.clone()),
        ExprKind::Name(name) => {
            variables.insert(name.clone());
            return Ok(tree.clone());
        }
        ExprKind::Binary(op, pair) => {
            ExprKind::Binary(*op, Box::new((dim(&pair.0, variables)?, dim(&pair.1, variables)?)))
        }
        ExprKind::Unary(op, operand) => ExprKind::Unary(*op, Box::new(dim(operand, variables)?)),
        ExprKind::Call { .. } => {
            let what = match callee(tree) {
                Some(what @ ("max" | "min" | "ceildiv")) => format!("T.{what}"),
                _ => return refuse(tree.span, "a dim of another kind"),
            };
            let mut parts = Vec::new();
            for part in arguments(tree) {
                parts.push(argument(dim(&part.value, variables)?));
            }
            return Ok(call(&what, parts, tree.span));
        }
        _ => return refuse(tree.span, "a dim of another kind"),
    };
    Ok(expr(kind, tree.span))
}

/// `"f32"` as TVM has it.
pub(super) fn dtype(tree: &Expr) -> Turned<Expr> {
    let known = match &tree.kind {
        ExprKind::Str(text) => DType::parse(text),
        _ => None,
    };
    match known {
        Some(dtype) => Ok(string(dtype.long_name(), tree.span)),
        None => refuse(tree.span, "a dtype of another kind"),
    }
}

/// Whether a line declares symbolic variables; TVM knows no facts of them.
pub(super) fn is_declaration(line: &Statement) -> Turned<bool> {
    let StatementKind::Assign { value, .. } = &line.kind else { return Ok(false) };
    let parts = items(value);
    if parts.is_empty() || !parts.iter().all(|part| callee(part) == Some("sym_var")) {
        return Ok(false);
    }
    if parts.iter().any(|part| !arguments(part).is_empty()) {
        return refuse(line.span, "facts of symbolic variables");
    }
    Ok(true)
}

/// A dim of a signature: TVM reads expressions there from strings.
pub(super) fn quoted(dim: Expr) -> Expr {
    match dim.kind {
        ExprKind::Int(_) | ExprKind::Name(_) => dim,
        _ => string(&print_expression(&dim), dim.span),
    }
}

/// `func_attr(…)`
pub(super) fn is_attribute(line: &Statement) -> Option<&Expr> {
    match &line.kind {
        StatementKind::Expr(expr) if callee(expr) == Some("func_attr") => Some(expr),
        _ => None,
    }
}
