//! Rational numbers of bounded size: arithmetic that would leave i128 gives nothing.

/// A fraction in lowest terms, its denominator positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ratio {
    above: i128,
    below: i128,
}

impl Ratio {
    pub(super) const ZERO: Ratio = Ratio { above: 0, below: 1 };
    pub(super) const ONE: Ratio = Ratio { above: 1, below: 1 };

    pub(super) fn of(above: i128, below: i128) -> Option<Ratio> {
        if below == 0 {
            return None;
        }
        let divisor = gcd(above.checked_abs()?, below.checked_abs()?).max(1);
        let sign = if below < 0 { -1 } else { 1 };
        Some(Ratio { above: sign * (above / divisor), below: sign * (below / divisor) })
    }

    pub(super) fn int(value: i128) -> Ratio {
        Ratio { above: value, below: 1 }
    }

    /// The exact value of a float of few digits; of others nothing.
    pub(super) fn of_float(value: f64) -> Option<Ratio> {
        const SCALE: f64 = (1_i64 << 20) as f64;
        let scaled = value * SCALE;
        let small = scaled.abs() < (1_i64 << 52) as f64 && scaled.trunc() == scaled;
        if small { Ratio::of(scaled as i128, SCALE as i128) } else { None }
    }

    pub(super) fn add(self, other: Ratio) -> Option<Ratio> {
        let left = self.above.checked_mul(other.below)?;
        let right = other.above.checked_mul(self.below)?;
        Ratio::of(left.checked_add(right)?, self.below.checked_mul(other.below)?)
    }

    pub(super) fn mul(self, other: Ratio) -> Option<Ratio> {
        let above = self.above.checked_mul(other.above)?;
        Ratio::of(above, self.below.checked_mul(other.below)?)
    }

    pub(super) fn inverse(self) -> Option<Ratio> {
        Ratio::of(self.below, self.above)
    }

    pub(super) fn is_zero(self) -> bool {
        self.above == 0
    }

    pub(super) fn is_positive(self) -> bool {
        self.above > 0
    }

    /// The integer that it is.
    pub(super) fn as_int(self) -> Option<i128> {
        (self.below == 1).then_some(self.above)
    }
}

fn gcd(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
