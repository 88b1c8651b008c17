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

/// `base` to the power of `exponent`, modulo 2^128; `None` for a negative exponent.
#[must_use]
pub fn integer_power(base: i128, exponent: i128) -> Option<i128> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round;
    use relax_syntax::dtype::DType;

    #[test]
    fn extremes_stay_finite_and_keep_their_digits() {
        assert_eq!(sigmoid(-1000.0), 0.0);
        assert_eq!(sigmoid(1000.0), 1.0);
        assert_eq!(sigmoid(-700.0), exp(-700.0));
    }

    #[test]
    fn zeros_and_nans() {
        assert!(maximum(-0.0, 0.0).is_sign_positive());
        assert!(maximum(1.0, f64::NAN).is_nan());
        assert_eq!(maximum(f64::NEG_INFINITY, 2.0), 2.0);
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
    }

    #[test]
    fn powers_wrap() {
        assert_eq!(integer_power(-3, 3), Some(-27));
        assert_eq!(integer_power(0, 0), Some(1));
        assert_eq!(integer_power(2, -1), None);
        let power = integer_power(3, 41).expect("there is one");
        assert_eq!(round::wrap_to(DType::I64, power), i128::from(3i64.wrapping_pow(41)));
        assert_eq!(integer_power(2, i128::from(i64::MAX)), Some(0));
    }
}
