//! The scalar operations of the machine, one function a dtype, chosen when a program is compiled.
//!
//! Floats round once, to nearest even, in their dtype. Integers wrap in their width, but for index
//! arithmetic (`i64` that comes from loop variables, dims, parameters and literals alone), which is
//! checked. `//` and `%` round towards minus infinity, as in Python. `min` and `max` propagate NaN
//! and take the first operand of equals, as NumPy's `minimum` and `maximum` do.

use super::floats;
use super::scalar::{Float, Integer, Scalar, with_float, with_integer, with_scalar};
use crate::scalar;
use relax_syntax::dim::{floor_div, floor_mod};
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, Intrinsic, UnOp};

/// Why an operation has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    DivisionByZero,
    Overflow,
    Shift,
}

pub(super) type Checked = Result<u64, Fault>;

/// A compiled operation on one register.
#[derive(Clone, Copy)]
pub(super) enum Kernel1 {
    Pure(fn(u64) -> u64),
    Checked(fn(u64) -> Checked),
}

/// A compiled operation on two registers.
#[derive(Clone, Copy)]
pub(super) enum Kernel2 {
    Pure(fn(u64, u64) -> u64),
    Checked(fn(u64, u64) -> Checked),
}

/// Where the operands of an integer operation come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Loop variables, dims, parameters and literals alone: leaving i64 is a trap.
    Index,
    /// Memory or a cast among them: wraps.
    Data,
}

/// `a op b` on operands of `dtype`; `None` where the dtype has no such operation.
pub(super) fn binary(op: BinOp, dtype: DType, origin: Origin) -> Option<Kernel2> {
    if dtype == DType::I64
        && origin == Origin::Index
        && let Some(kernel) = index_binary(op)
    {
        return Some(Kernel2::Checked(kernel));
    }
    with_float!(dtype, T => float_binary::<T>(op).map(Kernel2::Pure), _ => {
        with_integer!(dtype, T => integer_binary::<T>(op), _ => bool_binary(op).map(Kernel2::Pure))
    })
}

/// A prefix operator.
pub(super) fn unary(op: UnOp, dtype: DType, origin: Origin) -> Option<Kernel1> {
    match op {
        UnOp::Not => (dtype == DType::Bool).then_some(Kernel1::Pure(|a| u64::from(a == 0))),
        UnOp::Negate if dtype == DType::I64 && origin == Origin::Index => {
            Some(Kernel1::Checked(|a| {
                (a as i64).checked_neg().map(|v| v as u64).ok_or(Fault::Overflow)
            }))
        }
        UnOp::Negate => with_float!(dtype, T => Some(Kernel1::Pure(|a| float1::<T>(a, |x| -x))),
            _ => with_integer!(dtype, T => Some(Kernel1::Pure(|a| {
                T::wrap(-T::read(a).wide()).bits()
            })), _ => None)),
        UnOp::Invert => with_integer!(dtype, T => Some(Kernel1::Pure(|a| {
            T::wrap(!T::read(a).wide()).bits()
        })), _ => None),
    }
}

/// A function of one operand.
pub(super) fn call1(function: Intrinsic, dtype: DType, origin: Origin) -> Option<Kernel1> {
    if function == Intrinsic::Abs && dtype == DType::I64 && origin == Origin::Index {
        return Some(Kernel1::Checked(|a| {
            (a as i64).checked_abs().map(|v| v as u64).ok_or(Fault::Overflow)
        }));
    }
    if function == Intrinsic::Abs && dtype.is_integer() {
        return with_integer!(dtype, T => Some(Kernel1::Pure(|a| {
            T::wrap(T::read(a).wide().abs()).bits()
        })), _ => None);
    }
    with_float!(dtype, T => float_call1::<T>(function).map(Kernel1::Pure), _ => None)
}

/// `pow` and `atan2`, of floats.
pub(super) fn call2(function: Intrinsic, dtype: DType) -> Option<Kernel2> {
    with_float!(dtype, T => match function {
        Intrinsic::Pow => Some(Kernel2::Pure(|a, b| float2::<T>(a, b, libm::pow))),
        Intrinsic::Atan2 => Some(Kernel2::Pure(|a, b| float2::<T>(a, b, libm::atan2))),
        _ => None,
    }, _ => None)
}

/// `fma`, of floats: rounded once, after the sum.
pub(super) fn call3(function: Intrinsic, dtype: DType) -> Option<fn(u64, u64, u64) -> u64> {
    if function != Intrinsic::Fma {
        return None;
    }
    if dtype == DType::F64 {
        return Some(|a, b, c| f64::read(a).mul_add(f64::read(b), f64::read(c)).to_bits());
    }
    with_float!(dtype, T => Some(|a, b, c| {
        T::narrow(floats::fma_to_odd(T::read(a).wide(), T::read(b).wide(), T::read(c).wide())).bits()
    }), _ => None)
}

