//! A sum of floats that keeps what rounding loses.

/// A running sum in f64 with its rounding errors beside it (Neumaier 1974), so that the result is
/// right to a rounding also for f64 elements.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    total: f64,
    lost: f64,
}

impl Sum {
    pub(super) fn add(&mut self, value: f64) {
        let total = self.total + value;
        let (large, small) =
            if self.total.abs() >= value.abs() { (self.total, value) } else { (value, self.total) };
        self.lost += (large - total) + small;
        self.total = total;
    }

    /// The sum; of infinities and NaN what plain addition says, of nothing 0.
    pub(super) fn value(&self) -> f64 {
        let exact = self.total + self.lost;
        if self.total.is_finite() { exact } else { self.total }
    }
}
