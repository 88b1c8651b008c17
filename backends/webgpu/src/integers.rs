//! Index arithmetic in 32 bits. A launch knows that none of it leaves them ([`crate::intervals`]); what comes from memory is
//! brought into them here, where 2147483647 and its negation stand for everything beyond: no extent contains them.
//!
//! What is computed from a literal beyond 32 bits is far: it is computed in 64, as integers that are data are, and brought into
//! 32 like them. What it is computed from and is not far itself stays in 32.

use crate::dtypes;
use crate::printer::Printer;
use relax_semantics::tir::ranges::{is_comparison, is_proved};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::tensor::{BinOp, Intrinsic, TExpr, UnOp};

/// The value of an integer that is a literal: with its sign, or converted from one.
pub(crate) fn literal(expr: &TExpr) -> Option<i64> {
    match expr {
        TExpr::Int(value) => Some(*value),
        TExpr::Unary(UnOp::Negate, operand) => literal(operand)?.checked_neg(),
        // As programs convert it: towards 0, no further than the integers go, and NaN to 0.
        TExpr::Cast(DType::I64, operand) => {
            literal(operand).or_else(|| Some(float_literal(operand)? as i64))
        }
        _ => None,
    }
}

fn float_literal(expr: &TExpr) -> Option<f64> {
    match expr {
        TExpr::Float(value) => Some(*value),
        TExpr::Unary(UnOp::Negate, operand) => Some(-float_literal(operand)?),
        _ => None,
    }
}

/// Whether a literal is beyond 32 bits.
pub(crate) fn is_far_literal(value: i64) -> bool {
    i32::try_from(value).is_err()
}

/// Whether a literal beyond 32 bits takes part in the value of an index expression. One that is only compared with does not.
pub(crate) fn is_far(expr: &TExpr) -> bool {
    if let Some(value) = literal(expr) {
        return is_far_literal(value);
    }
    match expr {
        TExpr::Unary(_, operand) | TExpr::Cast(DType::I64, operand) => is_far(operand),
        TExpr::Binary(op, operands) => {
            !is_comparison(*op) && (is_far(&operands.0) || is_far(&operands.1))
        }
        TExpr::Select(parts) => is_far(&parts.1) || is_far(&parts.2),
        TExpr::Call(_, operands) => operands.iter().any(is_far),
        _ => false,
    }
}

impl Printer<'_, '_> {
    /// An integer as an i32, for indices and bounds.
    pub(crate) fn index(&mut self, expr: &TExpr) -> String {
        let dtype = self.typing.dtype(expr);
        if dtype == DType::I64 && self.typing.is_index(expr) && !is_far(expr) {
            return self.narrow(expr);
        }
        let value = self.expr(expr, dtype);
        match dtype {
            DType::I64 | DType::U64 | DType::U32 => format!("rx_index_{dtype}({value})"),
            DType::U8 | DType::U16 => format!("i32({value})"),
            _ => value,
        }
    }

    /// One that is not far.
    fn narrow(&mut self, expr: &TExpr) -> String {
        if let Some(value) = literal(expr) {
            return dtypes::index(value);
        }
        match expr {
            TExpr::Scalar(id) => self.scalars[id].clone(),
            TExpr::Dim(name) => self.dim(name),
            TExpr::Unary(op, operand) => {
                let value = self.index(operand);
                format!("({}{value})", if *op == UnOp::Negate { "-" } else { "~" })
            }
            TExpr::Binary(op, operands) => self.narrow_binary(*op, operands),
            TExpr::Select(parts) => self.select(parts, "i32", &|printer, side| printer.index(side)),
            TExpr::Cast(_, operand) => {
                let source = self.typing.cast_source(operand, DType::I64);
                match source {
                    DType::I64 => self.index(operand),
                    DType::Bool => {
                        let value = self.expr(operand, source);
                        format!("select(0i, 1i, {value})")
                    }
                    _ => {
                        self.refuse("an index is converted from arithmetic of another dtype");
                        dtypes::index(0)
                    }
                }
            }
            TExpr::Call(Intrinsic::Abs, operands) => {
                let value = self.index(&operands[0]);
                format!("abs({value})")
            }
            _ => {
                self.refuse("an index is computed in a way that is not known");
                dtypes::index(0)
            }
        }
    }

