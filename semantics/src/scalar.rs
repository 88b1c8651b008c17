//! Functions of one element, in the two domains of reference evaluation: f64 and i128.
//!
//! Everything that needs elements (the elementwise operators, the `nn` family, tensor programs)
//! computes with these, so a function has one meaning. Transcendental functions come from `libm`, a
//! port of musl's in plain Rust, because the platform's own differ in their last bits from one
//! platform to the next; what IEEE 754 rounds correctly (`sqrt`, `floor`, `mul_add`, …) is taken
//! from std. The caller rounds or wraps the result into its dtype, once.

pub use libm::{
    acos, acosh, asin, asinh, atan, atan2, atanh, cos, cosh, erf, exp, expm1, log, log1p, pow, sin,
    sinh, tan, tanh,
};

use crate::round;
use relax_syntax::dtype::DType;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

/// `1 / sqrt(x)`; of a zero the infinity of its sign.
#[must_use]
pub fn rsqrt(x: f64) -> f64 {
    1.0 / x.sqrt()
}

/// `1 / (1 + exp(-x))`. The exponential of a negative number only: it can't overflow, and small
/// results keep their digits.
#[must_use]
pub fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + exp(-x))
    } else {
        let e = exp(x);
        e / (1.0 + e)
    }
}

/// -1, 0 or 1, and 0 for either zero; NaN stays NaN, as in NumPy.
#[must_use]
pub fn sign(x: f64) -> f64 {
    if x == 0.0 {
        0.0
    } else if x.is_nan() {
        x
    } else {
        x.signum()
    }
}

/// The nearest integer, of two the even one.
#[must_use]
pub fn round_half_even(x: f64) -> f64 {
    x.round_ties_even()
}

/// The normal distribution function, `(1 + erf(x / sqrt(2))) / 2`. For negative `x` through `erfc`,
/// as the sum would cancel.
#[must_use]
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * FRAC_1_SQRT_2)
}

/// `x * normal_cdf(x)`; NaN at minus infinity, as the product says.
#[must_use]
pub fn gelu(x: f64) -> f64 {
    x * normal_cdf(x)
}

/// The approximation `x * (1 + tanh(sqrt(2/π) * (x + 0.044715 * x³))) / 2`. As `(1 + tanh(z)) / 2`
/// is `sigmoid(2z)`, nothing cancels.
#[must_use]
pub fn gelu_tanh(x: f64) -> f64 {
    let inner = FRAC_2_PI.sqrt() * (x + 0.044715 * x * x * x);
    x * sigmoid(2.0 * inner)
}

/// `x * sigmoid(x)`; NaN at minus infinity, as the product says.
#[must_use]
pub fn silu(x: f64) -> f64 {
    x * sigmoid(x)
}

/// `log(1 + exp(x))`, without overflow.
#[must_use]
pub fn softplus(x: f64) -> f64 {
    x.max(0.0) + log1p(exp(-x.abs()))
}

/// `log(exp(a) + exp(b))`, without overflow.
#[must_use]
pub fn log_add_exp(a: f64, b: f64) -> f64 {
    // The difference of equal infinities would be NaN.
    if a == b {
        return a + std::f64::consts::LN_2;
    }
    let difference = a - b;
    if difference > 0.0 {
        a + log1p(exp(-difference))
    } else if difference <= 0.0 {
        b + log1p(exp(difference))
    } else {
        f64::NAN
    }
}

/// The greater one; NaN if either is NaN, and `0.0` over `-0.0` (`maximum` of IEEE 754-2019).
#[must_use]
pub fn maximum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a > b || (a == b && a.is_sign_positive()) {
        a
    } else {
        b
    }
}

/// The lesser one; NaN if either is NaN, and `-0.0` over `0.0` (`minimum` of IEEE 754-2019).
#[must_use]
pub fn minimum(a: f64, b: f64) -> f64 {
    -maximum(-a, -b)
}

/// The remainder of division towards zero: exact, with the sign of `a` (C's `fmod`).
#[must_use]
pub fn truncated_mod(a: f64, b: f64) -> f64 {
    // Rust's `%` on floats is fmod, which has one right answer.
    a % b
}

/// The remainder of floor division, with the sign of `b`; NaN for `b == 0`. As in Python and NumPy.
#[must_use]
pub fn floor_mod(a: f64, b: f64) -> f64 {
    let remainder = a % b;
    if remainder == 0.0 {
        0f64.copysign(b)
    } else if (remainder < 0.0) != (b < 0.0) {
        remainder + b
    } else {
        remainder
    }
}

