//! Index arithmetic in 32 bits. A launch knows that none of it leaves them ([`crate::intervals`]); what comes from memory is
//! brought into them here, where 2147483647 and its negation stand for everything beyond: no extent contains them.

use crate::dtypes;
use crate::printer::Printer;
use relax_rewrite::ranges::is_proved;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::tensor::{BinOp, Intrinsic, TExpr, UnOp};

impl Printer<'_, '_> {
    /// An integer as an i32, for indices and bounds.
    pub(crate) fn index(&mut self, expr: &TExpr) -> String {
        let dtype = self.typing.dtype(expr);
        if dtype == DType::I64 && self.typing.is_index(expr) {
            return self.narrow(expr);
        }
        let value = self.expr(expr, dtype);
        match dtype {
            DType::I64 | DType::U64 | DType::U32 => format!("rx_index_{dtype}({value})"),
            DType::U8 | DType::U16 => format!("i32({value})"),
            _ => value,
        }
    }

    fn narrow(&mut self, expr: &TExpr) -> String {
        match expr {
            TExpr::Int(value) if i32::try_from(*value).is_ok() => dtypes::index(*value),
            TExpr::Int(_) => {
                self.refuse("an index beyond 32 bits stands in the text");
                dtypes::index(0)
            }
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
                        self.refuse("an index is converted from a literal of another dtype");
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
