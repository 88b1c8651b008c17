//! Scalar expressions of tensor programs.

use super::tensor::{Symbol, TensorResolver};
use super::tensor_codes as codes;
use crate::ast::{Argument, BinaryOp, Expr, ExprKind, UnaryOp};
use crate::diagnostic::Diagnostic;
use crate::dtype::DType;
use crate::ir::tensor::{BinOp, Intrinsic, TExpr, UnOp};
use crate::span::Span;

type Read<T> = Result<T, Diagnostic>;

fn wrong<T>(span: Span, message: impl Into<String>) -> Read<T> {
    Err(Diagnostic::error(codes::EXPRESSION, span, message))
}

impl TensorResolver<'_> {
    /// Reads a scalar expression.
    pub(super) fn expr(&mut self, expr: &Expr) -> Read<TExpr> {
        match &expr.kind {
            ExprKind::Int(value) => Ok(TExpr::Int(*value)),
            ExprKind::Float(value) => Ok(TExpr::Float(*value)),
            ExprKind::Bool(value) => Ok(TExpr::Bool(*value)),
            ExprKind::Name(name) => self.name(name, expr.span),
            ExprKind::Subscript { base, indices } => self.load(base, indices),
            ExprKind::Unary(op, operand) => self.unary(*op, operand),
            ExprKind::Binary(op, operands) => {
                let symbol = op.symbol();
                let Some(op) = bin_op(*op) else {
                    let found =
                        wrong(expr.span, format!("there is no operator `{symbol}` of scalars"));
                    let help =
                        if symbol == "**" { "write `pow(x, y)`" } else { "write a loop with `+=`" };
                    return found.map_err(|found: Diagnostic| found.with_help(help));
                };
                let a = self.expr(&operands.0)?;
                let b = self.expr(&operands.1)?;
                Ok(TExpr::Binary(op, Box::new((a, b))))
            }
            ExprKind::Call { callee, arguments } => self.call(expr.span, callee, arguments),
            ExprKind::BigInt(value) => wrong(expr.span, format!("{value} does not fit i64")),
            _ => wrong(expr.span, "this is no scalar expression"),
        }
    }

    fn name(&mut self, name: &str, span: Span) -> Read<TExpr> {
        match self.find(name) {
            Some(Symbol::Scalar(id)) => return Ok(TExpr::Scalar(id)),
            Some(Symbol::Buffer(_)) => {
                let found = wrong(span, format!("`{name}` is a buffer, not a scalar"));
                let help = format!("name an element of it: `{name}[…]`");
                return found.map_err(|found: Diagnostic| found.with_help(help));
            }
            None => {}
        }
        if self.dims.find(name).is_some() {
            return Ok(TExpr::Dim(name.into()));
        }
        match name {
            "inf" => Ok(TExpr::Float(f64::INFINITY)),
            "nan" => Ok(TExpr::Float(f64::NAN)),
            _ => {
                let message = format!("nothing binds `{name}` here");
                Err(Diagnostic::error(codes::UNKNOWN, span, message))
            }
        }
    }

    fn load(&mut self, base: &Expr, indices: &[Expr]) -> Read<TExpr> {
        let ExprKind::Name(name) = &base.kind else {
            return wrong(base.span, "only buffers have elements");
        };
        let buffer = match self.find(name) {
            Some(Symbol::Buffer(buffer)) => buffer,
            Some(Symbol::Scalar(_)) => {
                return wrong(base.span, format!("`{name}` is a scalar, not a buffer"));
            }
            None => {
                let message = format!("there is no buffer `{name}` here");
                return Err(Diagnostic::error(codes::UNKNOWN, base.span, message));
            }
        };
        let indices = match indices {
            [Expr { kind: ExprKind::Tuple(items), .. }] => items,
            _ => indices,
        };
        let indices = indices.iter().map(|index| self.expr(index)).collect::<Read<_>>()?;
        Ok(TExpr::Load { buffer, indices })
    }

    /// The sign of a literal belongs to it.
    fn unary(&mut self, op: UnaryOp, operand: &Expr) -> Read<TExpr> {
        let op = match op {
            UnaryOp::Negate => UnOp::Negate,
            UnaryOp::Not => UnOp::Not,
            UnaryOp::Invert => UnOp::Invert,
        };
        Ok(match (op, self.expr(operand)?) {
            (UnOp::Negate, TExpr::Int(value)) if value != i64::MIN => TExpr::Int(-value),
            (UnOp::Negate, TExpr::Float(value)) => TExpr::Float(-value),
            (op, operand) => TExpr::Unary(op, Box::new(operand)),
        })
    }

    fn call(&mut self, span: Span, callee: &Expr, arguments: &[Argument]) -> Read<TExpr> {
        let ExprKind::Name(name) = &callee.kind else {
            return wrong(callee.span, "expected the name of a function");
        };
        if let Some(keyword) = arguments.iter().find_map(|argument| argument.keyword.as_ref()) {
            return wrong(keyword.span, "functions of scalars have no named operands");
        }
        let mut operands = Vec::new();
        for argument in arguments {
            operands.push(self.expr(&argument.value)?);
        }
        let count = operands.len();
        let arity = |wanted: usize| {
            let message = format!("`{name}` takes {wanted} operand(s), found {count}");
            Err(Diagnostic::error(codes::EXPRESSION, span, message))
        };
        let mut operands = operands.into_iter();
        let mut next = || operands.next().expect("invariant: the arity was checked");
        match name.as_str() {
            "select" if count == 3 => Ok(TExpr::Select(Box::new((next(), next(), next())))),
            "select" => arity(3),
            "min" | "max" | "ceildiv" if count == 2 => {
                let pair = Box::new((next(), next()));
                Ok(match name.as_str() {
                    "min" => TExpr::Binary(BinOp::Min, pair),
                    "max" => TExpr::Binary(BinOp::Max, pair),
                    _ => ceil_div(*pair),
                })
            }
            "min" | "max" | "ceildiv" => arity(2),
            _ => match (Intrinsic::parse(name), DType::parse(name)) {
                (Some(function), _) if count == function.arity() => {
                    Ok(TExpr::Call(function, operands.collect()))
                }
                (Some(function), _) => arity(function.arity()),
                (None, Some(dtype)) if count == 1 => Ok(TExpr::Cast(dtype, Box::new(next()))),
                (None, Some(_)) => arity(1),
                (None, None) => wrong(callee.span, format!("`{name}` is no function of scalars")),
            },
        }
    }
}