/// The floor of the exact quotient, as in Python and NumPy: `floor(a / b)` would be one too large
/// where the quotient rounds up to an integer (`1 // 0.1` is 9). `a / b` for `b == 0`; NaN for
/// infinite `a`.
#[must_use]
pub fn floor_div(a: f64, b: f64) -> f64 {
    if b == 0.0 {
        return a / b;
    }
    let remainder = a % b;
    let below = remainder != 0.0 && (remainder < 0.0) != (b < 0.0);
    // An integer but for rounding.
    let quotient = (a - remainder) / b - f64::from(u8::from(below));
    if quotient == 0.0 { 0f64.copysign(a / b) } else { quotient.round_ties_even() }
}

/// `a * b + c` for operands of `dtype`, rounded to it once.
#[must_use]
pub fn fma(dtype: DType, a: f64, b: f64, c: f64) -> f64 {
    if dtype == DType::F64 {
        return a.mul_add(b, c);
    }
    // The product of two floats of at most 24 bits is exact in f64; the sum is rounded to odd, so
    // that the rounding to `dtype` is the only one (Boldo & Melquiond 2008).
    round::round_to(dtype, add_to_odd(a * b, c))
}

/// `a + b`, its last bit set when inexact.
fn add_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    // Knuth's TwoSum: `error` is exactly what the rounding of `sum` lost.
    let tail = sum - a;
    let error = (a - (sum - tail)) + (b - tail);
    if error == 0.0 || !error.is_finite() {
        return sum;
    }
    let truncated = sum.to_bits() - u64::from((error < 0.0) != (sum < 0.0));
    f64::from_bits(truncated | 1)
}

/// Integer functions. Results are exact, or right modulo 2^128: wrapping them into their dtype
/// ([`round::wrap_to`]) gives what a machine with that dtype gives. `None` where there is no result.
pub mod int {
    use relax_syntax::dtype::DType;

    /// The quotient towards zero; `None` for `b == 0`.
    #[must_use]
    pub fn truncated_div(a: i128, b: i128) -> Option<i128> {
        a.checked_div(b)
    }

    /// What is left of [`truncated_div`], with the sign of `a`.
    #[must_use]
    pub fn truncated_mod(a: i128, b: i128) -> Option<i128> {
        a.checked_rem(b)
    }

    /// The quotient towards minus infinity; `None` for `b == 0`.
    #[must_use]
    pub fn floor_div(a: i128, b: i128) -> Option<i128> {
        let quotient = a.checked_div(b)?;
        let below = a % b != 0 && (a < 0) != (b < 0);
        Some(quotient - i128::from(below))
    }

    /// What is left of [`floor_div`], with the sign of `b`.
    #[must_use]
    pub fn floor_mod(a: i128, b: i128) -> Option<i128> {
        let remainder = a.checked_rem(b)?;
        let below = remainder != 0 && (remainder < 0) != (b < 0);
        Some(if below { remainder + b } else { remainder })
    }

    /// `base` to the power of `exponent`, modulo 2^128; `None` for a negative exponent.
    #[must_use]
    pub fn pow(base: i128, exponent: i128) -> Option<i128> {
        let mut left = u128::try_from(exponent).ok()?;
        let (mut result, mut square) = (1i128, base);
        while left > 0 {
            if left & 1 == 1 {
                result = result.wrapping_mul(square);
            }
            square = square.wrapping_mul(square);
            left >>= 1;
        }
        Some(result)
    }

    /// `value << amount`; `None` unless `0 <= amount <` the width of `dtype`.
    #[must_use]
    pub fn shift_left(dtype: DType, value: i128, amount: i128) -> Option<i128> {
        shift_amount(dtype, amount).map(|amount| value << amount)
    }

    /// `value >> amount`, which keeps the sign; `None` as for [`shift_left`].
    #[must_use]
    pub fn shift_right(dtype: DType, value: i128, amount: i128) -> Option<i128> {
        shift_amount(dtype, amount).map(|amount| value >> amount)
    }

    fn shift_amount(dtype: DType, amount: i128) -> Option<u32> {
        let width = u32::try_from(dtype.size() * 8).ok()?;
        u32::try_from(amount).ok().filter(|&amount| amount < width)
    }

