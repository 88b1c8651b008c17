//! From expressions of the text to dims, and the table of symbolic variables of a function.

use super::codes;
use crate::Name;
use crate::annotation::OWN;
use crate::ast::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::diagnostic::Diagnostic;
use crate::dim::{Dim, DimOp};
use crate::foreign;
use crate::ir::DimVar;
use crate::parse::parse_expression;
use crate::span::Span;
use crate::suggest;
use std::collections::{BTreeMap, BTreeSet};

/// The symbolic variables of one top-level function while its text is read.
#[derive(Debug, Default)]
pub struct DimTable {
    vars: Vec<DimVar>,
    index: BTreeMap<Name, usize>,
    /// Whether a quoted name declares a variable: in the parameters of a signature it does.
    quoted_declares: bool,
    /// Whether the result of a signature is read: there nothing is bound.
    is_result: bool,
    /// Errors beside the first in an annotation.
    pub(super) further: Vec<Diagnostic>,
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

    /// Reads the annotation of a function's result.
    pub fn in_result<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        self.is_result = true;
        let result = read(self);
        self.is_result = false;
        result
    }

    /// Both, or the first error; the other one is kept.
    pub(super) fn both<A, B>(&mut self, a: Read<A>, b: Read<B>) -> Read<(A, B)> {
        match (a, b) {
            (Ok(a), Ok(b)) => Ok((a, b)),
            (Err(first), Err(second)) => {
                self.further.push(second);
                Err(first)
            }
            (Err(only), _) | (_, Err(only)) => Err(only),
        }
    }

    /// Reads each dim; every error is kept.
    pub(super) fn read_all<'e>(
        &mut self,
        items: impl IntoIterator<Item = &'e Expr>,
    ) -> Read<Vec<Dim>> {
        let mut dims = Ok(Vec::new());
        for item in items {
            let dim = self.read(item);
            dims = self.both(dims, dim).map(|(mut dims, dim)| {
                dims.push(dim);
                dims
            });
        }
        dims
    }

    /// The variable that is declared at a place.
    pub(super) fn declared_at(&self, span: Span) -> Option<&Name> {
        self.vars.iter().find(|var| var.span == span).map(|var| &var.name)
    }

    /// The names of the declared variables.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.vars.iter().map(|var| var.name.as_str())
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
        let read = self.expression(expr, Quoting::Plain);
        // Quoted, a name alone binds itself; a larger expression checks what something else binds.
        let is_name = matches!(expr.kind, ExprKind::Name(_));
        read.map_err(|mut diagnostic| {
            if !is_name && diagnostic.code == codes::UNDECLARED_DIM && self.quoted_declares {
                diagnostic.fix = None;
            }
            diagnostic
        })
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
        Err(self.undeclared(name, span, quoting))
    }

    /// The one symbolic variable, where there is one.
    pub(super) fn only_name(&self) -> Option<&str> {
        let mut names = self.names();
        names.next().filter(|_| names.next().is_none())
    }

    fn undeclared(&mut self, name: &Name, span: Span, quoting: Quoting) -> Diagnostic {
        let message = format!("symbolic variable `{name}` is not declared");
        let found = Diagnostic::error(codes::UNDECLARED_DIM, span, message);
        let near = suggest::nearest(name, self.names());
        let foreign = foreign::dtype(name)
            .map(|dtype| format!("the dtype stands second, in quotes: \"{dtype}\""));
        let found = if let Some(help) = foreign {
            found.with_label("a dtype, where a dim is expected").with_help(help)
        } else if self.quoted_declares {
            let help = format!("in a signature, quote the expression that binds it: \"{name}\"");
            let fixed = found.with_label("a dim that is not in quotes").with_help(help);
            if quoting == Quoting::Plain { fixed.with_fix(format!("\"{name}\"")) } else { fixed }
        } else if !near.is_empty() {
            found.with_label("no variable has this name").with_suggestions(&near)
        } else if self.is_result {
            let binds = format!(
                "a parameter binds it: `Tensor((\"{name}\", 4), \"f32\")`; or the body does: \
                 `{name} = sym_var()` and `match_cast(value, Tensor(({name}, 4), \"f32\"))`"
            );
            let found = found.with_label("no parameter binds it");
            match self.only_name().map(str::to_owned) {
                Some(only) => found
                    .with_help(format!("did you mean `{only}`? Else {binds}"))
                    .with_possible_fix(only),
                None => found.with_help(binds),
            }
        } else {
            let help = format!("declare it: `{name} = sym_var()`");
            found.with_label("used as a dim").with_help(help)
        };
        // Further uses are the same mistake.
        let quoted_declares = self.quoted_declares;
        self.declare(name, span).in_signature |= quoted_declares;
        found
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
