//! Expressions of f64 that are rounded to f32 at once, or summed, computed in f32 where they call `exp` or
//! `sigmoid`: with sixteen lanes where there were eight, and polynomials of half the length. Only where
//! results need not be those of the interpreter bit for bit. Each operation rounds to f32; the functions are
//! right within 2 units in the last place.

use crate::Sums;
use crate::dtypes;
use crate::printer::Printer;
use relax_rewrite::patterns::visit;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, Intrinsic, TExpr, UnOp};

impl Printer<'_, '_> {
    /// The value of an expression of f64 as one of f32, if it is worth it and every part allows it.
    pub(crate) fn quick(&mut self, expr: &TExpr) -> Option<String> {
        let mut calls = false;
        visit(expr, &mut |part| {
            calls |= matches!(part, TExpr::Call(Intrinsic::Exp | Intrinsic::Sigmoid, _));
        });
        let allowed = self.sums == Sums::AnyOrder && calls && self.is_narrow(expr);
        allowed.then(|| self.narrow(expr))
    }

    fn is_narrow(&self, expr: &TExpr) -> bool {
        match expr {
            TExpr::Float(_) => true,
            TExpr::Load { .. } | TExpr::Scalar(_) => self.typing.dtype(expr) == DType::F64,
            TExpr::Cast(DType::F64, inner) => self.typing.dtype(inner) == DType::F32,
            TExpr::Unary(UnOp::Negate, inner) => self.is_narrow(inner),
            TExpr::Binary(
                BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div | BinOp::Min | BinOp::Max,
                both,
            ) => self.is_narrow(&both.0) && self.is_narrow(&both.1),
            TExpr::Call(function, operands) => {
                name(*function).is_some() && operands.iter().all(|operand| self.is_narrow(operand))
            }
            _ => false,
        }
    }

    fn narrow(&mut self, expr: &TExpr) -> String {
        match expr {
            TExpr::Float(value) => dtypes::float(DType::F32, *value),
            TExpr::Cast(_, inner) => self.expr(inner, DType::F32),
            TExpr::Unary(_, inner) => format!("(-{})", self.narrow(inner)),
            TExpr::Binary(op, both) => {
                let (a, b) = (self.narrow(&both.0), self.narrow(&both.1));
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

/// The function of f32.
fn name(function: Intrinsic) -> Option<&'static str> {
    Some(match function {
        Intrinsic::Exp => "rx_quick_exp",
        Intrinsic::Sigmoid => "rx_quick_sigmoid",
        Intrinsic::Abs => "rx_abs_f32",
        Intrinsic::Sqrt => "rx_sqrt_f32",
        _ => return None,
    })
}
