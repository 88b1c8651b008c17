//! Random data that is the same on every platform: SplitMix64 for bits (Steele, Lea and Flood 2014),
//! Box and Muller's transform for normal numbers, elementary functions from `libm` rather than from
//! the platform.

use crate::round::integer_range;
use crate::tensor::Tensor;
use ndarray::{ArrayD, IxDyn};
use relax_syntax::dtype::{Class, DType};

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
    /// Whether elements of tensors are now and then at the edges of their dtype.
    edges: bool,
}

/// Where a random integer lies, both ends included.
pub type Range = std::ops::RangeInclusive<i64>;

impl Random {
    /// The stream of a seed and a name: every input has its own, so that one more input does not
    /// change the others.
    #[must_use]
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a over the name, then two steps so that near seeds part.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        let mut random = Self { state: seed ^ hash, edges: false };
        random.bits();
        random.bits();
        random
    }

    /// The same stream, with elements of tensors that are now and then at the edges of their dtype: NaN,
    /// infinities, -0.0, denormal and greatest numbers; the least and the greatest integer.
    #[must_use]
    pub fn with_edges(mut self) -> Self {
        self.edges = true;
        self
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in (0, 1]: never 0, so that its logarithm is finite.
    fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Standard normal.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * libm::log(self.unit())).sqrt();
        radius * libm::cos(2.0 * std::f64::consts::PI * self.unit())
    }

    /// An integer of the range; for ranges far below 2^64 as good as uniform.
    pub fn int(&mut self, range: &Range) -> i64 {
        let (low, high) = (i128::from(*range.start()), i128::from(*range.end()));
        let width = (high - low + 1).max(1);
        let value = low + i128::from(self.bits()) % width;
        i64::try_from(value).expect("invariant: the value lies in a range of i64")
    }

    /// Standard normal elements, rounded once to a float dtype.
    #[must_use]
    pub fn normal_tensor(&mut self, dtype: DType, shape: &[usize]) -> Tensor {
        Tensor::from_floats(dtype, ArrayD::from_shape_simple_fn(IxDyn(shape), || self.normal()))
    }

    /// Elements of any dtype: standard normal floats, integers of `ints` (of its part that is not
    /// negative where the dtype has no sign), coin flips.
    #[must_use]
    pub fn tensor(&mut self, dtype: DType, shape: &[usize], ints: &Range) -> Tensor {
        if self.edges {
            return self.edged_tensor(dtype, shape, ints);
        }
        let range = match dtype.class() {
            Class::Float => return self.normal_tensor(dtype, shape),
            Class::Signed => ints.clone(),
            Class::Unsigned => (*ints.start()).max(0)..=(*ints.end()).max(0),
            Class::Bool => 0..=1,
        };
        let element = || i128::from(self.int(&range));
        Tensor::from_ints(dtype, ArrayD::from_shape_simple_fn(IxDyn(shape), element))
    }

    /// One element in four lies at an edge.
    fn edged_tensor(&mut self, dtype: DType, shape: &[usize], ints: &Range) -> Tensor {
        const FLOATS: [f64; 9] =
            [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1e-40, -6e-8, 3.0e38, 65504.0];
        let shape = IxDyn(shape);
        let pick = |random: &mut Self, count: i64| {
            usize::try_from(random.int(&(0..=count * 4 - 1))).unwrap_or(usize::MAX)
        };
        if dtype.is_float() {
            let element = || {
                let at = pick(self, 9);
                FLOATS.get(at).copied().unwrap_or_else(|| self.normal())
            };
            return Tensor::from_floats(dtype, ArrayD::from_shape_simple_fn(shape, element));
        }
        let (low, high) = integer_range(dtype);
        let edges = [low, high, low + 1];
        let element = || match edges.get(pick(self, 3)) {
            Some(&edge) if dtype != DType::Bool => edge,
            _ => i128::from(self.int(ints)).clamp(low, high),
        };
        Tensor::from_ints(dtype, ArrayD::from_shape_simple_fn(shape, element))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_published_generator() {
        let mut random = Random { state: 1_234_567, edges: false };
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!([random.bits(), random.bits()], expected);
    }

    #[test]
    fn normal_numbers_have_mean_0_and_variance_1() {
        let mut random = Random::new(0, "x");
        let values: Vec<f64> = (0..20_000).map(|_| random.normal()).collect();
        let mean = values.iter().sum::<f64>() / 20_000.0;
        let variance = values.iter().map(|v| v * v).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }

    #[test]
    fn streams_differ_by_seed_and_name() {
        let first = |seed, name| Random::new(seed, name).bits();
        assert_eq!(first(0, "x"), first(0, "x"));
        assert_ne!(first(0, "x"), first(1, "x"));
        assert_ne!(first(0, "x"), first(0, "y"));
        let mut random = Random::new(7, "ints");
        assert!((0..100).all(|_| (-4..=4).contains(&random.int(&(-4..=4)))));
    }
}
