//! The e-graph stage: what it alone decides, what it must not prove, and random questions with
//! symbolic divisors against brute force.

use proptest::collection::vec;
use proptest::prelude::*;
use relax_symbolic::claims::Formula;
use relax_symbolic::statement;
use relax_symbolic::{Prover, Stage, Verdict};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Counterexample, Facts, Relation};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Near misses of the questions of the file: each fails somewhere.
const FALSE: &[&str] = &[
    "p >= 0; s >= 1; h >= 1; i >= 0; i <= p + s |- (k * (p + s) + i) % ((p + s) * h) == k % h * (p + s) + i",
    "p >= 0; s >= 1; i >= 0; i < p + s |- (k * (p + s) + i) // ((p + s) * h) == k // h",
    "s >= 1; t >= s |- x // t <= x // s",
    "x >= 0; s >= 1; t >= s |- x // t < x // s",
    "x >= 0; s >= 1; t >= s |- x // t * t <= x // s * s",
    "x >= 0; t >= 1 |- x * x // (t * t) <= (x // t) * (x // t)",
    "n >= k; k >= 1 |- n // (n // k) == k",
    "t >= 1 |- x // t * y <= x * y // t",
    "|- min(a * c, b * c) == min(a, b) * c",
    "t != 0; s >= 1 |- max(a, b) // (t * s) == max(a // (t * s), b // (t * s))",
];

/// Nanoseconds since the first call.
fn clock() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn judge(text: &str) -> Verdict {
    judge_timed(text).0
}

/// The verdict, and the microseconds that the rules took.
fn judge_timed(text: &str) -> (Verdict, u64) {
    let (facts, query) = text.split_once("|-").expect("a turnstile");
    let mut prover = Prover::timed(clock);
    for fact in facts.split(';').filter(|fact| !fact.trim().is_empty()) {
        match statement::formula(fact) {
            Ok(Formula::Claim(claim)) => prover.assume(claim),
            other => panic!("`{fact}` is not one relation: {other:?}"),
        }
    }
    let verdict = prover.judge(&statement::formula(query).expect("in the syntax"));
    (verdict, prover.statistics().stages[Stage::EGraph as usize].nanoseconds / 1000)
}

