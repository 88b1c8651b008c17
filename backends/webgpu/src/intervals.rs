//! Whether index arithmetic stays within 32 bits, for the dims of one call: each index expression is followed with the least
//! and greatest values that its variables have. Conditions are not used, so that the answer may be no where none would leave.
//!
//! What a literal beyond 32 bits takes part in is computed in 64 ([`crate::integers`]), and may not leave those, which is a
//! trap; where it is used as an index, it must fit in 32 again.

use crate::integers::{is_far_literal, literal};
use relax_semantics::tir::ranges::is_comparison;
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
    pub(crate) fn enter(&mut self, loops: &[Loop]) -> Result<bool, Leaves> {
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

    /// What a scalar is bound to: where it is an index, it is held as one.
    pub(crate) fn bind(&self, value: &TExpr) -> Result<Option<Interval>, Leaves> {
        self.index(value)
    }

    /// An expression that is used as an index.
    pub(crate) fn index(&self, expr: &TExpr) -> Result<Option<Interval>, Leaves> {
        fits(self.value(expr)?)
    }

    /// The values of an index expression; none of others. A literal alone may be of another dtype.
    fn value(&self, expr: &TExpr) -> Result<Option<Interval>, Leaves> {
        self.follow_value(expr).map(|value| value.interval)
    }

    fn follow_value(&self, expr: &TExpr) -> Result<Value, Leaves> {
        if let Some(value) = literal(expr) {
            return Ok(Value { interval: Some((value, value)), is_far: is_far_literal(value) });
        }
        Ok(match expr {
            TExpr::Bool(_) => Value::near(Some((0, 1))),
            TExpr::Int(_) | TExpr::Float(_) => Value::near(None),
            TExpr::Scalar(id) => Value::near(self.scalars.get(id).copied().flatten()),
            TExpr::Dim(name) => Value::near(self.dims.get(name).map(|&value| (value, value))),
            TExpr::Load { indices, .. } => {
                indices.iter().try_for_each(|index| self.index(index).map(drop))?;
                Value::near(None)
            }
            TExpr::Unary(op, operand) => unary(*op, self.follow_value(operand)?)?,
            TExpr::Binary(op, operands) => {
                let (a, b) = (self.follow_value(&operands.0)?, self.follow_value(&operands.1)?);
                binary(*op, a, b)?
            }
            TExpr::Select(parts) => {
                self.value(&parts.0)?;
                let (a, b) = (self.follow_value(&parts.1)?, self.follow_value(&parts.2)?);
                let both = a.interval.zip(b.interval);
                let interval = both.map(|(a, b)| (a.0.min(b.0), a.1.max(b.1)));
                Value { interval, is_far: a.is_far || b.is_far }
            }
            TExpr::Cast(DType::I64, operand) => self.follow_value(operand)?,
            TExpr::Cast(_, operand) => self.value(operand).map(|_| Value::near(None))?,
            TExpr::Call(function, operands) => {
                let values = operands.iter().map(|operand| self.follow_value(operand));
                let values = values.collect::<Result<Vec<Value>, Leaves>>()?;
                let is_far = values.iter().any(|value| value.is_far);
                let interval = match (function, values.first().and_then(|value| value.interval)) {
                    (Intrinsic::Abs, Some((low, high))) => {
                        let (low, high) = (low.checked_abs(), high.checked_abs());
                        let most = low.zip(high).map(|(low, high)| low.max(high));
                        Some((0, most.ok_or(Leaves)?))
                    }
                    _ => None,
                };
                Value { interval, is_far }.held()?
            }
        })
    }
}

/// What is known of an expression.
#[derive(Clone, Copy)]
struct Value {
    interval: Option<Interval>,
    /// Whether it is computed in 64 bits, as [`crate::integers::is_far`] says.
    is_far: bool,
}

impl Value {
    fn near(interval: Option<Interval>) -> Self {
        Self { interval, is_far: false }
    }

    /// What was computed is within the bits in which it is: the intervals have no more than 64.
    fn held(self) -> Result<Self, Leaves> {
        if !self.is_far {
            fits(self.interval)?;
        }
        Ok(self)
    }
}

fn unary(op: UnOp, operand: Value) -> Result<Value, Leaves> {
    let interval = match (op, operand.interval) {
        (UnOp::Not, _) => return Ok(Value::near(Some((0, 1)))),
        (UnOp::Negate, Some((low, high))) => {
            let (low, high) = (high.checked_neg(), low.checked_neg());
            Some(low.zip(high).ok_or(Leaves)?)
        }
        (UnOp::Invert, Some((low, high))) => Some((!high, !low)),
        _ => None,
    };
    Value { interval, ..operand }.held()
}

fn binary(op: BinOp, a: Value, b: Value) -> Result<Value, Leaves> {
    if is_comparison(op) {
        return Ok(Value::near(Some((0, 1))));
    }
    let is_far = a.is_far || b.is_far;
    let interval = match (a.interval, b.interval) {
        (Some(a), Some(b)) if is_far => Some(far_operation(op, a, b)?),
        (Some(a), Some(b)) => {
            let both = fits(Some(a))?.zip(fits(Some(b))?);
            both.map(|(a, b)| operation(op, a, b))
        }
        _ => None,
    };
    Value { interval, is_far }.held()
}

