//! Sampling: choice of the next token from the logits of one position.
//!
//! Filters run in the order of llama.cpp: repetition penalty, top-k, top-p, min-p, then temperature. Arithmetic is f64. Weights are
//! exponentials of `libm`, summed from the most to the least probable token. The generator is SplitMix64
//! (Steele, Lea and Flood 2014). So a seed gives the same tokens on every platform.

use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Why no token was chosen.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SamplingError {
    /// A switch outside of its range.
    #[error("the sampling switch `{switch}` is {found}: expected {expected}")]
    Switch {
        /// The field of [`Sampling`].
        switch: &'static str,
        /// The value; `NaN` is always refused.
        found: f64,
        /// The admitted range in words.
        expected: &'static str,
    },
    /// The model has no tokens.
    #[error("there are no logits: expected one for each token of the vocabulary")]
    NoLogits,
    /// One NaN makes the distribution undefined.
    #[error(
        "the logit of token {token} is NaN: the model's values overflowed or its weights are damaged"
    )]
    NanLogit {
        /// The first such token.
        token: u32,
    },
    /// An infinite logit leaves no distribution for the others.
    #[error("the logit of token {token} is infinite: the model's values overflowed")]
    InfiniteLogit {
        /// The first such token.
        token: u32,
    },
    /// All tokens are masked.
    #[error("all {0} logits are -inf: no token is possible")]
    AllMasked(usize),
    /// A token that the vocabulary lacks.
    #[error("token {token} is outside of the {logits} logits")]
    NoToken {
        /// The token that was asked for.
        token: u32,
        /// How many logits there are.
        logits: usize,
    },
}

/// Switches of sampling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Divides logits, after the filters; 0 chooses the greatest logit. From 0 to 100.
    pub temperature: f32,
    /// Keeps this many tokens, at least 1. `None` keeps all.
    pub top_k: Option<usize>,
    /// Keeps the fewest tokens whose probabilities sum up to at least this. From 0 to 1; 1 keeps all, 0 one.
    pub top_p: f32,
    /// Keeps tokens at least this share as probable as the most probable one. From 0 to 1; 0 keeps all.
    pub min_p: f32,
    /// Logits of earlier tokens are divided by this where positive, multiplied where negative. From 0.01 to 100; 1 is none.
    pub repeat_penalty: f32,
}

impl Default for Sampling {
    /// Samples the model's own distribution.
    fn default() -> Self {
        Self { temperature: 1.0, top_k: None, top_p: 1.0, min_p: 0.0, repeat_penalty: 1.0 }
    }
}

impl Sampling {
    /// Greedy decoding: always the greatest logit.
    #[must_use]
    pub fn greedy() -> Self {
        Self { temperature: 0.0, ..Self::default() }
    }

    fn check(&self) -> Result<(), SamplingError> {
        within("temperature", self.temperature, (0.0, 100.0), "a number from 0 to 100")?;
        within("top_p", self.top_p, (0.0, 1.0), "a number from 0 to 1")?;
        within("min_p", self.min_p, (0.0, 1.0), "a number from 0 to 1")?;
        within("repeat_penalty", self.repeat_penalty, (0.01, 100.0), "a number from 0.01 to 100")?;
        match self.top_k {
            Some(0) => {
                let expected = "an integer from 1, or none to keep all tokens";
                Err(SamplingError::Switch { switch: "top_k", found: 0.0, expected })
            }
            _ => Ok(()),
        }
    }
}

fn within(
    switch: &'static str,
    value: f32,
    (least, most): (f32, f32),
    expected: &'static str,
) -> Result<(), SamplingError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(SamplingError::Switch { switch, found: f64::from(value), expected })
}

/// A chosen token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chosen {
    /// Its place among the logits.
    pub token: u32,
    /// Natural logarithm of its probability by the logits as given, before all filters.
    pub logprob: f64,
}

/// Switches and the state of the generator.
#[derive(Clone, Debug)]
pub struct Sampler {
    sampling: Sampling,
    state: u64,
}

/// A token that the filters kept. The weight is its probability, times the same factor for all.
#[derive(Clone, Copy)]
struct Candidate {
    token: u32,
    logit: f64,
    weight: f64,
}