/// Conversion: to a float rounded once; float to integer truncated, saturated, NaN to 0; integer to
/// integer wrapped; to bool: nonzero.
pub(super) fn cast(from: DType, to: DType) -> fn(u64) -> u64 {
    with_scalar!(from, A => with_scalar!(to, B => {
        |a| B::from_number(A::read(a).number()).bits()
    }))
}

fn float1<T: Float>(a: u64, f: fn(f64) -> f64) -> u64 {
    T::narrow(f(T::read(a).wide())).bits()
}

#[inline]
fn float2<T: Float>(a: u64, b: u64, f: impl Fn(f64, f64) -> f64) -> u64 {
    T::narrow(f(T::read(a).wide(), T::read(b).wide())).bits()
}

#[inline]
fn compare<T: Float>(a: u64, b: u64, f: impl Fn(f64, f64) -> bool) -> u64 {
    u64::from(f(T::read(a).wide(), T::read(b).wide()))
}

fn float_binary<T: Float>(op: BinOp) -> Option<fn(u64, u64) -> u64> {
    Some(match op {
        BinOp::Add => |a, b| float2::<T>(a, b, |x, y| x + y),
        BinOp::Sub => |a, b| float2::<T>(a, b, |x, y| x - y),
        BinOp::Mul => |a, b| float2::<T>(a, b, |x, y| x * y),
        BinOp::Div => |a, b| float2::<T>(a, b, |x, y| x / y),
        BinOp::FloorDiv => |a, b| float2::<T>(a, b, scalar::floor_div),
        BinOp::Mod => |a, b| float2::<T>(a, b, scalar::floor_mod),
        BinOp::Min => |a, b| float2::<T>(a, b, |x, y| if x <= y || x.is_nan() { x } else { y }),
        BinOp::Max => |a, b| float2::<T>(a, b, |x, y| if x >= y || x.is_nan() { x } else { y }),
        BinOp::Equal => |a, b| compare::<T>(a, b, |x, y| x == y),
        BinOp::NotEqual => |a, b| compare::<T>(a, b, |x, y| x != y),
        BinOp::Less => |a, b| compare::<T>(a, b, |x, y| x < y),
        BinOp::LessEqual => |a, b| compare::<T>(a, b, |x, y| x <= y),
        BinOp::Greater => |a, b| compare::<T>(a, b, |x, y| x > y),
        BinOp::GreaterEqual => |a, b| compare::<T>(a, b, |x, y| x >= y),
        _ => return None,
    })
}

fn float_call1<T: Float>(function: Intrinsic) -> Option<fn(u64) -> u64> {
    Some(match function {
        Intrinsic::Abs => |a| float1::<T>(a, f64::abs),
        Intrinsic::Exp => |a| float1::<T>(a, libm::exp),
        Intrinsic::Log => |a| float1::<T>(a, libm::log),
        Intrinsic::Sqrt => |a| float1::<T>(a, f64::sqrt),
        Intrinsic::Rsqrt => |a| float1::<T>(a, |x| 1.0 / x.sqrt()),
        Intrinsic::Tanh => |a| float1::<T>(a, libm::tanh),
        Intrinsic::Erf => |a| float1::<T>(a, libm::erf),
        Intrinsic::Sigmoid => |a| float1::<T>(a, scalar::sigmoid),
        Intrinsic::Floor => |a| float1::<T>(a, f64::floor),
        Intrinsic::Ceil => |a| float1::<T>(a, f64::ceil),
        Intrinsic::Round => |a| float1::<T>(a, f64::round_ties_even),
        Intrinsic::Sin => |a| float1::<T>(a, libm::sin),
        Intrinsic::Cos => |a| float1::<T>(a, libm::cos),
        Intrinsic::Acos => |a| float1::<T>(a, libm::acos),
        Intrinsic::Acosh => |a| float1::<T>(a, libm::acosh),
        Intrinsic::Asin => |a| float1::<T>(a, libm::asin),
        Intrinsic::Asinh => |a| float1::<T>(a, libm::asinh),
        Intrinsic::Atan => |a| float1::<T>(a, libm::atan),
        Intrinsic::Atanh => |a| float1::<T>(a, libm::atanh),
        Intrinsic::Cosh => |a| float1::<T>(a, libm::cosh),
        Intrinsic::Sinh => |a| float1::<T>(a, libm::sinh),
        Intrinsic::Tan => |a| float1::<T>(a, libm::tan),
        Intrinsic::Expm1 => |a| float1::<T>(a, libm::expm1),
        Intrinsic::Log1p => |a| float1::<T>(a, libm::log1p),
        Intrinsic::Erfc => |a| float1::<T>(a, libm::erfc),
        Intrinsic::Trunc => |a| float1::<T>(a, f64::trunc),
        Intrinsic::Atan2 | Intrinsic::Pow | Intrinsic::Fma => return None,
    })
}

