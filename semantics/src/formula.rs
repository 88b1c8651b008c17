//! Scalar expressions of tensor programs, written as formulas.

use crate::tir::ranges::as_expr;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, Intrinsic, ScalarId, TExpr, UnOp};
use std::ops::{Add, Div, Mul, Neg, Not, Rem, Sub};

/// A scalar expression. `/` is of floats; `%` and [`Scalar::floor_div`] round down.
#[derive(Clone, Debug, PartialEq)]
pub struct Scalar(pub TExpr);

impl From<i64> for Scalar {
    fn from(value: i64) -> Self {
        Self(TExpr::Int(value))
    }
}

impl From<f64> for Scalar {
    fn from(value: f64) -> Self {
        Self(TExpr::Float(value))
    }
}

impl From<bool> for Scalar {
    fn from(value: bool) -> Self {
        Self(TExpr::Bool(value))
    }
}

impl From<ScalarId> for Scalar {
    fn from(id: ScalarId) -> Self {
        Self(TExpr::Scalar(id))
    }
}

impl From<&Scalar> for Scalar {
    fn from(scalar: &Scalar) -> Self {
        scalar.clone()
    }
}

/// A dim that the program binds.
impl From<&Dim> for Scalar {
    fn from(dim: &Dim) -> Self {
        Self(as_expr(dim))
    }
}

impl Scalar {
    /// `a op b`
    pub fn pair(op: BinOp, a: impl Into<Scalar>, b: impl Into<Scalar>) -> Self {
        Self(TExpr::Binary(op, Box::new((a.into().0, b.into().0))))
    }

    fn is_int(&self, value: i64) -> bool {
        self.0 == TExpr::Int(value)
    }

    /// `a // b`
    pub fn floor_div(self, other: impl Into<Scalar>) -> Self {
        let other = other.into();
        if other.is_int(1) { self } else { Self::pair(BinOp::FloorDiv, self, other) }
    }

    /// Rounded up; no step leaves i64.
    pub fn ceil_div(self, other: impl Into<Scalar>) -> Self {
        let other = other.into();
        if other.is_int(1) { self } else { -(-self).floor_div(other) }
    }

    /// The first of equals; NaN if either is.
    pub fn min(self, other: impl Into<Scalar>) -> Self {
        Self::pair(BinOp::Min, self, other)
    }

    /// The first of equals; NaN if either is.
    pub fn max(self, other: impl Into<Scalar>) -> Self {
        Self::pair(BinOp::Max, self, other)
    }

    /// `a == b`
    pub fn equals(&self, other: impl Into<Scalar>) -> Self {
        Self::pair(BinOp::Equal, self, other)
    }

    /// `a != b`
    pub fn differs(&self, other: impl Into<Scalar>) -> Self {
        Self::pair(BinOp::NotEqual, self, other)
    }

    /// `a < b`
    pub fn less(&self, other: impl Into<Scalar>) -> Self {
        Self::pair(BinOp::Less, self, other)
    }

    /// `a > b`
    pub fn greater(&self, other: impl Into<Scalar>) -> Self {
        Self::pair(BinOp::Greater, self, other)
    }

    /// `a <= b`
    pub fn at_most(&self, other: impl Into<Scalar>) -> Self {
        Self::pair(BinOp::LessEqual, self, other)
    }

    /// `a >= b`
    pub fn at_least(&self, other: impl Into<Scalar>) -> Self {
        Self::pair(BinOp::GreaterEqual, self, other)
    }

    /// `a and b`
    pub fn and(self, other: impl Into<Scalar>) -> Self {
        let other = other.into();
        match (&self.0, &other.0) {
            (TExpr::Bool(true), _) => other,
            (_, TExpr::Bool(true)) => self,
            _ => Self::pair(BinOp::And, self, other),
        }
    }

    /// `a or b`
    pub fn or(self, other: impl Into<Scalar>) -> Self {
        Self::pair(BinOp::Or, self, other)
    }

    /// `~a`, every bit flipped.
    pub fn inverted(self) -> Self {
        Self(TExpr::Unary(UnOp::Invert, Box::new(self.0)))
    }

    /// A function such as `exp(x)`.
    pub fn call(self, function: Intrinsic) -> Self {
        Self(TExpr::Call(function, vec![self.0]))
    }

    /// `atan2(a, b)`
    pub fn call_with(self, function: Intrinsic, others: &[Scalar]) -> Self {
        let operands = std::iter::once(self.0).chain(others.iter().map(|other| other.0.clone()));
        Self(TExpr::Call(function, operands.collect()))
    }

