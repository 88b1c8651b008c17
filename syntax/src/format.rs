//! `relax fmt`: one layout for every file, all comments kept, long names made short.
//!
//! Formatting twice changes nothing more. A file that does not parse is left alone.

use crate::Name;
use crate::ast::{Argument, Expr, ExprKind, File, Statement, StatementKind};
use crate::diagnostic::Diagnostic;
use crate::dtype::DType;
use crate::parse::parse_file;
use crate::print::print_with_comments;
use crate::raise::OPERATOR;
use crate::span::Source;
use std::collections::BTreeSet;

/// What takes a dtype as a string argument.
const TAKES_DTYPE: &[&str] = &[
    "Buffer",
    "DTensor",
    "Prim",
    "Tensor",
    "alloc_buffer",
    "alloc_tensor",
    "arange",
    "astype",
    "builtin.alloc_tensor",
    "cast",
    "const",
    "full",
    "memory.alloc_tensor",
    "ones",
    "zeros",
];

/// The namespaces whose operators are written without them.
const IMPLIED: &[&str] = &["nn.", "image.", OPERATOR];

/// Formats a file.
///
/// # Errors
/// Everything that is wrong with its text.
pub fn format_source(source: &Source) -> Result<String, Vec<Diagnostic>> {
    let (mut file, diagnostics) = parse_file(source);
    if !diagnostics.is_empty() {
        return Err(diagnostics);
    }
    shorten_names(&mut file);
    Ok(print_with_comments(&file, &source.text))
}

/// Writes dtypes and operators by their short names, where that means the same.
fn shorten_names(file: &mut File) {
    let mut bound = BTreeSet::new();
    visit(&mut file.statements, &mut |statement| collect_bound(statement, &mut bound), &mut |_| {});
    visit(&mut file.statements, &mut |_| {}, &mut |expr| shorten(expr, &bound));
}

/// Adds the names that a statement binds: an operator of that name keeps its namespace.
fn collect_bound(statement: &StatementKind, bound: &mut BTreeSet<Name>) {
    match statement {
        StatementKind::Assign { target, .. } => match &target.kind {
            ExprKind::Name(name) => {
                bound.insert(name.clone());
            }
            ExprKind::Tuple(items) => {
                bound.extend(items.iter().filter_map(|item| match &item.kind {
                    ExprKind::Name(name) => Some(name.clone()),
                    _ => None,
                }));
            }
            _ => {}
        },
        StatementKind::For { targets, .. } => {
            bound.extend(targets.iter().map(|target| target.name.clone()));
        }
        StatementKind::Def(def) => {
            bound.insert(def.name.name.clone());
            bound.extend(def.parameters.iter().map(|parameter| parameter.name.name.clone()));
        }
        _ => {}
    }
}

/// Shortens what one call names.
fn shorten(expr: &mut Expr, bound: &BTreeSet<Name>) {
    let ExprKind::Call { callee, arguments } = &mut expr.kind else { return };
    let mut takes_dtype = false;
    if let ExprKind::Name(name) = &mut callee.kind {
        takes_dtype = TAKES_DTYPE.contains(&name.as_str());
        let short = IMPLIED.iter().find_map(|space| name.strip_prefix(space));
        if let Some(short) = short
            && !short.contains('.')
            && !bound.contains(short)
        {
            *name = Name::new(short);
        }
    }
    for Argument { keyword, value } in arguments {
        let is_dtype = keyword.as_ref().map_or(takes_dtype, |keyword| keyword.name == "dtype");
        if let ExprKind::Str(text) = &mut value.kind
            && is_dtype
            && let Some(dtype) = DType::parse(text)
        {
            *text = Name::new_static(dtype.name());
        }
    }
}

/// Calls `statement` on every statement and `expr` on every expression.
fn visit(
    statements: &mut [Statement],
    statement: &mut dyn FnMut(&StatementKind),
    expr: &mut dyn FnMut(&mut Expr),
) {
    for item in statements {
        statement(&item.kind);
        match &mut item.kind {
            StatementKind::Assign { target, annotation, value } => {
                visit_expr(target, expr);
                annotation.iter_mut().for_each(|annotation| visit_expr(annotation, expr));
                visit_expr(value, expr);
            }
            StatementKind::Update { target, value, .. } => {
                visit_expr(target, expr);
                visit_expr(value, expr);
            }
            StatementKind::Return(value) | StatementKind::Expr(value) => visit_expr(value, expr),
            StatementKind::Pass => {}
            StatementKind::If { condition, then, otherwise, .. } => {
                visit_expr(condition, expr);
                visit(then, statement, expr);
                visit(otherwise, statement, expr);
            }
            StatementKind::For { iterator: header, body, .. }
            | StatementKind::With { context: header, body } => {
                visit_expr(header, expr);
                visit(body, statement, expr);
            }
            StatementKind::Def(def) => {
                def.decorators.iter_mut().for_each(|decorator| visit_expr(decorator, expr));
                for parameter in &mut def.parameters {
                    parameter.annotation.iter_mut().for_each(|item| visit_expr(item, expr));
                }
                def.returns.iter_mut().for_each(|returns| visit_expr(returns, expr));
                visit(&mut def.body, statement, expr);
            }
        }
    }
}

fn visit_expr(root: &mut Expr, call: &mut dyn FnMut(&mut Expr)) {
    call(root);
    match &mut root.kind {
        ExprKind::Tuple(items) | ExprKind::List(items) => {
            items.iter_mut().for_each(|item| visit_expr(item, call));
        }
        ExprKind::Call { callee, arguments } => {
            visit_expr(callee, call);
            arguments.iter_mut().for_each(|argument| visit_expr(&mut argument.value, call));
        }
        ExprKind::Subscript { base, indices } => {
            visit_expr(base, call);
            indices.iter_mut().for_each(|index| visit_expr(index, call));
        }
        ExprKind::Unary(_, operand) => visit_expr(operand, call),
        ExprKind::Binary(_, pair) => {
            visit_expr(&mut pair.0, call);
            visit_expr(&mut pair.1, call);
        }
        _ => {}
    }
}