#[inline]
fn integer2<T: Integer>(a: u64, b: u64, f: impl Fn(i128, i128) -> i128) -> u64 {
    T::wrap(f(T::read(a).wide(), T::read(b).wide())).bits()
}

#[inline]
fn order<T: Integer>(a: u64, b: u64, f: impl Fn(&i128, &i128) -> bool) -> u64 {
    u64::from(f(&T::read(a).wide(), &T::read(b).wide()))
}

fn integer_binary<T: Integer>(op: BinOp) -> Option<Kernel2> {
    use Kernel2::{Checked, Pure};
    Some(match op {
        BinOp::Add => Pure(|a, b| integer2::<T>(a, b, |x, y| x + y)),
        BinOp::Sub => Pure(|a, b| integer2::<T>(a, b, |x, y| x - y)),
        BinOp::Mul => Pure(|a, b| integer2::<T>(a, b, i128::wrapping_mul)),
        BinOp::FloorDiv => Checked(|a, b| divide::<T>(a, b, wide_floor_div)),
        BinOp::Mod => Checked(|a, b| divide::<T>(a, b, wide_floor_mod)),
        BinOp::BitAnd => Pure(|a, b| integer2::<T>(a, b, |x, y| x & y)),
        BinOp::BitOr => Pure(|a, b| integer2::<T>(a, b, |x, y| x | y)),
        BinOp::BitXor => Pure(|a, b| integer2::<T>(a, b, |x, y| x ^ y)),
        BinOp::ShiftLeft => Checked(|a, b| shift::<T>(a, b, |x, count| x << count)),
        BinOp::ShiftRight => Checked(|a, b| shift::<T>(a, b, |x, count| x >> count)),
        BinOp::Min => Pure(|a, b| integer2::<T>(a, b, i128::min)),
        BinOp::Max => Pure(|a, b| integer2::<T>(a, b, i128::max)),
        BinOp::Equal => Pure(|a, b| u64::from(a == b)),
        BinOp::NotEqual => Pure(|a, b| u64::from(a != b)),
        BinOp::Less => Pure(|a, b| order::<T>(a, b, i128::lt)),
        BinOp::LessEqual => Pure(|a, b| order::<T>(a, b, i128::le)),
        BinOp::Greater => Pure(|a, b| order::<T>(a, b, i128::gt)),
        BinOp::GreaterEqual => Pure(|a, b| order::<T>(a, b, i128::ge)),
        BinOp::Div | BinOp::And | BinOp::Or => return None,
    })
}

fn divide<T: Integer>(a: u64, b: u64, f: fn(i128, i128) -> i128) -> Checked {
    let divisor = T::read(b).wide();
    if divisor == 0 {
        return Err(Fault::DivisionByZero);
    }
    Ok(T::wrap(f(T::read(a).wide(), divisor)).bits())
}

fn wide_floor_div(a: i128, b: i128) -> i128 {
    let quotient = a / b;
    if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient }
}

fn wide_floor_mod(a: i128, b: i128) -> i128 {
    let remainder = a % b;
    if remainder != 0 && (remainder < 0) != (b < 0) { remainder + b } else { remainder }
}

/// The widest operand has 64 bits, so that no shift leaves i128 before it is wrapped.
fn shift<T: Integer>(a: u64, b: u64, f: fn(i128, u32) -> i128) -> Checked {
    let count = T::read(b).wide();
    match u32::try_from(count) {
        Ok(count) if (count as usize) < T::DTYPE.size() * 8 => {
            Ok(T::wrap(f(T::read(a).wide(), count)).bits())
        }
        _ => Err(Fault::Shift),
    }
}

fn bool_binary(op: BinOp) -> Option<fn(u64, u64) -> u64> {
    Some(match op {
        BinOp::BitAnd => |a, b| a & b,
        BinOp::BitOr => |a, b| a | b,
        BinOp::BitXor | BinOp::NotEqual => |a, b| a ^ b,
        BinOp::Equal => |a, b| u64::from(a == b),
        _ => return None,
    })
}

/// The checked ones among the operations on i64.
fn index_binary(op: BinOp) -> Option<fn(u64, u64) -> Checked> {
    fn checked(value: Option<i64>) -> Checked {
        value.map(|v| v as u64).ok_or(Fault::Overflow)
    }
    fn divided(b: u64, value: Option<i64>) -> Checked {
        if b == 0 { Err(Fault::DivisionByZero) } else { checked(value) }
    }
    Some(match op {
        BinOp::Add => |a, b| checked((a as i64).checked_add(b as i64)),
        BinOp::Sub => |a, b| checked((a as i64).checked_sub(b as i64)),
        BinOp::Mul => |a, b| checked((a as i64).checked_mul(b as i64)),
        BinOp::FloorDiv => |a, b| divided(b, floor_div(a as i64, b as i64)),
        BinOp::Mod => |a, b| divided(b, floor_mod(a as i64, b as i64)),
        _ => return None,
    })
}