    /// `exp(x)` of a float.
    pub fn exp(self) -> Self {
        self.call(Intrinsic::Exp)
    }

    /// `sqrt(x)` of a float.
    pub fn sqrt(self) -> Self {
        self.call(Intrinsic::Sqrt)
    }

    /// `abs(x)` of a number.
    pub fn abs(self) -> Self {
        self.call(Intrinsic::Abs)
    }

    /// `x != x`, which holds of NaN alone.
    pub fn is_nan(&self) -> Self {
        self.differs(self)
    }

    /// `f32(x)`
    pub fn into_dtype(self, dtype: DType) -> Self {
        Self(TExpr::Cast(dtype, Box::new(self.0)))
    }

    /// `f32(x)`, where `x` is of another dtype.
    pub fn cast(self, from: DType, to: DType) -> Self {
        if from == to { self } else { self.into_dtype(to) }
    }

    /// Moved into `low..=high`.
    pub fn clamped(self, low: impl Into<Scalar>, high: impl Into<Scalar>) -> Self {
        self.min(high).max(low)
    }
}

/// `select(c, a, b)`: only what is taken is evaluated.
pub fn select(condition: Scalar, then: impl Into<Scalar>, otherwise: impl Into<Scalar>) -> Scalar {
    match condition.0 {
        TExpr::Bool(true) => then.into(),
        condition => {
            Scalar(TExpr::Select(Box::new((condition, then.into().0, otherwise.into().0))))
        }
    }
}

impl<T: Into<Scalar>> Add<T> for Scalar {
    type Output = Scalar;

    fn add(self, other: T) -> Scalar {
        let other = other.into();
        match (self.is_int(0), other.is_int(0)) {
            (true, _) => other,
            (_, true) => self,
            _ => Scalar::pair(BinOp::Add, self, other),
        }
    }
}

impl<T: Into<Scalar>> Sub<T> for Scalar {
    type Output = Scalar;

    fn sub(self, other: T) -> Scalar {
        let other = other.into();
        if other.is_int(0) { self } else { Scalar::pair(BinOp::Sub, self, other) }
    }
}

impl<T: Into<Scalar>> Mul<T> for Scalar {
    type Output = Scalar;

    fn mul(self, other: T) -> Scalar {
        let other = other.into();
        match (self.is_int(1), other.is_int(1)) {
            (true, _) => other,
            (_, true) => self,
            _ => Scalar::pair(BinOp::Mul, self, other),
        }
    }
}

impl<T: Into<Scalar>> Div<T> for Scalar {
    type Output = Scalar;

    fn div(self, other: T) -> Scalar {
        Scalar::pair(BinOp::Div, self, other)
    }
}

impl<T: Into<Scalar>> Rem<T> for Scalar {
    type Output = Scalar;

    fn rem(self, other: T) -> Scalar {
        Scalar::pair(BinOp::Mod, self, other)
    }
}

impl Not for Scalar {
    type Output = Scalar;

    fn not(self) -> Scalar {
        Scalar(TExpr::Unary(UnOp::Not, Box::new(self.0)))
    }
}

impl Neg for Scalar {
    type Output = Scalar;

    /// The sign of a literal belongs to it, as in text.
    fn neg(self) -> Scalar {
        match self.0 {
            TExpr::Int(value) if value != i64::MIN => value.wrapping_neg().into(),
            TExpr::Float(value) => (-value).into(),
            operand => Scalar(TExpr::Unary(UnOp::Negate, Box::new(operand))),
        }
    }
}

/// The greater (`BinOp::Max`) or lesser (`BinOp::Min`) of two, where of two zeros the positive is
/// the greater one: scalars of programs take the first of equals, operators do not. Of bools, any
/// or all.
pub fn extremum(op: BinOp, dtype: DType, a: &Scalar, b: &Scalar) -> Scalar {
    if dtype == DType::Bool {
        let op = if op == BinOp::Max { BinOp::BitOr } else { BinOp::BitAnd };
        return Scalar::pair(op, a, b);
    }
    let plain = Scalar::pair(op, a, b);
    if !dtype.is_float() {
        return plain;
    }
    // The sum of two zeros is negative only when both are; of equals, only zeros differ.
    let zeros = match op {
        BinOp::Max => a.clone() + b,
        _ => -(-a.clone() + -b.clone()),
    };
    select(a.equals(0.0).and(b.equals(0.0)), zeros, plain)
}