impl Sampler {
    /// # Errors
    /// When a switch is outside of its range.
    pub fn new(sampling: Sampling, seed: u64) -> Result<Self, SamplingError> {
        sampling.check()?;
        Ok(Self { sampling, state: seed })
    }

    /// Chooses a token. `earlier` are the tokens that the repetition penalty applies to, once each however often they occur.
    /// Greedy decoding leaves the generator as it is; otherwise each call draws one number.
    ///
    /// # Errors
    /// When there are no logits, one is NaN or +inf, or all are -inf.
    pub fn choose(&mut self, logits: &[f32], earlier: &[u32]) -> Result<Chosen, SamplingError> {
        let total = log_sum(logits)?;
        let token = if self.sampling.temperature == 0.0 {
            self.penalized(logits, earlier).min_by(more_probable).map(|best| best.token)
        } else {
            let mut candidates: Vec<Candidate> = self.penalized(logits, earlier).collect();
            keep_best(&mut candidates, self.sampling.top_k.unwrap_or(usize::MAX));
            self.filter(&mut candidates);
            self.draw(&mut candidates)
        };
        let token = token.ok_or(SamplingError::AllMasked(logits.len()))?;
        let logit = usize::try_from(token).ok().and_then(|place| logits.get(place));
        let logit = *logit.ok_or(SamplingError::NoToken { token, logits: logits.len() })?;
        Ok(Chosen { token, logprob: f64::from(logit) - total })
    }

    /// All tokens that are not masked.
    fn penalized<'l>(
        &self,
        logits: &'l [f32],
        earlier: &[u32],
    ) -> impl Iterator<Item = Candidate> + use<'l> {
        let penalty = f64::from(self.sampling.repeat_penalty);
        // A penalty of 1 changes no logit.
        let earlier = if penalty == 1.0 { &[] } else { earlier };
        let earlier: BTreeSet<u32> = earlier.iter().copied().collect();
        let candidate = move |(token, &logit): (u32, &f32)| {
            let logit = f64::from(logit);
            let logit = match earlier.contains(&token) {
                true if logit > 0.0 => logit / penalty,
                true => logit * penalty,
                false => logit,
            };
            Candidate { token, logit, weight: 0.0 }
        };
        let all = (0..).zip(logits).map(candidate);
        all.filter(|candidate| candidate.logit > f64::NEG_INFINITY)
    }

    /// Takes sorted candidates and keeps at least the first.
    fn filter(&self, candidates: &mut Vec<Candidate>) {
        weigh(candidates, 1.0);
        let top_p = f64::from(self.sampling.top_p);
        if top_p < 1.0 {
            let total: f64 = candidates.iter().map(|candidate| candidate.weight).sum();
            let mut sum = 0.0;
            let kept = candidates.iter().position(|candidate| {
                sum += candidate.weight;
                sum >= top_p * total
            });
            candidates.truncate(kept.map_or(candidates.len(), |last| last + 1));
        }
        // The first candidate has the weight 1.
        let least = f64::from(self.sampling.min_p);
        candidates.retain(|candidate| candidate.weight >= least);
    }

    fn draw(&mut self, candidates: &mut [Candidate]) -> Option<u32> {
        weigh(candidates, f64::from(self.sampling.temperature));
        let total: f64 = candidates.iter().map(|candidate| candidate.weight).sum();
        let point = self.unit() * total;
        let mut sum = 0.0;
        let passed = candidates.iter().find(|candidate| {
            sum += candidate.weight;
            point < sum
        });
        // The sum is formed in the same order both times, so that a point below the total is always passed.
        passed.or(candidates.last()).map(|candidate| candidate.token)
    }

    /// Uniform in [0, 1): the upper 53 of the next 64 bits.
    fn unit(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits and a power of two are exact")]
        let unit = (self.bits() >> 11) as f64 / (1_u64 << 53) as f64;
        unit
    }

    fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Greater logits first, of equal ones the least token.
fn more_probable(left: &Candidate, right: &Candidate) -> Ordering {
    let by_logit = right.logit.partial_cmp(&left.logit).unwrap_or(Ordering::Equal);
    by_logit.then(left.token.cmp(&right.token))
}

/// Sorts candidates and keeps so many. All of a vocabulary are not sorted for a few.
fn keep_best(candidates: &mut Vec<Candidate>, most: usize) {
    if most < candidates.len() {
        candidates.select_nth_unstable_by(most, more_probable);
        candidates.truncate(most);
    }
    candidates.sort_unstable_by(more_probable);
}

