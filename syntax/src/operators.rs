//! How tightly operators bind: one table for the parser and the printer.

use crate::ast::{BinaryOp, UnaryOp};

/// Binding strength, higher is tighter; the numbers only compare.
pub(crate) type Strength = u8;

/// `not`: between `and` and the comparisons.
pub(crate) const NOT: Strength = 3;
/// The comparisons, which do not chain.
pub(crate) const COMPARISON: Strength = 4;
/// Prefix `-` and `~`.
pub(crate) const PREFIX: Strength = 11;
/// `**`: binds tighter than a prefix on its left, looser than one on its right.
pub(crate) const POWER: Strength = 12;
/// Calls and subscripts.
pub(crate) const POSTFIX: Strength = 13;

/// The strength of an infix operator.
pub(crate) fn infix(op: BinaryOp) -> Strength {
    use BinaryOp as B;
    match op {
        B::Or => 1,
        B::And => 2,
        B::Equal | B::NotEqual | B::Less | B::LessEqual | B::Greater | B::GreaterEqual => {
            COMPARISON
        }
        B::BitOr => 5,
        B::BitXor => 6,
        B::BitAnd => 7,
        B::ShiftLeft | B::ShiftRight => 8,
        B::Add | B::Sub => 9,
        B::Mul | B::Div | B::FloorDiv | B::Mod | B::MatMul => 10,
        B::Power => POWER,
    }
}

/// The least strength that the left and the right operand may have without parentheses.
pub(crate) fn operands(op: BinaryOp) -> (Strength, Strength) {
    match infix(op) {
        COMPARISON => (COMPARISON + 1, COMPARISON + 1),
        POWER => (POSTFIX, PREFIX),
        own => (own, own + 1),
    }
}

/// The strength of a prefix operator, which is also the least of its operand.
pub(crate) fn prefix(op: UnaryOp) -> Strength {
    match op {
        UnaryOp::Not => NOT,
        UnaryOp::Negate | UnaryOp::Invert => PREFIX,
    }
}
