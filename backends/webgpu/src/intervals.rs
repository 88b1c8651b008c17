//! Whether index arithmetic stays within 32 bits, for the dims of one call: each index expression is followed with the least
//! and greatest values that its variables have. Conditions are not used, so that the answer may be no where none would leave.

use relax_rewrite::ranges::is_comparison;
use relax_syntax::Name;
use relax_syntax::dim::{floor_div, floor_mod};
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, Intrinsic, Loop, ScalarId, Stmt, StmtKind, TExpr, UnOp};
use std::collections::BTreeMap;

/// Least and greatest value.
type Interval = (i64, i64);
/// What an integer from memory is as a bound of a loop.
const ANY: Interval = (i32::MIN as i64, i32::MAX as i64);

/// An index that may leave 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaves;

/// What is known of the scalars in force; nothing of what comes from memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Intervals {
    pub(crate) dims: BTreeMap<Name, i64>,
    pub(crate) scalars: BTreeMap<ScalarId, Option<Interval>>,
}

impl Intervals {
    /// Follows all index expressions of statements.
    pub(crate) fn follow(&mut self, statements: &[Stmt]) -> Result<(), Leaves> {
        statements.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), Leaves> {
        match &stmt.kind {
            StmtKind::For { loops, body, .. } => {
                if self.enter(loops)? {
                    self.follow(body)
                } else {
                    Ok(())
                }
            }
            StmtKind::Block { axes, init, body, .. } => {
                for axis in axes {
                    self.index(&axis.extent)?;
                    let value = self.index(&axis.value)?;
                    self.scalars.insert(axis.var, value);
                }
                self.follow(init)?;
                self.follow(body)
            }
            StmtKind::Store { indices, value, .. } => {
                indices.iter().try_for_each(|index| self.index(index).map(drop))?;
                self.value(value).map(drop)
            }
            StmtKind::Let { var, value } => {
                let value = self.bind(value)?;
                self.scalars.insert(*var, value);
                Ok(())
            }
            StmtKind::If { condition, then, otherwise } => {
                self.value(condition)?;
                self.follow(then)?;
                self.follow(otherwise)
            }
            StmtKind::Alloc(_) | StmtKind::Barrier => Ok(()),
            StmtKind::Check(check) => self.value(&check.condition).map(drop),
        }
    }

    /// Whether a nest may have an iteration.
    fn enter(&mut self, loops: &[Loop]) -> Result<bool, Leaves> {
        let bounds =
            loops.iter().map(|item| Ok((self.index(&item.start)?, self.index(&item.stop)?)));
        let bounds: Vec<_> = bounds.collect::<Result<_, Leaves>>()?;
        let mut runs = true;
        for (item, (start, stop)) in loops.iter().zip(bounds) {
            let (low, high) = (start.unwrap_or(ANY).0, stop.unwrap_or(ANY).1);
            runs &= low < high;
            self.scalars.insert(item.var, Some((low, (high - 1).max(low))));
        }
        Ok(runs)
    }

    /// What a scalar is bound to.
    pub(crate) fn bind(&self, value: &TExpr) -> Result<Option<Interval>, Leaves> {
        if let TExpr::Int(_) = value { self.index(value) } else { self.value(value) }
    }

    /// An expression that is used as an index.
    pub(crate) fn index(&self, expr: &TExpr) -> Result<Option<Interval>, Leaves> {
        fits(self.value(expr)?)
    }