/// Sets weights so that the first candidate, which has the greatest logit, weighs 1.
fn weigh(candidates: &mut [Candidate], temperature: f64) {
    let most = candidates.first().map_or(0.0, |best| best.logit);
    for candidate in candidates {
        candidate.weight = libm::exp((candidate.logit - most) / temperature);
    }
}

/// Natural logarithm of the probability of a token.
///
/// # Errors
/// When the token has no logit, or as of [`Sampler::choose`].
pub fn logprob(logits: &[f32], token: u32) -> Result<f64, SamplingError> {
    let total = log_sum(logits)?;
    let logit = usize::try_from(token).ok().and_then(|place| logits.get(place));
    let logit = logit.ok_or(SamplingError::NoToken { token, logits: logits.len() })?;
    Ok(f64::from(*logit) - total)
}

/// The most probable tokens, of equal ones the least first: `most` of them, or all that are possible.
///
/// # Errors
/// As of [`Sampler::choose`].
pub fn top_logprobs(logits: &[f32], most: usize) -> Result<Vec<Chosen>, SamplingError> {
    if most == 0 {
        return Ok(Vec::new());
    }
    let total = log_sum(logits)?;
    let candidate = |(token, &logit)| Candidate { token, logit: f64::from(logit), weight: 0.0 };
    let mut candidates: Vec<Candidate> = (0..).zip(logits).map(candidate).collect();
    candidates.retain(|candidate| candidate.logit > f64::NEG_INFINITY);
    keep_best(&mut candidates, most);
    let chosen = |best: Candidate| Chosen { token: best.token, logprob: best.logit - total };
    Ok(candidates.into_iter().map(chosen).collect())
}

/// Logarithm of the sum of exponentials, in the order of tokens.
fn log_sum(logits: &[f32]) -> Result<f64, SamplingError> {
    if logits.is_empty() {
        return Err(SamplingError::NoLogits);
    }
    let mut most = f32::NEG_INFINITY;
    for (token, &logit) in (0..).zip(logits) {
        if logit.is_nan() {
            return Err(SamplingError::NanLogit { token });
        }
        if logit == f32::INFINITY {
            return Err(SamplingError::InfiniteLogit { token });
        }
        most = most.max(logit);
    }
    if most == f32::NEG_INFINITY {
        return Err(SamplingError::AllMasked(logits.len()));
    }
    let most = f64::from(most);
    Ok(most + libm::log(sum_of_exponentials(logits, most)))
}

/// The sum of `exp(logit - most)`, where no difference is positive. Eight sums that are added at the end, so that vectors take them: a call
/// of a library for each token of a vocabulary takes longer than a layer of a small model.
fn sum_of_exponentials(logits: &[f32], most: f64) -> f64 {
    let mut sums = [0.0; 8];
    let (whole, rest) = logits.as_chunks::<8>();
    for eight in whole {
        for (sum, &logit) in sums.iter_mut().zip(eight) {
            *sum += exponential(f64::from(logit) - most);
        }
    }
    for (sum, &logit) in sums.iter_mut().zip(rest) {
        *sum += exponential(f64::from(logit) - most);
    }
    sums.iter().sum()
}

/// `exp(x)` of an `x` that is not positive, within 4 units in the last place: two to the integer nearest to `x / ln 2`, times the Taylor
/// polynomial of the rest, which is at most half of `ln 2` in magnitude, so that the term of degree 14 is below 2^-57. Below -708 it
/// is that of -708, which is about the least normal number.
fn exponential(x: f64) -> f64 {
    /// Adding and subtracting it rounds to an integer, which stands in the low bits of the sum.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    /// The leading 32 bits of `ln 2`, and the rest.
    const LN_2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];
    let x = x.max(-708.0);
    let shifted = x * std::f64::consts::LOG2_E + ROUND;
    let power = shifted - ROUND;
    let rest = (x - power * LN_2[0]) - power * LN_2[1];
    let mut sum = 1.0;
    for degree in [13.0, 12.0, 11.0, 10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0] {
        sum = 1.0 + sum * rest * (1.0 / degree);
    }
    let scale = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    sum * scale
}

#[cfg(test)]
mod tests;
