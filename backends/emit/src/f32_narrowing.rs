//! Narrowing to f32: expressions of f64 that are rounded to f32 at once, or summed, are computed in f32: with sixteen lanes where there
//! were eight, and polynomials of half the length. Only where results need not be those of the interpreter bit for
//! bit. Each operation rounds to f32; the functions are right within 2 units in the last place, quotients by what is the
//! same for a whole loop within 1.5 (`reciprocals.rs`). What calls
//! other functions stays in f64, with functions that are right to more than f32 only.

use crate::dtypes;
use crate::printer::Printer;
use relax_semantics::tir::walk::visit;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, Intrinsic, TExpr, UnOp};
use relax_tir::products::is_in_f32_range;

impl Printer<'_, '_> {
    /// The value of an expression of f64 as one of f32, if it is worth it and every part allows it.
    pub(crate) fn quick(&mut self, expr: &TExpr) -> Option<String> {
        let mut calls = false;
        visit(expr, &mut |part| {
            calls |= matches!(
                part,
                TExpr::Call(Intrinsic::Exp | Intrinsic::Sigmoid | Intrinsic::Tanh, _)
                    | TExpr::Binary(..)
            );
        });
        if !self.narrows {
            return None;
        }
        if calls && self.is_narrow(expr) {
            return Some(self.narrow(expr));
        }
        self.roughly(expr)
    }

    /// In f64, but with functions that are right to more than f32 only.
    fn roughly(&mut self, expr: &TExpr) -> Option<String> {
        let mut calls = false;
        visit(expr, &mut |part| {
            calls |= matches!(part, TExpr::Call(function, _) if about(*function).is_some());
        });
        if !calls || self.typing.dtype(expr) != DType::F64 {
            return None;
        }
        let outside = std::mem::replace(&mut self.about, true);
        let text = self.expr(expr, DType::F64);
        self.about = outside;
        Some(format!("(float)({text})"))
    }

    /// Whether an expression of f64 can be one of f32. What an f64 tensor is computed from, or given in one, keeps its precision.
    pub(crate) fn is_narrow(&self, expr: &TExpr) -> bool {
        self.narrows && self.is_narrow_part(expr)
    }

    fn is_narrow_part(&self, expr: &TExpr) -> bool {
        match expr {
            TExpr::Float(value) => is_in_f32_range(*value),
            TExpr::Load { .. } | TExpr::Scalar(_) => self.typing.dtype(expr) == DType::F64,
            TExpr::Cast(DType::F64, inner) => self.typing.dtype(inner) == DType::F32,
            TExpr::Unary(UnOp::Negate, inner) => self.is_narrow_part(inner),
            TExpr::Binary(
                BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div | BinOp::Min | BinOp::Max,
                both,
            ) => self.is_narrow_part(&both.0) && self.is_narrow_part(&both.1),
            TExpr::Call(function, operands) => {
                name(*function).is_some()
                    && operands.iter().all(|operand| self.is_narrow_part(operand))
            }
            _ => false,
        }
    }

    /// The expression in f32, if it can be.
    pub(crate) fn narrow(&mut self, expr: &TExpr) -> String {
        match expr {
            TExpr::Float(value) => dtypes::float(DType::F32, *value),
            TExpr::Cast(_, inner) => self.expr(inner, DType::F32),
            TExpr::Unary(_, inner) => format!("(-{})", self.narrow(inner)),
            TExpr::Binary(op, both) => {
                let a = self.narrow(&both.0);
                let by = self.divisors.iter().find(|(by, _)| *op == BinOp::Div && *by == both.1);
                if let Some((_, by)) = by {
                    return format!("rx_over({a}, {by})");
                }
                let b = self.narrow(&both.1);
                self.operation(*op, DType::F32, &a, &b)
            }
            TExpr::Call(function, operands) => {
                let operands: Vec<String> =
                    operands.iter().map(|operand| self.narrow(operand)).collect();
                let name = name(*function).expect("invariant: asked before");
                format!("{name}({})", operands.join(", "))
            }
            _ => format!("(float){}", self.expr(expr, DType::F64)),
        }
    }
}

/// The function of f64 for what is rounded to f32.
pub(crate) fn about(function: Intrinsic) -> Option<&'static str> {
    Some(match function {
        Intrinsic::Erf => "rx_erf_about",
        Intrinsic::Erfc => "rx_erfc_about",
        Intrinsic::Log => "rx_log_about",
        Intrinsic::Sigmoid => "rx_sigmoid_about",
        Intrinsic::Tanh => "rx_tanh_about",
        _ => return None,
    })
}

/// The function of f32.
pub(crate) fn name(function: Intrinsic) -> Option<&'static str> {
    Some(match function {
        Intrinsic::Exp => "rx_quick_exp",
        Intrinsic::Sigmoid => "rx_quick_sigmoid",
        Intrinsic::Tanh => "rx_quick_tanh",
        Intrinsic::Abs => "rx_abs_f32",
        Intrinsic::Sqrt => "rx_sqrt_f32",
        _ => return None,
    })
}
