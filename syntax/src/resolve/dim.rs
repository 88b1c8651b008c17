//! From expressions of the text to dims, and the table of symbolic variables of a function.

use super::codes;
use crate::Name;
use crate::annotation::OWN;
use crate::ast::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::diagnostic::Diagnostic;
use crate::dim::{Dim, DimOp};
use crate::ir::DimVar;
use crate::parse::parse_expression;
use crate::span::Span;
use std::collections::{BTreeMap, BTreeSet};

/// The symbolic variables of one top-level function while its text is read.
#[derive(Debug, Default)]
pub struct DimTable {
    vars: Vec<DimVar>,
    index: BTreeMap<Name, usize>,
    /// Whether a quoted name declares a variable: in the parameters of a signature it does.
    quoted_declares: bool,
    /// The own variables of the `Callable` that is being read, and whether its parameters are.
    callable: Option<(BTreeSet<Name>, CallablePart)>,
}

/// Where in a `Callable` annotation a dim stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallablePart {
    /// Quoted names are bound by the callable.
    Parameters,
    /// Names bound there are used.
    Result,
}

type Read<T> = Result<T, Diagnostic>;

impl DimTable {
    /// The declaration of a variable.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&DimVar> {
        self.index.get(name).map(|&at| &self.vars[at])
    }

    /// Declares a variable, or finds it declared.
    pub fn declare(&mut self, name: &Name, span: Span) -> &mut DimVar {
        let next = self.vars.len();
        let at = *self.index.entry(name.clone()).or_insert(next);
        if at == next {
            self.vars.push(DimVar::new(name.clone(), span));
        }
        &mut self.vars[at]
    }

    /// Reads with quoted names declaring variables, as in the parameters of a function.
    pub fn in_parameters<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.quoted_declares, true);
        let result = read(self);
        self.quoted_declares = before;
        result
    }

    /// Reads the parts of a `Callable` annotation, whose quoted names are its own.
    pub fn in_callable<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.callable.replace((BTreeSet::new(), CallablePart::Parameters));
        let result = read(self);
        self.callable = before;
        result
    }

    /// Says that from here on the result of the callable is read.
    pub fn callable_result(&mut self) {
        if let Some((_, part)) = &mut self.callable {
            *part = CallablePart::Result;
        }
    }

    /// The declared variables: those of signatures first, in order of declaration.
    #[must_use]
    pub fn into_vars(self) -> Vec<DimVar> {
        let (mut first, second): (Vec<_>, Vec<_>) =
            self.vars.into_iter().partition(|var| var.in_signature);
        first.extend(second);
        first
    }

    /// Reads a dim: a plain expression, or one in quotes.
    ///
    /// # Errors
    /// When it is none, or uses a variable that is not declared.
    pub fn read(&mut self, expr: &Expr) -> Read<Dim> {
        if let ExprKind::Str(text) = &expr.kind {
            // One byte for the opening quote.
            let inner = parse_expression(text, expr.span.start + 1)?;
            return self.expression(&inner, Quoting::Quoted);
        }
        self.expression(expr, Quoting::Plain)
    }

    fn expression(&mut self, expr: &Expr, quoting: Quoting) -> Read<Dim> {
        match &expr.kind {
            ExprKind::Int(value) => Ok(Dim::Int(*value)),
            ExprKind::BigInt(value) => {
                let message = format!("a symbolic expression is of i64, and {value} does not fit");
                Err(Diagnostic::error(codes::NOT_A_DIM, expr.span, message))
            }
            ExprKind::Name(name) => self.variable(name, expr.span, quoting),
            ExprKind::Unary(UnaryOp::Negate, operand) => {
                let operand = self.expression(operand, quoting)?;
                folded(DimOp::Sub, Dim::Int(0), operand, expr.span)
            }
            ExprKind::Binary(op, operands) => {
                let op = dim_op(*op).ok_or_else(|| not_a_dim(expr))?;
                let a = self.expression(&operands.0, quoting)?;
                let b = self.expression(&operands.1, quoting)?;
                folded(op, a, b, expr.span)
            }
            ExprKind::Call { callee, arguments } => {
                let op = match &callee.kind {
                    ExprKind::Name(name) => function_op(name),
                    _ => None,
                };
                let (Some(op), [a, b]) = (op, arguments.as_slice()) else {
                    return Err(not_a_dim(expr));
                };
                if a.keyword.is_some() || b.keyword.is_some() {
                    return Err(not_a_dim(expr));
                }
                let a = self.expression(&a.value, quoting)?;
                let b = self.expression(&b.value, quoting)?;
                folded(op, a, b, expr.span)
            }
            _ => Err(not_a_dim(expr)),
        }
    }

    fn variable(&mut self, name: &Name, span: Span, quoting: Quoting) -> Read<Dim> {
        if let (Some((own, part)), Quoting::Quoted) = (&mut self.callable, quoting) {
            if *part == CallablePart::Parameters {
                own.insert(name.clone());
            }
            if own.contains(name) {
                return Ok(Dim::var(format!("{OWN}{name}")));
            }
        } else if self.quoted_declares && quoting == Quoting::Quoted {
            if self.find(name).is_none() {
                self.declare(name, span).in_signature = true;
            }
            return Ok(Dim::Var(name.clone()));
        }
        if self.find(name).is_some() {
            return Ok(Dim::Var(name.clone()));
        }
        let message = format!("symbolic variable `{name}` is not declared");
        let help = if self.quoted_declares {
            format!("in a signature, quote the expression that binds it: \"{name}\"")
        } else {
            format!("declare it: `{name} = sym_var()`")
        };
        Err(Diagnostic::error(codes::UNDECLARED_DIM, span, message).with_help(help))
    }
}

/// Whether an expression stands in quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quoting {
    Quoted,
    Plain,
}

/// `a op b` as it was written; an operation on literals that has no value is an error.
fn folded(op: DimOp, a: Dim, b: Dim, span: Span) -> Read<Dim> {
    if let (Dim::Int(x), Dim::Int(y)) = (&a, &b) {
        return op.apply(*x, *y).map(Dim::Int).ok_or_else(|| {
            let shown = Dim::Op(op, Box::new((a.clone(), b.clone())));
            let message = format!("`{shown}` leaves the range of i64 or divides by zero");
            Diagnostic::error(codes::NOT_A_DIM, span, message)
        });
    }
    Ok(Dim::Op(op, Box::new((a, b))))
}

fn dim_op(op: BinaryOp) -> Option<DimOp> {
    Some(match op {
        BinaryOp::Add => DimOp::Add,
        BinaryOp::Sub => DimOp::Sub,
        BinaryOp::Mul => DimOp::Mul,
        BinaryOp::FloorDiv => DimOp::FloorDiv,
        BinaryOp::Mod => DimOp::FloorMod,
        _ => return None,
    })
}

/// `min`, `max`, `ceildiv`
#[must_use]
pub fn function_op(name: &str) -> Option<DimOp> {
    [DimOp::Min, DimOp::Max, DimOp::CeilDiv].into_iter().find(|op| op.symbol() == name)
}

fn not_a_dim(expr: &Expr) -> Diagnostic {
    let diagnostic =
        Diagnostic::error(codes::NOT_A_DIM, expr.span, "expected a symbolic expression");
    match &expr.kind {
        ExprKind::Binary(BinaryOp::Div, _) => {
            diagnostic.with_help("write `//`, division rounded down")
        }
        ExprKind::Float(_) => diagnostic.with_help("dims are integers"),
        _ => diagnostic,
    }
}
