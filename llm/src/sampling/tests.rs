//! Switches, filters, draws and probabilities.

use super::*;

#[test]
fn exponentials_are_those_of_the_library() {
    let steps = (0..200_000).map(|step| -f64::from(step) * 0.003_54);
    for x in steps.chain([-0.0, -1e-300, -0.346_573_590_279_972_6, -0.346_573_590_279_972_7]) {
        let (found, expected) = (exponential(x), libm::exp(x));
        assert!(
            (found - expected).abs() <= 4.0 * f64::EPSILON * expected,
            "{x}: {found} {expected}"
        );
    }
    for x in [-708.5, -745.0, -1e6, f64::NEG_INFINITY] {
        assert_eq!(exponential(x), exponential(-708.0), "{x}");
    }
}

/// Of each length up to some vectors, against a sum in order.
#[test]
fn sums_of_exponentials_have_all_terms() {
    for count in 1_u16..40 {
        let logits: Vec<f32> = (0..count).map(|at| f32::from(at * 37 % 11) - 20.0).collect();
        let most = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let expected: f64 = logits.iter().map(|&logit| libm::exp(f64::from(logit) - most)).sum();
        let found = sum_of_exponentials(&logits, most);
        assert!((found - expected).abs() <= 1e-14 * expected, "{count}: {found} {expected}");
    }
}

const PLAIN: Sampling =
    Sampling { temperature: 1.0, top_k: None, top_p: 1.0, min_p: 0.0, repeat_penalty: 1.0 };

fn sampler(sampling: Sampling) -> Sampler {
    Sampler::new(sampling, 7).expect("the switches are admitted")
}

fn token(sampling: Sampling, logits: &[f32], earlier: &[u32]) -> u32 {
    sampler(sampling).choose(logits, earlier).expect("a token is possible").token
}

/// How often each token is chosen in 20,000 draws.
fn counts(sampling: Sampling, logits: &[f32], earlier: &[u32]) -> Vec<u32> {
    let mut sampler = sampler(sampling);
    let mut counts = vec![0; logits.len()];
    for _ in 0..20_000 {
        let chosen = sampler.choose(logits, earlier).expect("a token is possible");
        counts[usize::try_from(chosen.token).expect("tokens are few")] += 1;
    }
    counts
}

/// Compares with expected shares, within four standard deviations.
fn assert_shares(counts: &[u32], shares: &[f64]) {
    assert_eq!(counts.len(), shares.len());
    for (&count, share) in counts.iter().zip(shares) {
        let deviation = (20_000.0 * share * (1.0 - share)).sqrt();
        let distance = (f64::from(count) - 20_000.0 * share).abs();
        assert!(distance <= 4.0 * deviation, "{counts:?}, expected shares {shares:?}");
    }
}

fn logits(shares: &[f32]) -> Vec<f32> {
    shares.iter().map(|share| share.ln()).collect()
}

#[test]
fn top_logprobs_are_sorted_and_without_masked_tokens() {
    let logits = [1.0_f32, 3.0, f32::NEG_INFINITY, 3.0, 2.0];
    let top = |most| top_logprobs(&logits, most).expect("tokens are possible");
    let tokens = |most| top(most).iter().map(|chosen| chosen.token).collect::<Vec<_>>();
    assert_eq!(tokens(0), [0_u32; 0]);
    assert_eq!(tokens(1), [1]);
    assert_eq!(tokens(3), [1, 3, 4]);
    assert_eq!(tokens(9), [1, 3, 4, 0]);
    for chosen in top(9) {
        assert_eq!(logprob(&logits, chosen.token), Ok(chosen.logprob));
    }
    assert_eq!(top_logprobs(&[f32::NAN], 1), logprob(&[f32::NAN], 0).map(|_| Vec::new()));
}

#[test]
fn greedy_takes_the_least_of_equal_tokens() {
    assert_eq!(token(Sampling::greedy(), &[1.0, 3.0, 3.0, 3.0], &[]), 1);
    assert_eq!(token(Sampling::greedy(), &[f32::NEG_INFINITY, -9.0], &[]), 1);
    assert_eq!(token(Sampling::greedy(), &[0.5], &[]), 0);
}

#[test]
fn draws_follow_the_distribution() {
    let shares = [0.1, 0.4, 0.2, 0.3];
    assert_shares(&counts(PLAIN, &logits(&shares), &[]), &shares.map(f64::from));
    let with_mask = [0.0_f32, f32::NEG_INFINITY, 0.0];
    assert_shares(&counts(PLAIN, &with_mask, &[]), &[0.5, 0.0, 0.5]);
}

#[test]
fn temperature_raises_shares_to_a_power() {
    let half = Sampling { temperature: 0.5, ..PLAIN };
    let squares = [0.01, 0.16, 0.04, 0.09].map(|square: f64| square / 0.30);
    assert_shares(&counts(half, &logits(&[0.1, 0.4, 0.2, 0.3]), &[]), &squares);
    let least = Sampling { temperature: f32::from_bits(1), ..PLAIN };
    assert_eq!(counts(least, &[1.0, 2.0, f32::MIN], &[]), [0, 20_000, 0]);
}

