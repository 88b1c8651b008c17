//! Symbolic dims: i64 expressions with floor semantics (`LANGUAGE.md` §2).
//!
//! A [`Dim`] is a tree as a person wrote it. Its canonical form is the business of the crate that
//! decides facts on dims; here are only evaluation, substitution and the text.

pub mod evaluation;

use crate::Name;
use crate::annotation::OWN;
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// A symbolic i64 expression. Variables are named; a name is unique within a top-level function.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dim {
    /// A literal.
    Int(i64),
    /// A symbolic variable.
    Var(Name),
    /// An operation on two expressions.
    Op(DimOp, Box<(Dim, Dim)>),
}

/// The operations of symbolic expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DimOp {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// `a // b`, rounded towards minus infinity
    FloorDiv,
    /// `a % b`, with the sign of `b`
    FloorMod,
    /// `min(a, b)`
    Min,
    /// `max(a, b)`
    Max,
    /// `ceildiv(a, b)`: `a / b` rounded towards plus infinity
    CeilDiv,
}

/// Why a symbolic expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DimError {
    /// A result leaves i64.
    #[error("`{}` leaves the range of i64", applied(*.0, *.1, *.2))]
    Overflow(DimOp, i64, i64),
    /// A divisor is 0.
    #[error("`{}` divides by zero", applied(*.0, *.1, *.2))]
    DivisionByZero(DimOp, i64, i64),
    /// A variable has no value yet.
    #[error("symbolic variable `{0}` has no value here")]
    Unbound(Name),
}

/// The operation as it failed. Searches for counterexamples fail often, and show nothing.
fn applied(op: DimOp, a: i64, b: i64) -> Dim {
    Dim::Op(op, Box::new((Dim::Int(a), Dim::Int(b))))
}

impl DimOp {
    /// Every operation.
    pub const ALL: [DimOp; 8] = [
        DimOp::Add,
        DimOp::Sub,
        DimOp::Mul,
        DimOp::FloorDiv,
        DimOp::FloorMod,
        DimOp::Min,
        DimOp::Max,
        DimOp::CeilDiv,
    ];

    /// Applies the operation; `None` when the result leaves i64 or the divisor is 0.
    #[must_use]
    pub fn apply(self, a: i64, b: i64) -> Option<i64> {
        match self {
            DimOp::Add => a.checked_add(b),
            DimOp::Sub => a.checked_sub(b),
            DimOp::Mul => a.checked_mul(b),
            DimOp::FloorDiv => floor_div(a, b),
            DimOp::FloorMod => floor_mod(a, b),
            DimOp::Min => Some(a.min(b)),
            DimOp::Max => Some(a.max(b)),
            DimOp::CeilDiv => {
                let quotient = floor_div(a, b)?;
                if floor_mod(a, b)? == 0 { Some(quotient) } else { quotient.checked_add(1) }
            }
        }
    }

    /// The infix spelling, or the name of the function for `min max ceildiv`.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            DimOp::Add => "+",
            DimOp::Sub => "-",
            DimOp::Mul => "*",
            DimOp::FloorDiv => "//",
            DimOp::FloorMod => "%",
            DimOp::Min => "min",
            DimOp::Max => "max",
            DimOp::CeilDiv => "ceildiv",
        }
    }

    /// The operation of a [`symbol`](DimOp::symbol).
    #[must_use]
    pub fn of_symbol(symbol: &str) -> Option<DimOp> {
        Self::ALL.into_iter().find(|op| op.symbol() == symbol)
    }

    /// 1 for sums, 2 for products, 3 for what is written as a call.
    fn precedence(self) -> u8 {
        match self {
            DimOp::Add | DimOp::Sub => 1,
            DimOp::Mul | DimOp::FloorDiv | DimOp::FloorMod => 2,
            DimOp::Min | DimOp::Max | DimOp::CeilDiv => 3,
        }
    }
}

/// `a // b` rounded towards minus infinity; `None` for `b == 0` and `i64::MIN // -1`.
#[must_use]
pub fn floor_div(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    let inexact = a % b != 0;
    Some(if inexact && (a < 0) != (b < 0) { quotient - 1 } else { quotient })
}

/// `a % b` with the sign of `b`; `None` for `b == 0`.
#[must_use]
pub fn floor_mod(a: i64, b: i64) -> Option<i64> {
    let remainder = a.checked_rem(b).or(if b == -1 { Some(0) } else { None })?;
    Some(if remainder != 0 && (remainder < 0) != (b < 0) { remainder + b } else { remainder })
}

impl Dim {
    /// The variable `name`.
    #[must_use]
    pub fn var(name: impl Into<Name>) -> Self {
        Dim::Var(name.into())
    }

