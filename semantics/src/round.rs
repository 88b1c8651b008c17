//! Rounding of exact or f64 results to a dtype: once, to nearest even.

use half::{bf16, f16};
use relax_syntax::dtype::{Class, DType};

/// `value` rounded to `dtype`, as the f64 that stands for it. Identity for `f64`.
///
/// # Panics
/// Never; for an integer dtype the value is returned as it is.
#[must_use]
pub fn round_to(dtype: DType, value: f64) -> f64 {
    match dtype {
        DType::F32 => f64::from(value as f32),
        DType::F16 => to_f16(value).to_f64(),
        DType::BF16 => to_bf16(value).to_f64(),
        _ => value,
    }
}

/// Rounds once. Going through f32 with the usual rounding would round twice, so the intermediate
/// f32 is rounded to odd, which keeps the second rounding right (Boldo & Melquiond 2008).
#[must_use]
pub fn to_f16(value: f64) -> f16 {
    f16::from_f32(to_odd_f32(value))
}

/// Rounds once; see [`to_f16`].
#[must_use]
pub fn to_bf16(value: f64) -> bf16 {
    bf16::from_f32(to_odd_f32(value))
}

/// The f32 next to `value` towards zero, its last bit set when inexact.
fn to_odd_f32(value: f64) -> f32 {
    let nearest = value as f32;
    if f64::from(nearest) == value || value.is_nan() {
        return nearest;
    }
    let truncated = if f64::from(nearest).abs() > value.abs() {
        // Also takes an overflow to infinity back to the largest finite number.
        f32::from_bits(nearest.to_bits() - 1)
    } else {
        nearest
    };
    f32::from_bits(truncated.to_bits() | 1)
}

/// The f64 next to `value` towards zero, its last bit set when inexact: a later rounding to a
/// narrower dtype is then right.
#[must_use]
pub fn int_to_odd_f64(value: i128) -> f64 {
    let nearest = value as f64;
    let back = nearest as i128;
    if back == value {
        return nearest;
    }
    let bits = nearest.to_bits() - u64::from(back.unsigned_abs() > value.unsigned_abs());
    f64::from_bits(bits | 1)
}

/// `value` wrapped into an integer dtype (two's complement), or 0/1 for `bool` (nonzero is true).
#[must_use]
pub fn wrap_to(dtype: DType, value: i128) -> i128 {
    match dtype {
        DType::I8 => i128::from(value as i8),
        DType::I16 => i128::from(value as i16),
        DType::I32 => i128::from(value as i32),
        DType::I64 => i128::from(value as i64),
        DType::U8 => i128::from(value as u8),
        DType::U16 => i128::from(value as u16),
        DType::U32 => i128::from(value as u32),
        DType::U64 => i128::from(value as u64),
        DType::Bool => i128::from(value != 0),
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => value,
    }
}

/// Float to integer: truncated towards zero, saturated at the dtype's limits, NaN becomes 0; any
/// nonzero value (NaN too) is true.
#[must_use]
pub fn float_to_int(dtype: DType, value: f64) -> i128 {
    if dtype == DType::Bool {
        return i128::from(value != 0.0);
    }
    let (low, high) = integer_range(dtype);
    (value as i128).clamp(low, high)
}

/// The least and greatest value of an integer dtype; 0 and 1 for `bool`.
///
/// # Panics
/// For a float dtype.
#[must_use]
pub fn integer_range(dtype: DType) -> (i128, i128) {
    let bits = dtype.size() * 8;
    match dtype.class() {
        Class::Bool => (0, 1),
        Class::Unsigned => (0, (1i128 << bits) - 1),
        Class::Signed => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        Class::Float => panic!("invariant: integer_range is asked of integer dtypes only"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f16_rounds_once() {
        // 1 + 2^-11 + 2^-40 lies just above a tie: two roundings would give 1.
        let value = 1.0 + f64::powi(2.0, -11) + f64::powi(2.0, -40);
        assert_eq!(to_f16(value).to_f64(), 1.0 + f64::powi(2.0, -10));
        assert_eq!(to_f16(1.0 + f64::powi(2.0, -11)).to_f64(), 1.0);
        assert_eq!(to_f16(65520.0), f16::INFINITY);
        assert_eq!(to_f16(65519.999).to_f64(), 65504.0);
        assert_eq!(to_bf16(f64::MAX).to_f64(), f64::INFINITY);
        assert!(to_f16(f64::NAN).is_nan());
        assert_eq!(to_f16(-0.0).to_bits(), 0x8000);
        assert_eq!(to_f16(-1e-60).to_bits(), 0x8000);
    }

    #[test]
    fn integers_round_once_to_bf16() {
        // Just above a tie of bf16, by less than f64 can hold.
        let value = (1i128 << 62) + (1 << 54) + 1;
        let expected = f64::powi(2.0, 62) + f64::powi(2.0, 55);
        assert_eq!(to_bf16(int_to_odd_f64(value)).to_f64(), expected);
        assert_eq!(to_bf16(int_to_odd_f64(value - 1)).to_f64(), f64::powi(2.0, 62));
        assert_eq!(int_to_odd_f64(7), 7.0);
    }

    #[test]
    fn integers_wrap_and_saturate() {
        assert_eq!(wrap_to(DType::I8, 200), -56);
        assert_eq!(wrap_to(DType::U8, -1), 255);
        assert_eq!(float_to_int(DType::I8, 1e9), 127);
        assert_eq!(float_to_int(DType::U8, -3.5), 0);
        assert_eq!(float_to_int(DType::I32, f64::NAN), 0);
        assert_eq!(float_to_int(DType::I32, -3.9), -3);
    }
}