#[test]
fn filters_keep_the_most_probable() {
    let all = logits(&[0.1, 0.4, 0.2, 0.3]);
    let two = [0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0];
    for sampling in [
        Sampling { top_k: Some(2), ..PLAIN },
        Sampling { top_p: 0.6, ..PLAIN },
        Sampling { min_p: 0.6, ..PLAIN },
    ] {
        assert_shares(&counts(sampling, &all, &[]), &two);
    }
    let best = [0, 20_000, 0, 0];
    for sampling in [
        Sampling { top_k: Some(1), ..PLAIN },
        Sampling { top_p: 0.0, ..PLAIN },
        Sampling { min_p: 1.0, ..PLAIN },
    ] {
        assert_eq!(counts(sampling, &all, &[]), best);
    }
    let loose = Sampling { top_k: Some(usize::MAX), top_p: 1.0, min_p: 0.0, ..PLAIN };
    assert_shares(&counts(loose, &all, &[]), &[0.1, 0.4, 0.2, 0.3]);
}

/// Top-p sees shares among the tokens of top-k, and temperature 1: filters run in this order.
#[test]
fn filters_run_in_order() {
    let all = logits(&[0.1, 0.4, 0.2, 0.3]);
    let sampling = Sampling { top_k: Some(2), top_p: 0.56, ..PLAIN };
    assert_eq!(counts(sampling, &all, &[]), [0, 20_000, 0, 0]);
    let flat = Sampling { top_p: 0.6, temperature: 100.0, ..PLAIN };
    assert_shares(&counts(flat, &all, &[]), &[0.0, 0.50072, 0.0, 0.49928]);
    let ties = Sampling { top_k: Some(2), ..PLAIN };
    assert_shares(&counts(ties, &[1.0; 4], &[]), &[0.5, 0.5, 0.0, 0.0]);
}

#[test]
fn earlier_tokens_are_penalized_once() {
    let sampling = Sampling { temperature: 0.0, repeat_penalty: 2.0, ..PLAIN };
    assert_eq!(token(sampling, &[3.0, 2.0], &[]), 0);
    assert_eq!(token(sampling, &[3.0, 2.0], &[0]), 1);
    assert_eq!(token(sampling, &[5.0, 2.0], &[0, 0, 0]), 0);
    assert_eq!(token(sampling, &[-1.0, -1.5], &[0]), 1);
    assert_eq!(token(sampling, &[3.0, 2.0], &[0, 1, 99]), 0);
}

#[test]
fn log_probabilities_are_those_before_filters() {
    let all = logits(&[0.1, 0.4, 0.2, 0.3]);
    let sampling = Sampling { temperature: 0.1, top_k: Some(1), repeat_penalty: 1.5, ..PLAIN };
    let chosen = sampler(sampling).choose(&all, &[2]).expect("a token is possible");
    assert_eq!(chosen.logprob, logprob(&all, chosen.token).expect("the token is there"));
    assert!((logprob(&all, 1).expect("the token is there") - 0.4_f64.ln()).abs() < 1e-7);
    assert_eq!(logprob(&[4.0], 0), Ok(0.0));
    assert_eq!(logprob(&[4.0], 1), Err(SamplingError::NoToken { token: 1, logits: 1 }));
}

/// The expected tokens come from the same steps in Python's floats.
#[test]
fn a_seed_gives_the_same_tokens_everywhere() {
    let all: Vec<f32> = (0_u8..50).map(|token| f32::from(token % 7) * 0.25).collect();
    let mut sampler = Sampler::new(PLAIN, 42).expect("the switches are admitted");
    let mut next = || sampler.choose(&all, &[]).expect("a token is possible").token;
    let tokens: Vec<u32> = std::iter::repeat_with(&mut next).take(8).collect();
    assert_eq!(tokens, [45, 34, 5, 19, 13, 8, 41, 23]);
}

#[test]
fn bits_are_those_of_the_published_generator() {
    let mut sampler = Sampler::new(PLAIN, 1_234_567).expect("the switches are admitted");
    assert_eq!(sampler.bits(), 6_457_827_717_110_365_317);
    assert_eq!(sampler.bits(), 3_203_168_211_198_807_973);
}

#[test]
fn damaged_logits_are_errors() {
    for sampling in [PLAIN, Sampling::greedy()] {
        let error = |logits: &[f32]| sampler(sampling).choose(logits, &[]).expect_err("refused");
        assert_eq!(error(&[]), SamplingError::NoLogits);
        assert_eq!(error(&[0.0, f32::NAN]), SamplingError::NanLogit { token: 1 });
        assert_eq!(error(&[f32::INFINITY]), SamplingError::InfiniteLogit { token: 0 });
        assert_eq!(error(&[f32::NEG_INFINITY; 3]), SamplingError::AllMasked(3));
    }
}

#[test]
fn switches_out_of_range_are_named() {
    let cases = [
        (Sampling { temperature: -0.1, ..PLAIN }, "`temperature` is -0.1"),
        (Sampling { temperature: f32::INFINITY, ..PLAIN }, "from 0 to 100"),
        (Sampling { temperature: f32::NAN, ..PLAIN }, "`temperature` is NaN"),
        (Sampling { top_p: 1.5, ..PLAIN }, "`top_p` is 1.5: expected a number from 0 to 1"),
        (Sampling { min_p: -1.0, ..PLAIN }, "`min_p` is -1"),
        (Sampling { repeat_penalty: 0.0, ..PLAIN }, "`repeat_penalty` is 0"),
        (Sampling { top_k: Some(0), ..PLAIN }, "`top_k` is 0: expected an integer from 1"),
    ];
    for (sampling, part) in cases {
        let error = Sampler::new(sampling, 0).expect_err("refused").to_string();
        assert!(error.contains(part), "{error}");
    }
}
