//! Learning-rate schedules: linear warm-up, then constant, linear or cosine decay (Loshchilov and Hutter 2017, one cycle).

/// The rate after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Always the same.
    Constant,
    /// Down to the last rate on a line.
    Linear,
    /// Down to the last rate on half a period of the cosine.
    Cosine,
}

impl Shape {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "constant" => Some(Self::Constant),
            "linear" => Some(Self::Linear),
            "cosine" => Some(Self::Cosine),
            _ => None,
        }
    }
}

/// The learning rate of each step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// After the warm-up.
    pub shape: Shape,
    /// The greatest rate, which the last step of the warm-up has.
    pub rate: f64,
    /// The rate of the last step, of a schedule that is not constant.
    pub last: f64,
    /// Steps in which the rate grows from 0 on a line.
    pub warm_up: u64,
    /// Steps of the whole run.
    pub steps: u64,
}

impl Schedule {
    /// The rate of a step, which counts from 1.
    #[must_use]
    pub fn rate(&self, step: u64) -> f64 {
        if step <= self.warm_up {
            return self.rate * (step as f64 / self.warm_up as f64);
        }
        let progress =
            (step - self.warm_up) as f64 / self.steps.saturating_sub(self.warm_up).max(1) as f64;
        let progress = progress.min(1.0);
        // `libm`, so that every platform has the same rates.
        let left = match self.shape {
            Shape::Constant => return self.rate,
            Shape::Linear => 1.0 - progress,
            Shape::Cosine => 0.5 * (1.0 + libm::cos(std::f64::consts::PI * progress)),
        };
        self.last + (self.rate - self.last) * left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_all_shapes() {
        let schedule = |shape| Schedule { shape, rate: 2.0, last: 1.0, warm_up: 2, steps: 6 };
        let rates = |shape| (1..=6).map(|step| schedule(shape).rate(step)).collect::<Vec<f64>>();
        assert_eq!(rates(Shape::Constant), [1.0, 2.0, 2.0, 2.0, 2.0, 2.0]);
        assert_eq!(rates(Shape::Linear), [1.0, 2.0, 1.75, 1.5, 1.25, 1.0]);
        let expected = [1.0, 2.0, 1.853_553_390_593_273_8, 1.5, 1.146_446_609_406_726_2, 1.0];
        let near = |(found, expected): (&f64, &f64)| (found - expected).abs() < 1e-12;
        assert!(rates(Shape::Cosine).iter().zip(&expected).all(near));
        let only = Schedule { warm_up: 6, ..schedule(Shape::Linear) };
        assert_eq!(only.rate(6), 2.0);
    }
}