    /// All bits of an integer flipped; of a bool (0 or 1) the other one.
    #[must_use]
    pub fn not(dtype: DType, value: i128) -> i128 {
        if dtype == DType::Bool { 1 - value } else { !value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_stay_finite_and_keep_their_digits() {
        assert_eq!(sigmoid(-1000.0), 0.0);
        assert_eq!(sigmoid(1000.0), 1.0);
        assert_eq!(sigmoid(-700.0), exp(-700.0));
        assert_eq!(softplus(1000.0), 1000.0);
        assert_eq!(softplus(-700.0), exp(-700.0));
        assert!(softplus(f64::NAN).is_nan());
        assert_eq!(log_add_exp(1000.0, 1000.0), 1000.0 + std::f64::consts::LN_2);
        assert_eq!(log_add_exp(f64::NEG_INFINITY, f64::NEG_INFINITY), f64::NEG_INFINITY);
        assert_eq!(log_add_exp(f64::INFINITY, f64::NEG_INFINITY), f64::INFINITY);
        assert!(log_add_exp(f64::NAN, 1.0).is_nan());
        assert_eq!(gelu(f64::INFINITY), f64::INFINITY);
        assert!(gelu(-10.0) < 0.0, "the sum 1 + erf would cancel to 0");
    }

    #[test]
    fn zeros_and_nans() {
        assert_eq!(rsqrt(-0.0), f64::NEG_INFINITY);
        assert!(sign(-0.0).is_sign_positive());
        assert!(sign(f64::NAN).is_nan());
        assert!(maximum(-0.0, 0.0).is_sign_positive());
        assert!(minimum(0.0, -0.0).is_sign_negative());
        assert!(maximum(1.0, f64::NAN).is_nan());
        assert_eq!(maximum(f64::NEG_INFINITY, 2.0), 2.0);
        assert_eq!(minimum(f64::NEG_INFINITY, 2.0), f64::NEG_INFINITY);
    }

    #[test]
    fn floor_division_is_of_the_exact_quotient() {
        assert_eq!(floor_div(1.0, 0.1), 9.0);
        assert_eq!(floor_div(-7.0, 2.0), -4.0);
        assert_eq!(floor_div(-1.0, f64::INFINITY), -1.0);
        assert_eq!(floor_div(-1.0, 0.0), f64::NEG_INFINITY);
        assert!(floor_div(f64::INFINITY, 2.0).is_nan());
        assert!(floor_div(-0.0, 3.0).is_sign_negative());
        assert_eq!(floor_mod(-7.0, 2.0), 1.0);
        assert_eq!(floor_mod(-1.0, f64::INFINITY), f64::INFINITY);
        assert!(floor_mod(4.0, -2.0).is_sign_negative());
        assert!(floor_mod(1.0, 0.0).is_nan());
        assert_eq!(truncated_mod(-7.0, 2.0), -1.0);
    }

    #[test]
    fn fma_rounds_once() {
        // 1 + 2^-24 is a tie of f32; the product's tail of 2^-60 decides it, but is lost in f64.
        let (half, tiny) = (f64::powi(2.0, -12), f64::powi(2.0, -60));
        assert_eq!(fma(DType::F32, half, half, 1.0), 1.0);
        let above = half * (1.0 + f64::powi(2.0, -23));
        assert_eq!(fma(DType::F32, above, half, 1.0), 1.0 + f64::powi(2.0, -23));
        assert_eq!(round::round_to(DType::F32, add_to_odd(half * half, 1.0)), 1.0);
        let tie = 1.0 + f64::powi(2.0, -24);
        assert_eq!(round::round_to(DType::F32, add_to_odd(tie, tiny)), 1.0 + f64::powi(2.0, -23));
        assert_eq!(round::round_to(DType::F32, add_to_odd(tie, -tiny)), 1.0);
        assert_eq!(round::round_to(DType::F32, add_to_odd(-tie, tiny)), -1.0);
        assert!(fma(DType::F32, f64::INFINITY, 0.0, 1.0).is_nan());
        assert_eq!(fma(DType::F16, 300.0, 300.0, 0.0), f64::INFINITY);
    }

    #[test]
    fn integers_have_two_kinds_of_division() {
        assert_eq!(int::truncated_div(-7, 2), Some(-3));
        assert_eq!(int::truncated_mod(-7, 2), Some(-1));
        assert_eq!(int::floor_div(-7, 2), Some(-4));
        assert_eq!(int::floor_mod(-7, 2), Some(1));
        assert_eq!(int::floor_mod(7, -2), Some(-1));
        assert_eq!(int::floor_div(7, 0), None);
        let least = i128::from(i64::MIN);
        let quotient = int::floor_div(least, -1).expect("there is one");
        assert_eq!(round::wrap_to(DType::I64, quotient), least);
    }

    #[test]
    fn powers_and_shifts_wrap() {
        assert_eq!(int::pow(-3, 3), Some(-27));
        assert_eq!(int::pow(0, 0), Some(1));
        assert_eq!(int::pow(2, -1), None);
        let power = int::pow(3, 41).expect("there is one");
        assert_eq!(round::wrap_to(DType::I64, power), i128::from(3i64.wrapping_pow(41)));
        assert_eq!(int::pow(2, i128::from(i64::MAX)), Some(0));
        assert_eq!(int::shift_left(DType::I8, 1, 8), None);
        assert_eq!(int::shift_right(DType::I8, -128, 7), Some(-1));
        assert_eq!(int::shift_left(DType::U64, 1, -1), None);
        assert_eq!(int::not(DType::Bool, 1), 0);
        assert_eq!(int::not(DType::I8, 0), -1);
    }
}
