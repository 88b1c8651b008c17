//! Expressions on one line, with as few parentheses as precedence allows.

use crate::ast::{Argument, Expr, ExprKind, Parameter, UnaryOp};
use crate::operators::{self, Strength};
use std::fmt::Write as _;

/// Appends `expr`, in parentheses where it binds less strongly than `least`. Once `out` is longer
/// than `limit` the rest may be missing: the caller then breaks the expression into lines.
pub(super) fn write(out: &mut String, expr: &Expr, least: Strength, limit: usize) {
    if out.len() > limit {
        return;
    }
    let parenthesized = strength(expr) < least;
    if parenthesized {
        out.push('(');
    }
    match &expr.kind {
        ExprKind::Tuple(items) => {
            out.push('(');
            separated(out, items, |out, item| write(out, item, 0, limit));
            out.push_str(if items.len() == 1 { ",)" } else { ")" });
        }
        ExprKind::List(items) => {
            out.push('[');
            separated(out, items, |out, item| write(out, item, 0, limit));
            out.push(']');
        }
        ExprKind::Call { callee, arguments } => {
            write(out, callee, operators::POSTFIX, limit);
            out.push('(');
            separated(out, arguments, |out, item| argument(out, item, limit));
            out.push(')');
        }
        ExprKind::Subscript { base, indices } => {
            write(out, base, operators::POSTFIX, limit);
            out.push('[');
            separated(out, indices, |out, item| write(out, item, 0, limit));
            out.push(']');
        }
        ExprKind::Unary(op, operand) => {
            out.push_str(prefix(*op));
            // `-1` would be read as a literal.
            if *op == UnaryOp::Negate && begins_with_digit(operand) {
                out.push('(');
                write(out, operand, 0, limit);
                out.push(')');
            } else {
                write(out, operand, operators::prefix(*op), limit);
            }
        }
        ExprKind::Binary(op, pair) => {
            let (left, right) = operators::operands(*op);
            write(out, &pair.0, left, limit);
            let _ = write!(out, " {} ", op.symbol());
            write(out, &pair.1, right, limit);
        }
        leaf => literal(out, leaf),
    }
    if parenthesized {
        out.push(')');
    }
}

/// Appends `key=value` or `value`.
pub(super) fn argument(out: &mut String, argument: &Argument, limit: usize) {
    if let Some(keyword) = &argument.keyword {
        out.push_str(&keyword.name);
        out.push('=');
    }
    write(out, &argument.value, 0, limit);
}

/// Appends `name: annotation`.
pub(super) fn parameter(out: &mut String, parameter: &Parameter, limit: usize) {
    out.push_str(&parameter.name.name);
    if let Some(annotation) = &parameter.annotation {
        out.push_str(": ");
        write(out, annotation, 0, limit);
    }
}

/// Appends items with `, ` between them.
pub(super) fn separated<T>(out: &mut String, items: &[T], mut write: impl FnMut(&mut String, &T)) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write(out, item);
    }
}

/// How a prefix operator is written, with the blank that `not` needs.
pub(super) fn prefix(op: UnaryOp) -> &'static str {
    match op {
        UnaryOp::Negate => "-",
        UnaryOp::Not => "not ",
        UnaryOp::Invert => "~",
    }
}

/// How strongly an expression binds: that of its outermost operator.
pub(super) fn strength(expr: &Expr) -> Strength {
    match &expr.kind {
        ExprKind::Binary(op, _) => operators::infix(*op),
        ExprKind::Unary(op, _) => operators::prefix(*op),
        // A negative literal is one token, but `-1[0]` and `-1 ** 2` mislead.
        ExprKind::Int(value) if *value < 0 => operators::PREFIX,
        ExprKind::Float(value) if value.is_sign_negative() => operators::PREFIX,
        _ => Strength::MAX,
    }
}

/// True where the text of an operand begins with a number that is not negative.
pub(super) fn begins_with_digit(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Int(value) => *value >= 0,
        ExprKind::BigInt(_) => true,
        ExprKind::Float(value) => value.is_finite() && value.is_sign_positive(),
        ExprKind::Call { callee: base, .. } | ExprKind::Subscript { base, .. } => {
            begins_with_digit(base)
        }
        ExprKind::Binary(op, pair) => {
            *op == crate::ast::BinaryOp::Power && begins_with_digit(&pair.0)
        }
        _ => false,
    }
}

fn literal(out: &mut String, kind: &ExprKind) {
    let _ = match kind {
        ExprKind::Name(name) => write!(out, "{name}"),
        ExprKind::Int(value) => write!(out, "{value}"),
        ExprKind::BigInt(value) => write!(out, "{value}"),
        ExprKind::Float(value) => return float(out, *value),
        ExprKind::Str(text) => return string(out, text),
        ExprKind::Bool(true) => write!(out, "True"),
        ExprKind::Bool(false) => write!(out, "False"),
        ExprKind::None => write!(out, "None"),
        ExprKind::Ellipsis => write!(out, "..."),
        _ => write!(out, "<error>"),
    };
}

/// The shortest text that reads back to the same bits; infinity and NaN are names.
fn float(out: &mut String, value: f64) {
    let _ = if value.is_nan() {
        write!(out, "nan")
    } else if value.is_infinite() {
        write!(out, "{}", if value > 0.0 { "inf" } else { "-inf" })
    } else {
        write!(out, "{value:?}")
    };
}

/// A string in double quotes.
pub(super) fn string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\0' => out.push_str("\\0"),
            '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(character));
            }
            _ if character.is_control() && character.is_ascii() => {
                let _ = write!(out, "\\x{:02x}", u32::from(character));
            }
            _ if character.is_control() => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}