    /// The values of an index expression; none of others. A literal alone may be of another dtype.
    fn value(&self, expr: &TExpr) -> Result<Option<Interval>, Leaves> {
        Ok(match expr {
            TExpr::Int(value) => Some((*value, *value)),
            TExpr::Bool(_) => Some((0, 1)),
            TExpr::Float(_) => None,
            TExpr::Scalar(id) => self.scalars.get(id).copied().flatten(),
            TExpr::Dim(name) => self.dims.get(name).map(|&value| (value, value)),
            TExpr::Load { indices, .. } => {
                indices.iter().try_for_each(|index| self.index(index).map(drop))?;
                None
            }
            TExpr::Unary(op, operand) => match (op, self.value(operand)?) {
                (UnOp::Not, _) => Some((0, 1)),
                (UnOp::Negate, Some((low, high))) => fits(Some((-high, -low)))?,
                (UnOp::Invert, Some((low, high))) => fits(Some((!high, !low)))?,
                _ => None,
            },
            TExpr::Binary(op, operands) => {
                let (a, b) = (self.value(&operands.0)?, self.value(&operands.1)?);
                if is_comparison(*op) {
                    return Ok(Some((0, 1)));
                }
                let (Some(a), Some(b)) = (a, b) else { return Ok(None) };
                let (Some(a), Some(b)) = (fits(Some(a))?, fits(Some(b))?) else { return Ok(None) };
                fits(Some(operation(*op, a, b)))?
            }
            TExpr::Select(parts) => {
                self.value(&parts.0)?;
                match (self.value(&parts.1)?, self.value(&parts.2)?) {
                    (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
                    _ => None,
                }
            }
            TExpr::Cast(DType::I64, operand) => self.value(operand)?,
            TExpr::Cast(_, operand) => self.value(operand).map(|_| None)?,
            TExpr::Call(function, operands) => {
                let mut values = Vec::new();
                for operand in operands {
                    values.push(self.value(operand)?);
                }
                match (function, values.first()) {
                    (Intrinsic::Abs, Some(Some((low, high)))) => {
                        fits(Some((0, low.saturating_abs().max(high.saturating_abs()))))?
                    }
                    _ => None,
                }
            }
        })
    }
}

fn fits(value: Option<Interval>) -> Result<Option<Interval>, Leaves> {
    match value {
        Some((low, high)) if low <= ANY.0 || high >= ANY.1 => Err(Leaves),
        other => Ok(other),
    }
}

/// Of operands of 32 bits each result is an i64, but for shifts, which saturate.
fn operation(op: BinOp, a: Interval, b: Interval) -> Interval {
    let corners = |f: &dyn Fn(i64, i64) -> Option<i64>| {
        let pairs = [(a.0, b.0), (a.0, b.1), (a.1, b.0), (a.1, b.1)];
        let values = pairs.map(|(x, y)| f(x, y).unwrap_or(i64::MAX));
        let low = values.iter().copied().min().unwrap_or(i64::MIN);
        (low, values.iter().copied().max().unwrap_or(i64::MAX))
    };
    let size = a.0.abs().max(a.1.abs());
    match op {
        BinOp::Add => (a.0 + b.0, a.1 + b.1),
        BinOp::Sub => (a.0 - b.1, a.1 - b.0),
        BinOp::Mul => corners(&|x, y| x.checked_mul(y)),
        BinOp::FloorDiv if b.0 > 0 || b.1 < 0 => corners(&floor_div),
        // A divisor of 0 stops the kernel.
        BinOp::FloorDiv => (-size - 1, size + 1),
        BinOp::Mod if a.0 == a.1 && b.0 == b.1 && b.0 != 0 => corners(&floor_mod),
        BinOp::Mod => (b.0.min(0), b.1.max(0)),
        BinOp::Min => (a.0.min(b.0), a.1.min(b.1)),
        BinOp::Max => (a.0.max(b.0), a.1.max(b.1)),
        BinOp::ShiftLeft => corners(&|x, y| {
            let count = u32::try_from(y.clamp(0, 31)).unwrap_or(31);
            x.checked_mul(1_i64 << count)
        }),
        BinOp::ShiftRight => (a.0.min(0), a.1.max(0)),
        // Bits of both operands alone.
        _ => {
            let bound = (size.max(b.0.abs()).max(b.1.abs()) + 1).unsigned_abs().next_power_of_two();
            let bound = i64::try_from(bound).unwrap_or(i64::MAX);
            if a.0 >= 0 && b.0 >= 0 { (0, bound - 1) } else { (-bound, bound - 1) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_leave_32_bits_or_not() {
        assert_eq!(operation(BinOp::Mul, (0, 99), (-3, 7)), (-297, 693));
        assert_eq!(
            fits(Some(operation(BinOp::Mul, (0, 1 << 20), (1 << 11, 1 << 11)))),
            Err(Leaves)
        );
        assert_eq!(operation(BinOp::Mod, (-5, 100), (4, 4)), (0, 4));
        assert_eq!(operation(BinOp::FloorDiv, (0, 100), (4, 8)), (0, 25));
        assert_eq!(operation(BinOp::BitAnd, (0, 5), (0, 9)), (0, 15));
    }
}
