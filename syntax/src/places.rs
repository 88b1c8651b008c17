//! Parts of bindings, calls and functions in the syntax tree: labels of the checker, which knows one
//! span a binding, are narrowed to the argument, keyword or annotation that they are about.

use crate::ast::{Def, Expr, ExprKind, File, Statement, StatementKind};
use crate::diagnostic::{Diagnostic, Part};
use crate::span::{Source, Span};
use std::collections::HashMap;

/// Narrows every label and fix to its part. A part that the tree does not have stays the whole.
pub fn locate(source: &Source, file: &File, diagnostics: &mut [Diagnostic]) {
    if diagnostics.is_empty() {
        return;
    }
    let mut places = Places(HashMap::new());
    places.statements(&file.statements);
    for diagnostic in diagnostics {
        let labels = std::iter::once(&mut diagnostic.primary).chain(&mut diagnostic.secondary);
        for label in labels {
            let part = std::mem::take(&mut label.part);
            label.span = places.span(label.span, &part).unwrap_or(label.span);
        }
        let Some(fix) = &mut diagnostic.fix else { continue };
        let part = std::mem::take(&mut fix.part);
        match places.span(fix.span, &part) {
            Some(span) => fix.span = span,
            // Else it would replace something else.
            None => diagnostic.fix = None,
        }
        if let Some(fix) = &mut diagnostic.fix {
            fix.replacement =
                fix.replacement.replace('\n', &format!("\n{}", indent(source, fix.span)));
        }
    }
}

/// The blanks before the line of a span.
fn indent(source: &Source, span: Span) -> &str {
    let (line, _) = source.line_column(span.start);
    let line = source.line(line);
    &line[..line.len() - line.trim_start_matches(' ').len()]
}

/// What stands at a span.
#[derive(Clone, Copy)]
enum Place<'a> {
    /// A value, with the annotation of its binding.
    Value(&'a Expr, Option<&'a Expr>),
    Function(&'a Def),
}

struct Places<'a>(HashMap<Span, Place<'a>>);

impl<'a> Places<'a> {
    fn span(&self, span: Span, part: &Part) -> Option<Span> {
        if *part == Part::Whole {
            return Some(span);
        }
        match self.0.get(&span)? {
            Place::Value(value, annotation) => match part {
                Part::Annotation => annotation.map(|annotation| annotation.span),
                part => of_value(value, part),
            },
            Place::Function(def) => of_function(def, part),
        }
    }

    fn statements(&mut self, statements: &'a [Statement]) {
        statements.iter().for_each(|statement| self.statement(statement));
    }

    fn statement(&mut self, statement: &'a Statement) {
        match &statement.kind {
            StatementKind::Assign { target, annotation, value } => {
                let targets = match &target.kind {
                    ExprKind::Tuple(items) => items.as_slice(),
                    _ => std::slice::from_ref(target),
                };
                for target in targets {
                    self.0.insert(target.span, Place::Value(value, annotation.as_ref()));
                }
                self.expr(value);
            }
            StatementKind::Return(value) | StatementKind::Expr(value) => self.expr(value),
            StatementKind::If { condition, then, otherwise, .. } => {
                self.expr(condition);
                self.statements(then);
                self.statements(otherwise);
            }
            StatementKind::With { body, .. } | StatementKind::For { body, .. } => {
                self.statements(body);
            }
            StatementKind::Def(def) => {
                self.0.insert(def.header, Place::Function(def));
                self.0.insert(def.name.span, Place::Function(def));
                self.statements(&def.body);
            }
            StatementKind::Update { .. } | StatementKind::Pass => {}
        }
    }

    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Call { arguments, .. } => {
                self.0.insert(expr.span, Place::Value(expr, None));
                arguments.iter().for_each(|argument| self.expr(&argument.value));
            }
            ExprKind::Tuple(items) | ExprKind::List(items) => {
                items.iter().for_each(|item| self.expr(item));
            }
            ExprKind::Subscript { base, .. } => {
                self.0.insert(expr.span, Place::Value(expr, None));
                self.expr(base);
            }
            _ => {}
        }
    }
}

fn of_value(value: &Expr, part: &Part) -> Option<Span> {
    if *part == Part::Value {
        return Some(value.span);
    }
    let ExprKind::Call { callee, arguments } = &value.kind else { return None };
    let keyword = |name: &crate::Name| {
        arguments.iter().find_map(|argument| {
            let keyword = argument.keyword.as_ref().filter(|keyword| keyword.name == *name)?;
            Some((keyword.span, argument.value.span))
        })
    };
    match part {
        Part::Callee => Some(callee.span),
        Part::Argument(index) => {
            let mut positional = arguments.iter().filter(|argument| argument.keyword.is_none());
            positional.nth(*index).map(|argument| argument.value.span)
        }
        Part::Keyword(name) => keyword(name).map(|(_, value)| value),
        Part::KeywordName(name) => keyword(name).map(|(name, _)| name),
        _ => None,
    }
}

fn of_function(def: &Def, part: &Part) -> Option<Span> {
    match part {
        Part::Callee => Some(def.name.span),
        Part::Parameter(index) => {
            let annotation = def.parameters.get(*index)?.annotation.as_ref()?;
            Some(annotation.span)
        }
        Part::Result => def.returns.as_ref().map(|returns| returns.span),
        Part::Returned => match &def.body.last()?.kind {
            StatementKind::Return(value) => Some(value.span),
            _ => None,
        },
        _ => None,
    }
}