    /// `a op b`, folded where both are literals (and the result fits) or one is a neutral literal.
    /// The value is the same for all variables; nothing else is simplified.
    #[must_use]
    pub fn op(op: DimOp, a: Dim, b: Dim) -> Self {
        if let (Dim::Int(x), Dim::Int(y)) = (&a, &b)
            && let Some(value) = op.apply(*x, *y)
        {
            return Dim::Int(value);
        }
        match (op, &a, &b) {
            (DimOp::Add, Dim::Int(0), _) | (DimOp::Mul, Dim::Int(1), _) => b,
            (DimOp::Add | DimOp::Sub, _, Dim::Int(0))
            | (DimOp::Mul | DimOp::FloorDiv | DimOp::CeilDiv, _, Dim::Int(1)) => a,
            _ => Dim::Op(op, Box::new((a, b))),
        }
    }

    /// The product of `dims`; 1 for none.
    #[must_use]
    pub fn product<'a>(dims: impl IntoIterator<Item = &'a Dim>) -> Self {
        dims.into_iter().fold(Dim::Int(1), |acc, dim| Dim::op(DimOp::Mul, acc, dim.clone()))
    }

    /// The literal value, if this is a literal.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        if let Dim::Int(value) = self { Some(*value) } else { None }
    }

    /// The value under an assignment of the variables.
    ///
    /// # Errors
    /// Overflow of i64, division by zero, or a variable that `value_of` does not know.
    pub fn eval(&self, value_of: &dyn Fn(&Name) -> Option<i64>) -> Result<i64, DimError> {
        match self {
            Dim::Int(value) => Ok(*value),
            Dim::Var(name) => value_of(name).ok_or_else(|| DimError::Unbound(name.clone())),
            Dim::Op(op, operands) => {
                let a = operands.0.eval(value_of)?;
                let b = operands.1.eval(value_of)?;
                op.apply(a, b).ok_or_else(|| {
                    let divides = matches!(op, DimOp::FloorDiv | DimOp::FloorMod | DimOp::CeilDiv);
                    if divides && b == 0 {
                        DimError::DivisionByZero(*op, a, b)
                    } else {
                        DimError::Overflow(*op, a, b)
                    }
                })
            }
        }
    }

    /// Replaces every variable that `map` knows, all at once.
    #[must_use]
    pub fn substitute(&self, map: &BTreeMap<Name, Dim>) -> Dim {
        match self {
            Dim::Int(_) => self.clone(),
            Dim::Var(name) => map.get(name).cloned().unwrap_or_else(|| self.clone()),
            Dim::Op(op, operands) => {
                Dim::op(*op, operands.0.substitute(map), operands.1.substitute(map))
            }
        }
    }

    /// How many operations, variables and literals it has.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Dim::Int(_) | Dim::Var(_) => 1,
            Dim::Op(_, operands) => 1 + operands.0.size() + operands.1.size(),
        }
    }

    /// Calls `visit` on each variable, left to right, repeated ones too.
    pub fn visit_vars<'a>(&'a self, visit: &mut dyn FnMut(&'a Name)) {
        match self {
            Dim::Int(_) => {}
            Dim::Var(name) => visit(name),
            Dim::Op(_, operands) => {
                operands.0.visit_vars(visit);
                operands.1.visit_vars(visit);
            }
        }
    }

    /// True if every variable satisfies `known`.
    #[must_use]
    pub fn vars_all(&self, known: &dyn Fn(&Name) -> bool) -> bool {
        let mut all = true;
        self.visit_vars(&mut |name| all &= known(name));
        all
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, parent: u8) -> fmt::Result {
        match self {
            // `-1` binds tighter than any operator, so a negative literal needs no parentheses.
            Dim::Int(value) => write!(f, "{value}"),
            // Whose a variable is shows in the text by quotes around the dim, not in its name.
            Dim::Var(name) => f.write_str(name.trim_start_matches(OWN)),
            Dim::Op(op, operands) if op.precedence() == 3 => {
                write!(f, "{}({}, {})", op.symbol(), operands.0, operands.1)
            }
            Dim::Op(op, operands) => {
                let own = op.precedence();
                if own < parent {
                    f.write_str("(")?;
                }
                operands.0.write(f, own)?;
                write!(f, " {} ", op.symbol())?;
                // All infix operators associate to the left.
                operands.1.write(f, own + 1)?;
                if own < parent { f.write_str(")") } else { Ok(()) }
            }
        }
    }
}

impl From<i64> for Dim {
    fn from(value: i64) -> Self {
        Dim::Int(value)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}

/// Writes `a, b, c`.
pub(crate) fn comma_separated<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    items: impl IntoIterator<Item = T>,
) -> fmt::Result {
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}