    fn narrow_binary(&mut self, op: BinOp, operands: &(TExpr, TExpr)) -> String {
        let (a, b) = (self.index(&operands.0), self.index(&operands.1));
        let zero = || Dim::Int(0);
        match op {
            BinOp::FloorDiv | BinOp::Mod => {
                let (left, right) = (self.ranges.dim(&operands.0), self.ranges.dim(&operands.1));
                let positive = |printer: &mut Self, dim: Option<Dim>, relation| match dim {
                    Some(dim) => is_proved(printer.facts, &Claim::new(zero(), relation, dim)),
                    None => false,
                };
                if !positive(self, right, Relation::Less) {
                    return self.operation(op, DType::I32, &a, &b);
                }
                let (sign, name) = match op {
                    BinOp::FloorDiv => ("/", "rx_floordiv_i32"),
                    _ => ("%", "rx_floormod_i32"),
                };
                // A literal 0 is where nothing ever comes, and a device would not take it.
                if positive(self, left, Relation::AtMost) && b != "0i" {
                    return format!("({a} {sign} {b})");
                }
                format!("{name}({a}, {b})")
            }
            BinOp::ShiftLeft | BinOp::ShiftRight => {
                // A shift of an i64 may have a count of up to 63; beyond 31 nothing of 32 bits is left.
                let count = self.temporary(&b);
                let outside = self.temporary(&format!("{count} < 0i || {count} >= 64i"));
                self.stop_if(&outside);
                let sign = if op == BinOp::ShiftLeft { "<<" } else { ">>" };
                format!("({a} {sign} u32(clamp({count}, 0i, 31i)))")
            }
            _ => self.operation(op, DType::I32, &a, &b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(op: BinOp, a: TExpr, b: TExpr) -> TExpr {
        TExpr::Binary(op, Box::new((a, b)))
    }

    fn negated(operand: TExpr) -> TExpr {
        TExpr::Unary(UnOp::Negate, Box::new(operand))
    }

    fn converted(dtype: DType, operand: TExpr) -> TExpr {
        TExpr::Cast(dtype, Box::new(operand))
    }

    #[test]
    fn literals_are_converted_as_programs_do() {
        let i64_of = |value: f64| literal(&converted(DType::I64, TExpr::Float(value)));
        assert_eq!(i64_of(-7.9), Some(-7));
        assert_eq!(i64_of(1e30), Some(i64::MAX));
        assert_eq!(i64_of(f64::NAN), Some(0));
        assert_eq!(literal(&converted(DType::I64, negated(TExpr::Float(2.5)))), Some(-2));
        assert_eq!(literal(&negated(TExpr::Int(3))), Some(-3));
        assert_eq!(literal(&negated(TExpr::Int(i64::MIN))), None);
        assert_eq!(literal(&converted(DType::I32, TExpr::Int(3))), None);
    }

    #[test]
    fn a_value_is_far_that_a_literal_takes_part_in() {
        let (near, far) = (|| TExpr::Int(i64::from(i32::MIN)), || TExpr::Int(1 << 31));
        assert!(is_far(&far()) && !is_far(&near()));
        assert!(is_far(&of(BinOp::Mul, near(), far())) && !is_far(&of(BinOp::Mul, near(), near())));
        let less = || of(BinOp::Less, near(), far());
        assert!(!is_far(&less()));
        let chosen = |a, b| TExpr::Select(Box::new((less(), a, b)));
        assert!(!is_far(&chosen(near(), near())) && is_far(&chosen(near(), far())));
        assert!(is_far(&converted(DType::I64, far())) && !is_far(&converted(DType::I32, far())));
        assert!(is_far(&TExpr::Call(Intrinsic::Abs, vec![far()])));
    }
}
