//! The fused product of narrow floats, which the standard library lacks.

/// `a * b + c` for operands of at most 24 digits, rounded to odd, so that rounding it once more to
/// their dtype gives the exact value rounded once (Boldo & Melquiond 2008). The product is exact.
pub(super) fn fma_to_odd(a: f64, b: f64, c: f64) -> f64 {
    let product = a * b;
    let sum = product + c;
    if !sum.is_finite() {
        return sum;
    }
    // The error of the sum, by Knuth's TwoSum.
    let back = sum - product;
    let error = (product - (sum - back)) + (c - back);
    if error == 0.0 || sum.to_bits() & 1 == 1 {
        return sum;
    }
    // Of the two neighbours that enclose the exact value, `sum` is the even one: take the other.
    let away = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if away { sum.to_bits() + 1 } else { sum.to_bits() - 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fma_agrees_with_the_hardware_on_f32() {
        let values = [1.0f32, -1.5, 3.0e-20, 1.000_000_1, 16_777_215.0, -0.333_333_34, 7.0e19];
        for a in values {
            for b in values {
                for c in values {
                    let wide = fma_to_odd(f64::from(a), f64::from(b), f64::from(c)) as f32;
                    assert_eq!(wide.to_bits(), a.mul_add(b, c).to_bits(), "{a} * {b} + {c}");
                }
            }
        }
    }
}