fn fits(value: Option<Interval>) -> Result<Option<Interval>, Leaves> {
    match value {
        Some((low, high)) if low <= ANY.0 || high >= ANY.1 => Err(Leaves),
        other => Ok(other),
    }
}

/// Of operands of 64 bits: what might leave them is a trap. Shifts and operations on bits never do.
fn far_operation(op: BinOp, a: Interval, b: Interval) -> Result<Interval, Leaves> {
    let corners = |f: &dyn Fn(i64, i64) -> Option<i64>| {
        let pairs = [(a.0, b.0), (a.0, b.1), (a.1, b.0), (a.1, b.1)];
        let values = pairs.map(|(x, y)| f(x, y));
        let values = values.into_iter().collect::<Option<Vec<i64>>>().ok_or(Leaves)?;
        let low = values.iter().copied().min().ok_or(Leaves)?;
        values.into_iter().max().map(|high| (low, high)).ok_or(Leaves)
    };
    match op {
        BinOp::Add => corners(&i64::checked_add),
        BinOp::Sub => corners(&i64::checked_sub),
        BinOp::Mul => corners(&i64::checked_mul),
        BinOp::FloorDiv if b.0 > 0 || b.1 < 0 => corners(&floor_div),
        // A divisor of 0 stops the kernel, and one of -1 may leave.
        BinOp::FloorDiv => {
            let most = a.0.checked_abs().zip(a.1.checked_abs()).ok_or(Leaves)?;
            let most = most.0.max(most.1);
            Ok((-most, most))
        }
        BinOp::Mod | BinOp::Min | BinOp::Max | BinOp::ShiftRight => Ok(operation(op, a, b)),
        _ => Ok((i64::MIN, i64::MAX)),
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
    let size = a.0.saturating_abs().max(a.1.saturating_abs());
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

    const FAR: TExpr = TExpr::Int(1 << 40);

    fn of(op: BinOp, a: TExpr, b: TExpr) -> TExpr {
        TExpr::Binary(op, Box::new((a, b)))
    }

    fn dim(name: &str) -> TExpr {
        TExpr::Dim(Name::new(name))
    }

    fn known() -> Intervals {
        let dims = [("n", 1 << 20), ("one", 1), ("nothing", 0)];
        let dims = dims.map(|(name, value)| (Name::new(name), value)).into();
        Intervals { dims, ..Intervals::default() }
    }

    #[test]
    fn what_is_not_far_stays_in_32_bits() {
        let square = of(BinOp::Mul, dim("n"), dim("n"));
        assert_eq!(known().index(&square), Err(Leaves));
        assert_eq!(known().value(&of(BinOp::Less, square.clone(), FAR)), Err(Leaves));
        assert_eq!(known().index(&of(BinOp::Sub, square, FAR)), Err(Leaves));
    }

    #[test]
    fn what_is_far_stays_in_64_bits_and_fits_where_it_is_used() {
        let known = known();
        let index = |op, a, b| known.index(&of(op, a, b));
        assert_eq!(index(BinOp::Mul, FAR, dim("nothing")), Ok(Some((0, 0))));
        assert_eq!(index(BinOp::FloorDiv, FAR, dim("n")), Ok(Some((1 << 20, 1 << 20))));
        assert_eq!(index(BinOp::Min, FAR, dim("n")), Ok(Some((1 << 20, 1 << 20))));
        assert_eq!(index(BinOp::Add, FAR, dim("n")), Err(Leaves));
        assert_eq!(
            known.value(&of(BinOp::Add, dim("one"), FAR)),
            Ok(Some(((1 << 40) + 1, (1 << 40) + 1)))
        );
        assert_eq!(known.value(&of(BinOp::Mul, FAR, of(BinOp::Mul, FAR, dim("one")))), Err(Leaves));
        let least = || TExpr::Int(i64::MIN);
        let below = of(BinOp::Add, least(), dim("one"));
        assert_eq!(index(BinOp::Max, below, dim("n")), Ok(Some((1 << 20, 1 << 20))));
        assert_eq!(known.value(&of(BinOp::Sub, least(), dim("one"))), Err(Leaves));
        let abs = TExpr::Call(Intrinsic::Abs, vec![least()]);
        assert_eq!(known.value(&abs), Err(Leaves));
        assert_eq!(known.value(&TExpr::Unary(UnOp::Negate, Box::new(least()))), Err(Leaves));
    }

    #[test]
    fn divisors_of_0_and_bits_do_not_leave_64() {
        let known = known();
        let size = 1 << 40;
        assert_eq!(known.value(&of(BinOp::FloorDiv, FAR, dim("nothing"))), Ok(Some((-size, size))));
        assert_eq!(known.value(&of(BinOp::Mod, FAR, dim("n"))), Ok(Some((0, 0))));
        let all = Ok(Some((i64::MIN, i64::MAX)));
        assert_eq!(known.value(&of(BinOp::BitAnd, FAR, dim("n"))), all);
        assert_eq!(known.value(&of(BinOp::ShiftLeft, FAR, dim("n"))), all);
        assert_eq!(known.value(&of(BinOp::ShiftRight, FAR, dim("n"))), Ok(Some((0, size))));
        // What the values of a condition are says nothing of what it chooses.
        let less = of(BinOp::Less, dim("one"), FAR);
        let chosen = TExpr::Select(Box::new((less, dim("one"), dim("n"))));
        assert_eq!(known.index(&chosen), Ok(Some((1, 1 << 20))));
    }

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
