//! Infix arithmetic on tensors, which the language does not have: what is written instead.

use super::codes;
use super::graph::Resolver;
use crate::Name;
use crate::annotation::Annotation;
use crate::ast::{Argument, Expr, ExprKind, UnaryOp};
use crate::diagnostic::Diagnostic;
use crate::dtype::DType;
use crate::foreign;
use crate::print::print_expression;

impl Resolver<'_> {
    /// Whether an operand of an arithmetic expression is a tensor: a variable or the result of a call.
    pub(super) fn has_tensor(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Name(name) => self.scope.find(name).is_some(),
            ExprKind::Unary(_, operand) => self.has_tensor(operand),
            ExprKind::Binary(_, operands) => {
                self.has_tensor(&operands.0) || self.has_tensor(&operands.1)
            }
            ExprKind::Call { callee, .. } => match &callee.kind {
                ExprKind::Name(name) => {
                    !matches!(name.as_str(), "min" | "max" | "ceildiv" | "shape")
                }
                _ => false,
            },
            _ => false,
        }
    }

    pub(super) fn infix_on_tensors(&self, expr: &Expr) -> Diagnostic {
        let symbol = match &expr.kind {
            ExprKind::Binary(op, _) => op.symbol(),
            _ => "-",
        };
        let message = format!("`{symbol}` is arithmetic of dims, and an operand is a tensor");
        let found = Diagnostic::error(codes::EXPRESSION, expr.span, message)
            .with_label("tensors are computed by operators");
        match self.as_calls(expr, self.dtype_in(expr)) {
            Some(calls) => {
                let calls = print_expression(&calls);
                found.with_help(format!("write `{calls}`")).with_fix(calls)
            }
            None => {
                found.with_help("use an operator: `add(x, y)`, `matmul(x, w)`, `negative(x)`, …")
            }
        }
    }

    /// The same as calls of operators; a literal is a constant of the tensors' dtype.
    fn as_calls(&self, expr: &Expr, dtype: Option<DType>) -> Option<Expr> {
        match &expr.kind {
            ExprKind::Name(name) if self.scope.find(name).is_some() => Some(expr.clone()),
            ExprKind::Call { .. } if self.has_tensor(expr) => Some(expr.clone()),
            ExprKind::Unary(UnaryOp::Negate, operand) if self.has_tensor(operand) => {
                Some(call("negative", vec![self.as_calls(operand, dtype)?]))
            }
            ExprKind::Unary(UnaryOp::Negate, operand) if is_number(operand) => {
                constant(expr, dtype?)
            }
            ExprKind::Binary(op, operands) => {
                let left = self.as_calls(&operands.0, dtype)?;
                let right = self.as_calls(&operands.1, dtype)?;
                Some(call(foreign::infix(*op), vec![left, right]))
            }
            _ if is_number(expr) => constant(expr, dtype?),
            _ => None,
        }
    }

    /// The dtype of the first variable whose annotation tells it.
    fn dtype_in(&self, expr: &Expr) -> Option<DType> {
        match &expr.kind {
            ExprKind::Name(name) => {
                let var = self.scope.find(name)?;
                match self.scope.vars[var.0 as usize].annotation.as_ref()? {
                    Annotation::Tensor(tensor) => tensor.dtype,
                    _ => None,
                }
            }
            ExprKind::Unary(_, operand) => self.dtype_in(operand),
            ExprKind::Binary(_, operands) => {
                self.dtype_in(&operands.0).or_else(|| self.dtype_in(&operands.1))
            }
            ExprKind::Call { arguments, .. } => {
                arguments.iter().find_map(|argument| self.dtype_in(&argument.value))
            }
            _ => None,
        }
    }
}

fn is_number(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Int(_) | ExprKind::Float(_))
}

fn constant(value: &Expr, dtype: DType) -> Option<Expr> {
    // An integer is no float here, and a float no integer.
    let value = match &value.kind {
        #[allow(clippy::cast_precision_loss)] // below 2^53
        ExprKind::Int(value) if dtype.is_float() && value.unsigned_abs() < 1 << 53 => {
            Expr::synthetic(ExprKind::Float(*value as f64))
        }
        ExprKind::Float(_) if !dtype.is_float() => return None,
        _ => value.clone(),
    };
    let dtype = Expr::synthetic(ExprKind::Str(Name::new(dtype.name())));
    Some(call("const", vec![value, dtype]))
}

fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let callee = Box::new(Expr::synthetic(ExprKind::Name(Name::new(name))));
    let arguments = arguments.into_iter().map(|value| Argument { keyword: None, value }).collect();
    Expr::synthetic(ExprKind::Call { callee, arguments })
}
