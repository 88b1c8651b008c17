//! Expressions that do not fit on a line: the items of a bracket on a line each.

use super::{Printer, WIDTH, flat};
use crate::ast::{Argument, Expr, ExprKind, Parameter};
use crate::operators::{self, Strength};
use crate::span::Span;

/// What stands in a bracket.
#[derive(Clone, Copy)]
pub(super) enum Item<'a> {
    Expr(&'a Expr),
    Argument(&'a Argument),
    Parameter(&'a Parameter),
}

impl Item<'_> {
    fn span(self) -> Span {
        match self {
            Item::Expr(expr) => expr.span,
            Item::Argument(Argument { keyword, value }) => {
                keyword.as_ref().map_or(value.span, |keyword| keyword.span.to(value.span))
            }
            Item::Parameter(Parameter { name, annotation }) => {
                annotation.as_ref().map_or(name.span, |annotation| name.span.to(annotation.span))
            }
        }
    }
}

impl Printer<'_> {
    /// Writes an expression over several lines, as far as it has brackets to break.
    pub(super) fn broken(&mut self, expr: &Expr, least: Strength, suffix: usize) {
        let parenthesized = flat::strength(expr) < least;
        let suffix = suffix + usize::from(parenthesized);
        if parenthesized {
            self.out.push('(');
        }
        match &expr.kind {
            ExprKind::Tuple(items) => self.bracket("(", &exprs(items), ")", expr.span.end),
            ExprKind::List(items) if items.iter().all(is_number) => self.filled(items, expr.span),
            ExprKind::List(items) => self.bracket("[", &exprs(items), "]", expr.span.end),
            ExprKind::Call { callee, arguments } => {
                self.expr(callee, operators::POSTFIX, 1);
                let items: Vec<Item<'_>> = arguments.iter().map(Item::Argument).collect();
                self.bracket("(", &items, ")", expr.span.end);
            }
            ExprKind::Subscript { base, indices } => {
                self.expr(base, operators::POSTFIX, 1);
                self.bracket("[", &exprs(indices), "]", expr.span.end);
            }
            ExprKind::Binary(op, pair) => {
                let (left, right) = operators::operands(*op);
                self.expr(&pair.0, left, 1 + op.symbol().len());
                self.out.push(' ');
                self.out.push_str(op.symbol());
                self.out.push(' ');
                self.expr(&pair.1, right, suffix);
            }
            ExprKind::Unary(op, operand) if !flat::begins_with_digit(operand) => {
                self.out.push_str(flat::prefix(*op));
                self.expr(operand, operators::prefix(*op), suffix);
            }
            _ => flat::write(&mut self.out, expr, 0, usize::MAX),
        }
        if parenthesized {
            self.out.push(')');
        }
    }

    /// Writes a bracket that ends at `end`, an item a line; an empty one without comments closes
    /// at once.
    pub(super) fn bracket(&mut self, open: &str, items: &[Item<'_>], close: &str, end: u32) {
        self.out.push_str(open);
        self.level += 1;
        let before = self.out.len();
        for (index, item) in items.iter().enumerate() {
            self.bracket_comments(item.span().start, index > 0);
            self.new_line();
            self.item(*item);
            self.out.push(',');
        }
        self.bracket_comments(end, !items.is_empty());
        self.level -= 1;
        if self.out.len() > before {
            self.new_line();
        }
        self.out.push_str(close);
    }

    fn item(&mut self, item: Item<'_>) {
        match item {
            Item::Expr(expr) => self.expr(expr, 0, 1),
            Item::Argument(Argument { keyword, value }) => {
                if let Some(keyword) = keyword {
                    self.out.push_str(&keyword.name);
                    self.out.push('=');
                }
                self.expr(value, 0, 1);
            }
            Item::Parameter(Parameter { name, annotation }) => {
                self.out.push_str(&name.name);
                if let Some(annotation) = annotation {
                    self.out.push_str(": ");
                    self.expr(annotation, 0, 1);
                }
            }
        }
    }

    /// Writes a list of numbers, as many in a line as fit; with comments in it, one a line.
    fn filled(&mut self, items: &[Expr], span: Span) {
        if self.comments.any_in(span) {
            return self.bracket("[", &exprs(items), "]", span.end);
        }
        self.out.push('[');
        self.level += 1;
        self.new_line();
        let mut column = self.column();
        for (index, item) in items.iter().enumerate() {
            let start = self.out.len();
            flat::write(&mut self.out, item, 0, usize::MAX);
            let width = self.out.len() - start + 1;
            if index > 0 && column + 1 + width > WIDTH {
                let number = self.out.split_off(start);
                self.new_line();
                column = self.column();
                self.out.push_str(&number);
            } else if index > 0 {
                self.out.insert(start, ' ');
                column += 1;
            }
            self.out.push(',');
            column += width;
        }
        self.level -= 1;
        self.new_line();
        self.out.push(']');
    }
}

fn exprs(items: &[Expr]) -> Vec<Item<'_>> {
    items.iter().map(Item::Expr).collect()
}

fn is_number(expr: &Expr) -> bool {
    matches!(
        expr.kind,
        ExprKind::Int(_) | ExprKind::BigInt(_) | ExprKind::Float(_) | ExprKind::Bool(_)
    )
}