#[test]
fn rules_decide_what_linear_reasoning_does_not() {
    let lines = include_str!("egraph_questions.txt").lines();
    let texts: Vec<&str> = lines.filter(|line| line.contains("|-")).collect();
    assert!(texts.len() >= 30);
    let expected = Verdict { answer: Answer::Proved, stage: Stage::EGraph };
    let judged: Vec<_> = texts.iter().map(|text| (text, judge_timed(text))).collect();
    let mut times: Vec<u64> = judged.iter().map(|(_, (_, time))| *time).collect();
    times.sort_unstable();
    eprintln!("rules, in microseconds: {times:?}");
    let missed: Vec<_> = judged.iter().filter(|(_, (verdict, _))| *verdict != expected).collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn near_misses_are_not_proved() {
    for text in FALSE {
        assert_ne!(judge(text).answer, Answer::Proved, "{text}");
    }
}

#[test]
fn an_implication_uses_its_hypothesis() {
    let claim = |text| statement::formula(text).expect("in the syntax");
    let hypothesis = Formula::And(vec![claim("n >= k"), claim("k >= 1")]);
    let question = claim("n // (n // (n // k)) == n // k");
    let expected = Verdict { answer: Answer::Proved, stage: Stage::EGraph };
    assert_eq!(Prover::new().judge(&Formula::implies(hypothesis, question.clone())), expected);
    let weaker = Formula::implies(claim("k >= 1"), question);
    assert_ne!(Prover::new().judge(&weaker).answer, Answer::Proved);
}

const NAMES: [&str; 4] = ["a", "b", "c", "n"];

fn variable() -> impl Strategy<Value = Dim> {
    (0..NAMES.len()).prop_map(|index| Dim::var(NAMES[index]))
}

/// Sums and products of few variables.
fn polynomial() -> impl Strategy<Value = Dim> {
    let leaf = prop_oneof![5 => variable(), 1 => (1_i64..4).prop_map(Dim::Int)];
    let op = prop_oneof![2 => Just(DimOp::Mul), 2 => Just(DimOp::Add)];
    leaf.prop_recursive(2, 5, 2, move |inner| {
        (op.clone(), inner.clone(), inner).prop_map(|(op, a, b)| Dim::Op(op, Box::new((a, b))))
    })
}

/// Quotients, remainders and extremes of polynomials, with symbolic divisors.
fn quotient() -> impl Strategy<Value = Dim> {
    let division =
        || prop_oneof![Just(DimOp::FloorDiv), Just(DimOp::FloorMod), Just(DimOp::CeilDiv)];
    let other = prop_oneof![
        Just(DimOp::Add),
        Just(DimOp::Mul),
        Just(DimOp::Min),
        Just(DimOp::Max),
        Just(DimOp::FloorDiv),
    ];
    let leaf = (division(), polynomial(), polynomial())
        .prop_map(|(op, a, b)| Dim::Op(op, Box::new((a, b))));
    leaf.prop_recursive(2, 12, 2, move |inner| {
        let side = prop_oneof![2 => inner.clone(), 1 => polynomial()];
        (other.clone(), inner, side).prop_map(|(op, a, b)| Dim::Op(op, Box::new((a, b))))
    })
}

/// Bounds and orders, so that conditions of rules hold often.
fn facts() -> impl Strategy<Value = Vec<Claim>> {
    let lows = vec(0_i64..=1, NAMES.len()).prop_map(|lows| {
        let bound = |(name, low)| Claim::new(Dim::Int(low), Relation::AtMost, Dim::var(name));
        NAMES.into_iter().zip(lows).map(bound).collect::<Vec<Claim>>()
    });
    let order = prop_oneof![Just(Relation::AtMost), Just(Relation::Less), Just(Relation::Divides)];
    let order = (variable(), order, variable()).prop_map(|(a, order, b)| Claim::new(a, order, b));
    (lows, vec(order, 0..3)).prop_map(|(mut facts, orders)| {
        facts.extend(orders);
        facts
    })
}

/// A question: two unrelated sides, or an instance of a rule's shape that may be false.
fn question() -> impl Strategy<Value = Claim> {
    let relation = prop_oneof![Just(Relation::Equal), Just(Relation::AtMost), Just(Relation::Less)];
    let op = |op, a: &Dim, b: &Dim| Dim::Op(op, Box::new((a.clone(), b.clone())));
    let shaped = (polynomial(), polynomial(), polynomial(), polynomial(), 0..8_u8);
    let shaped = shaped.prop_map(move |(a, b, c, r, shape)| {
        use DimOp::{Add, FloorDiv, FloorMod, Max, Min, Mul};
        let (ac, bc) = (op(Mul, &a, &c), op(Mul, &b, &c));
        let sum = op(Add, &ac, &r);
        let (left, relation, right) = match shape {
            0 => (op(FloorDiv, &sum, &bc), Relation::Equal, op(FloorDiv, &a, &b)),
            1 => {
                let digit = op(Mul, &op(FloorMod, &a, &b), &c);
                (op(FloorMod, &sum, &bc), Relation::Equal, op(Add, &digit, &r))
            }
            2 => (op(FloorDiv, &a, &b), Relation::AtMost, op(FloorDiv, &a, &c)),
            3 => (op(FloorDiv, &a, &b), Relation::AtMost, op(FloorDiv, &r, &c)),
            4 => {
                let parts = (op(FloorDiv, &a, &bc), op(FloorDiv, &r, &bc));
                (op(FloorDiv, &op(Max, &a, &r), &bc), Relation::Equal, op(Max, &parts.0, &parts.1))
            }
            5 => (op(Min, &ac, &bc), Relation::Equal, op(Mul, &op(Min, &a, &b), &c)),
            6 => {
                let steps = op(Mul, &op(FloorDiv, &a, &c), &op(FloorDiv, &r, &b));
                (steps, Relation::AtMost, op(FloorDiv, &op(Mul, &a, &r), &op(Mul, &c, &b)))
            }
            _ => {
                let chunk = op(FloorDiv, &a, &op(FloorDiv, &a, &b));
                (b.clone(), Relation::AtMost, chunk)
            }
        };
        Claim::new(left, relation, right)
    });
    let free = (quotient(), relation, quotient()).prop_map(|(a, r, b)| Claim::new(a, r, b));
    prop_oneof![1 => free, 3 => shaped]
}

/// All assignments with values from 0 to 6 that satisfy the facts.
fn models(facts: &[Claim]) -> Vec<Counterexample> {
    let mut models = Vec::new();
    for index in 0..7_i64.pow(4) {
        let numbers = [index % 7, index / 7 % 7, index / 49 % 7, index / 343];
        let values = NAMES.into_iter().map(Into::into).zip(numbers).collect();
        if facts.iter().all(|fact| fact.holds(&values) == Some(true)) {
            models.push(values);
        }
    }
    models
}

/// `PROPTEST_CASES` asks for more than the usual number.
fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases.unwrap_or(400)) }
}

/// How many random questions the e-graph decided.
static DECIDED: AtomicU64 = AtomicU64::new(0);

fn check(facts: &[Claim], claim: &Claim) -> Result<(), TestCaseError> {
    let mut prover = Prover::new();
    facts.iter().for_each(|fact| prover.assume(fact.clone()));
    let verdict = prover.judge(&Formula::Claim(claim.clone()));
    if verdict != (Verdict { answer: Answer::Proved, stage: Stage::EGraph }) {
        return Ok(());
    }
    DECIDED.fetch_add(1, Ordering::Relaxed);
    for values in models(facts) {
        let shown = format!("{facts:?} |- {} {:?} {}", claim.left, claim.relation, claim.right);
        prop_assert_eq!(claim.holds(&values), Some(true), "{} at {:?}", shown, values);
    }
    Ok(())
}

#[test]
fn what_rules_prove_holds_in_a_box() {
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(
        config(),
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let result = runner.run(&(facts(), question()), |(facts, claim)| check(&facts, &claim));
    if let Err(error) = result {
        panic!("{error}");
    }
    let decided = DECIDED.load(Ordering::Relaxed);
    eprintln!("decided by rules: {decided}");
    assert!(decided > 5, "the stage is exercised: {decided}");
}
