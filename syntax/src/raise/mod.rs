//! From the IR back to the syntax tree: total, and resolving the result gives the same IR.

mod annotation;
mod expr;
mod graph;
mod hidden;
mod tensor;

pub use annotation::{annotation_expr, dim_expr};
pub use hidden::OPERATOR;
pub use tensor::raise_tensor_program;

use crate::Name;
use crate::ast::{Argument, Expr, ExprKind, File, Identifier, Statement, StatementKind};
use crate::ir::{AttrValue, Attrs, Definition, DimVar, Module};
use crate::span::Span;

/// The syntax tree of a module: attributes first, then definitions in order.
#[must_use]
pub fn raise_module(module: &Module) -> File {
    let hidden = hidden::Hidden::of(module);
    let mut statements = attr_lines("module_attr", &module.attrs);
    statements.extend(module.definitions.iter().map(|definition| match definition {
        Definition::Graph(function) => graph::raise_function(&hidden.written(function)),
        Definition::Tensor(program) => {
            statement(StatementKind::Def(Box::new(raise_tensor_program(program))))
        }
    }));
    File { statements, comments: Vec::new() }
}

/// Whether a dim stands where variables are bound (quoted) or used (plain).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// In the parameters or the result of a function.
    Signature,
    /// In a body.
    Body,
}

pub(crate) fn statement(kind: StatementKind) -> Statement {
    Statement { kind, span: Span::default() }
}

pub(crate) fn expr(kind: ExprKind) -> Expr {
    Expr::synthetic(kind)
}

pub(crate) fn name(text: &str) -> Expr {
    expr(ExprKind::Name(text.into()))
}

pub(crate) fn string(text: &str) -> Expr {
    expr(ExprKind::Str(text.into()))
}

pub(crate) fn identifier(name: &Name) -> Identifier {
    Identifier { name: name.clone(), span: Span::default() }
}

pub(crate) fn argument(value: Expr) -> Argument {
    Argument { keyword: None, value }
}

pub(crate) fn keyword(key: &str, value: Expr) -> Argument {
    Argument { keyword: Some(identifier(&key.into())), value }
}

pub(crate) fn call(callee: &str, arguments: Vec<Argument>) -> Expr {
    expr(ExprKind::Call { callee: Box::new(name(callee)), arguments })
}

pub(crate) fn assign(target: Expr, annotation: Option<Expr>, value: Expr) -> Statement {
    statement(StatementKind::Assign { target, annotation, value })
}

/// `func_attr(key, value)` lines.
pub(crate) fn attr_lines(callee: &str, attrs: &Attrs) -> Vec<Statement> {
    let line = |(key, value): &(Name, AttrValue)| {
        let value = match value {
            AttrValue::Str(text) => string(text),
            AttrValue::Int(value) => expr(ExprKind::Int(*value)),
            AttrValue::Float(value) => expr(ExprKind::Float(*value)),
            AttrValue::Bool(value) => expr(ExprKind::Bool(*value)),
        };
        statement(StatementKind::Expr(call(callee, vec![argument(string(key)), argument(value)])))
    };
    attrs.iter().map(line).collect()
}

/// `n = sym_var(upper_bound=16)`
pub(crate) fn sym_var_line(dim: &DimVar) -> Statement {
    let facts =
        [("lower_bound", dim.lower), ("upper_bound", dim.upper), ("multiple_of", dim.multiple_of)];
    let arguments = facts
        .into_iter()
        .filter_map(|(key, value)| value.map(|value| keyword(key, expr(ExprKind::Int(value)))));
    assign(name(&dim.name), None, call("sym_var", arguments.collect()))
}