/// `ceildiv(a, b)` is `-(-a // b)`.
fn ceil_div((a, b): (TExpr, TExpr)) -> TExpr {
    let negated = match a {
        TExpr::Int(value) if value != i64::MIN => TExpr::Int(-value),
        a => TExpr::Unary(UnOp::Negate, Box::new(a)),
    };
    let quotient = TExpr::Binary(BinOp::FloorDiv, Box::new((negated, b)));
    TExpr::Unary(UnOp::Negate, Box::new(quotient))
}

fn bin_op(op: BinaryOp) -> Option<BinOp> {
    Some(match op {
        BinaryOp::Or => BinOp::Or,
        BinaryOp::And => BinOp::And,
        BinaryOp::Equal => BinOp::Equal,
        BinaryOp::NotEqual => BinOp::NotEqual,
        BinaryOp::Less => BinOp::Less,
        BinaryOp::LessEqual => BinOp::LessEqual,
        BinaryOp::Greater => BinOp::Greater,
        BinaryOp::GreaterEqual => BinOp::GreaterEqual,
        BinaryOp::BitOr => BinOp::BitOr,
        BinaryOp::BitXor => BinOp::BitXor,
        BinaryOp::BitAnd => BinOp::BitAnd,
        BinaryOp::ShiftLeft => BinOp::ShiftLeft,
        BinaryOp::ShiftRight => BinOp::ShiftRight,
        BinaryOp::Add => BinOp::Add,
        BinaryOp::Sub => BinOp::Sub,
        BinaryOp::Mul => BinOp::Mul,
        BinaryOp::Div => BinOp::Div,
        BinaryOp::FloorDiv => BinOp::FloorDiv,
        BinaryOp::Mod => BinOp::Mod,
        BinaryOp::Power | BinaryOp::MatMul => return None,
    })
}
