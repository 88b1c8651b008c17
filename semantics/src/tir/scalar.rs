//! One element in a register: 64 bits, whatever the dtype.
//!
//! A register holds the element's own bits, sign-extended for signed integers and zero-extended for
//! everything else, so that every integer but a large `u64` reads as an i64.

use crate::round;
use crate::tensor::Number;
use half::{bf16, f16};
use relax_syntax::dtype::DType;

/// An element type as the machine sees it.
pub(super) trait Scalar: Copy {
    const DTYPE: DType;

    fn read(bits: u64) -> Self;
    fn bits(self) -> u64;
    fn number(self) -> Number;

    /// Converts from either domain, as [`crate::tensor::Tensor::cast`] does.
    fn from_number(number: Number) -> Self;
}

/// A float: computed on as f64 and rounded once. For `+ - * /` and the square root of narrower
/// floats that is the correctly rounded result, f64 having more than twice their digits.
pub(super) trait Float: Scalar {
    fn wide(self) -> f64;
    fn narrow(value: f64) -> Self;
}

/// An integer: computed on as i128 and wrapped.
pub(super) trait Integer: Scalar {
    fn wide(self) -> i128;
    fn wrap(value: i128) -> Self;
}

macro_rules! float {
    ($type:ty, $raw:ty, $dtype:ident, $from_bits:path, $round:expr, $from_int:expr) => {
        impl Scalar for $type {
            const DTYPE: DType = DType::$dtype;

            fn read(bits: u64) -> Self {
                $from_bits(bits as $raw)
            }

            fn bits(self) -> u64 {
                u64::from(self.to_bits())
            }

            fn number(self) -> Number {
                Number::Float(self.wide())
            }

            fn from_number(number: Number) -> Self {
                match number {
                    Number::Float(value) => Self::narrow(value),
                    Number::Int(value) => $from_int(value),
                }
            }
        }

        impl Float for $type {
            fn wide(self) -> f64 {
                f64::from(self)
            }

            fn narrow(value: f64) -> Self {
                $round(value)
            }
        }
    };
}

float!(f16, u16, F16, f16::from_bits, round::to_f16, |v| round::to_f16(round::int_to_odd_f64(v)));
float!(bf16, u16, BF16, bf16::from_bits, round::to_bf16, |v| round::to_bf16(
    round::int_to_odd_f64(v)
));
float!(f32, u32, F32, f32::from_bits, |v: f64| v as f32, |v: i128| v as f32);
float!(f64, u64, F64, f64::from_bits, |v: f64| v, |v: i128| v as f64);

macro_rules! integer {
    ($type:ty, $dtype:ident) => {
        impl Scalar for $type {
            const DTYPE: DType = DType::$dtype;

            fn read(bits: u64) -> Self {
                bits as $type
            }

            fn bits(self) -> u64 {
                self as u64
            }

            fn number(self) -> Number {
                Number::Int(i128::from(self))
            }

            fn from_number(number: Number) -> Self {
                match number {
                    Number::Float(value) => round::float_to_int(DType::$dtype, value) as $type,
                    Number::Int(value) => value as $type,
                }
            }
        }

        impl Integer for $type {
            fn wide(self) -> i128 {
                i128::from(self)
            }

            fn wrap(value: i128) -> Self {
                value as $type
            }
        }
    };
}

integer!(i8, I8);
integer!(i16, I16);
integer!(i32, I32);
integer!(i64, I64);
integer!(u8, U8);
integer!(u16, U16);
integer!(u32, U32);
integer!(u64, U64);

impl Scalar for bool {
    const DTYPE: DType = DType::Bool;

    fn read(bits: u64) -> Self {
        bits != 0
    }

    fn bits(self) -> u64 {
        u64::from(self)
    }

    fn number(self) -> Number {
        Number::Int(i128::from(self))
    }

    fn from_number(number: Number) -> Self {
        match number {
            Number::Float(value) => value != 0.0,
            Number::Int(value) => value != 0,
        }
    }
}

/// `$body` with `$type` standing for the float type of a dtype; `$other` for every other dtype.
macro_rules! with_float {
    ($dtype:expr, $type:ident => $body:expr, _ => $other:expr) => {
        match $dtype {
            DType::F16 => {
                type $type = half::f16;
                $body
            }
            DType::BF16 => {
                type $type = half::bf16;
                $body
            }
            DType::F32 => {
                type $type = f32;
                $body
            }
            DType::F64 => {
                type $type = f64;
                $body
            }
            _ => $other,
        }
    };
}

/// The same for the integer types; `bool` is none of them.
macro_rules! with_integer {
    ($dtype:expr, $type:ident => $body:expr, _ => $other:expr) => {
        match $dtype {
            DType::I8 => {
                type $type = i8;
                $body
            }
            DType::I16 => {
                type $type = i16;
                $body
            }
            DType::I32 => {
                type $type = i32;
                $body
            }
            DType::I64 => {
                type $type = i64;
                $body
            }
            DType::U8 => {
                type $type = u8;
                $body
            }
            DType::U16 => {
                type $type = u16;
                $body
            }
            DType::U32 => {
                type $type = u32;
                $body
            }
            DType::U64 => {
                type $type = u64;
                $body
            }
            _ => $other,
        }
    };
}

/// The same for every dtype.
macro_rules! with_scalar {
    ($dtype:expr, $type:ident => $body:expr) => {
        with_float!($dtype, $type => $body, _ => with_integer!($dtype, $type => $body, _ => {
            type $type = bool;
            $body
        }))
    };
}

pub(super) use {with_float, with_integer, with_scalar};

/// The register that holds a number in `dtype`.
pub(super) fn register(dtype: DType, number: Number) -> u64 {
    with_scalar!(dtype, T => T::from_number(number).bits())
}

/// The number that a register holds in `dtype`.
pub(super) fn number(dtype: DType, bits: u64) -> Number {
    with_scalar!(dtype, T => T::read(bits).number())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_hold_every_dtype() {
        for dtype in DType::ALL {
            let one = register(dtype, Number::Int(1));
            assert_eq!(number(dtype, one).as_f64(), 1.0, "{dtype}");
        }
        assert_eq!(register(DType::I8, Number::Int(-1)), u64::MAX);
        assert_eq!(register(DType::U8, Number::Int(-1)), 255);
        assert_eq!(number(DType::U64, u64::MAX), Number::Int(i128::from(u64::MAX)));
    }
}
