//! Rotary position embeddings: the frequencies of pairs, scaled as transformers does.

/// Frequencies of the pairs of a head.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotary {
    /// The first elements of a head, which turn; the others stay.
    pub dim: usize,
    /// Pair `i` turns by `base^(-2i / dim)` a position.
    pub base: f64,
    /// What becomes of the frequencies.
    pub scaling: Scaling,
}

/// Scaling of frequencies to longer contexts.
#[derive(Clone, Debug, PartialEq)]
pub enum Scaling {
    /// As they are.
    None,
    /// All divided by a factor.
    Linear {
        /// At least 1 in practice.
        factor: f64,
    },
    /// Long waves divided by a factor, short ones kept, those between blended (Llama 3.1).
    Llama3 {
        /// The divisor of long waves.
        factor: f64,
        /// Waves longer than `context / low` are long.
        low: f64,
        /// Waves shorter than `context / high` are short.
        high: f64,
        /// Positions before the extension.
        context: f64,
    },
}

impl Rotary {
    /// The angle that each pair turns by a position, in f32.
    #[must_use]
    pub fn frequencies(&self) -> Vec<f32> {
        (0..self.dim / 2).map(|pair| self.scaling.of(self.frequency(pair))).collect()
    }

    /// Exponent, power and reciprocal are rounded to f32 each, as in PyTorch.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "rounding to f32 is meant"
    )]
    fn frequency(&self, pair: usize) -> f32 {
        let exponent = (2 * pair) as f32 / self.dim as f32;
        let power = libm::pow(self.base, f64::from(exponent)) as f32;
        1.0 / power
    }
}

impl Scaling {
    #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
    fn of(&self, frequency: f32) -> f32 {
        match *self {
            Self::None => frequency,
            Self::Linear { factor } => frequency / factor as f32,
            Self::Llama3 { factor, low, high, context } => {
                let exact = f64::from(frequency);
                let wave = std::f64::consts::TAU / exact;
                if wave > context / low {
                    return (exact / factor) as f32;
                }
                if wave < context / high {
                    return frequency;
                }
                let share = (context / wave - low) / (high - low);
                ((1.0 - share) * exact / factor + share * exact) as f32
            }
        }
    }
}
