//! Which scalar expressions have a value wherever they are evaluated: all that they read is in bounds,
//! index arithmetic stays in i64, and nothing divides by 0 or shifts too far. Whether what they read is
//! written is the business of whoever asks.

use super::ranges::{Ranges, is_comparison, is_proved, opposites};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Facts, Relation};
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BinOp, Intrinsic, TExpr, UnOp};
use std::collections::BTreeSet;

/// What expressions of one program are asked with.
pub struct Total<'p, 'f> {
    program: &'p TensorProgram,
    /// Who decides.
    pub facts: &'f mut dyn Facts,
    /// What is an i64: the extents of its parameters, and what these leave room for.
    extents: Vec<Dim>,
    /// Indices that are known to be within an extent, by the facts of this place: a long expression reads
    /// at the same place again and again.
    within: BTreeSet<(Dim, Dim)>,
}

impl<'p, 'f> Total<'p, 'f> {
    /// Of a program, whose declared facts are assumed already.
    pub fn new(program: &'p TensorProgram, facts: &'f mut dyn Facts) -> Self {
        let params = program.buffer_params().map(|id| &*program.buffer(id).shape);
        let extents = params.flat_map(|shape| shape.iter().cloned().chain(room(shape))).collect();
        Self { program, facts, extents, within: BTreeSet::new() }
    }

    /// Whether an expression has a value for all scalars in these ranges.
    pub fn has_value(&mut self, ranges: &Ranges, expr: &TExpr) -> bool {
        match expr {
            TExpr::Int(_) | TExpr::Float(_) | TExpr::Bool(_) => true,
            TExpr::Scalar(_) | TExpr::Dim(_) => true,
            TExpr::Load { buffer, indices } => {
                let shape = &self.program.buffer(*buffer).shape;
                indices.iter().zip(shape).all(|(index, extent)| {
                    self.has_value(ranges, index) && self.is_within(ranges, index, extent)
                })
            }
            TExpr::Unary(op, operand) => {
                let may_leave = *op == UnOp::Negate && ranges.is_index(expr);
                self.has_value(ranges, operand) && (!may_leave || self.stays(ranges, expr))
            }
            TExpr::Binary(op, operands) => self.binary(ranges, expr, *op, &operands.0, &operands.1),
            TExpr::Select(parts) => {
                self.has_value(ranges, &parts.0)
                    && self.has_value_where(ranges, std::slice::from_ref(&parts.0), &parts.1)
                    && self.has_value_where(ranges, &opposites(&parts.0), &parts.2)
            }
            TExpr::Cast(_, operand) => self.has_value(ranges, operand),
            TExpr::Call(function, operands) => {
                // The absolute value of an integer leaves i64 where its negation does.
                let may_leave = *function == Intrinsic::Abs && ranges.is_index(expr);
                let negated =
                    |operand: &TExpr| TExpr::Unary(UnOp::Negate, Box::new(operand.clone()));
                operands.iter().all(|operand| {
                    self.has_value(ranges, operand)
                        && (!may_leave || self.stays(ranges, &negated(operand)))
                })
            }
        }
    }

    fn has_value_where(&mut self, ranges: &Ranges, conditions: &[TExpr], expr: &TExpr) -> bool {
        self.facts.push();
        let outer = self.within.clone();
        conditions.iter().for_each(|condition| ranges.assume(self.facts, condition));
        let has_value = self.has_value(ranges, expr);
        self.within = outer;
        self.facts.pop();
        has_value
    }

    fn is_within(&mut self, ranges: &Ranges, index: &TExpr, extent: &Dim) -> bool {
        let Some(dim) = ranges.dim(index) else {
            return ranges.is_integer_within(self.facts, index, extent);
        };
        let known = (dim, extent.clone());
        if self.within.contains(&known) {
            return true;
        }
        let within = ranges.is_within(self.facts, index, extent);
        if within {
            self.within.insert(known);
        }
        within
    }

    fn binary(&mut self, ranges: &Ranges, expr: &TExpr, op: BinOp, a: &TExpr, b: &TExpr) -> bool {
        if !self.has_value(ranges, a) {
            return false;
        }
        match op {
            BinOp::And => return self.has_value_where(ranges, std::slice::from_ref(a), b),
            BinOp::Or => return self.has_value_where(ranges, &opposites(a), b),
            _ if !self.has_value(ranges, b) => return false,
            _ if is_comparison(op) => return true,
            BinOp::FloorDiv | BinOp::Mod if !self.is_positive(ranges, b) => return false,
            // No larger than an operand.
            BinOp::FloorDiv | BinOp::Mod | BinOp::Min | BinOp::Max => return true,
            BinOp::ShiftLeft | BinOp::ShiftRight => return ranges.is_shift_count(self.facts, b),
            _ => {}
        }
        !ranges.is_index(expr) || self.stays(ranges, expr)
    }

    fn stays(&mut self, ranges: &Ranges, expr: &TExpr) -> bool {
        ranges.stays_in_i64(self.facts, expr, &self.extents)
    }

    fn is_positive(&mut self, ranges: &Ranges, divisor: &TExpr) -> bool {
        let Some(dim) = ranges.dim(divisor) else { return false };
        is_proved(self.facts, &Claim::new(0, Relation::Less, dim))
    }
}

/// Of extents that are computed: what stays in i64 because a tensor has no more elements than that. With literal extents beside it, as 2 and 8 beside
/// `(n + 1) // 2`, eight times the extent is at most a half of the greatest i64, and a quarter of that may be added.
fn room(shape: &[Dim]) -> impl Iterator<Item = Dim> {
    let literals = shape.iter().filter_map(Dim::as_int).filter(|&extent| extent > 0);
    let half = literals.fold(1_i64, i64::saturating_mul) / 2;
    let computed = shape.iter().filter(move |dim| half > 0 && matches!(dim, Dim::Op(..)));
    let most = move |dim: &Dim| Dim::op(DimOp::Mul, Dim::Int(half), dim.clone());
    computed.map(move |dim| Dim::op(DimOp::Add, most(dim), Dim::Int(1 << 61)))
}
