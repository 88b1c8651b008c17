//! The second attempt: what each kind of its rows proves, that the first stages do not, and false claims like these.

use relax_symbolic::claims::Formula;
use relax_symbolic::{Prover, Stage, statement};
use relax_syntax::facts::Answer;

/// Claims by the rows that they need.
const FACTS_NEARBY: [&str; 2] = ["n // 9 < m // 9 |- n < m", "c >= 1, a // c < b // c |- a < b"];
const WITHOUT_FACTORS: [&str; 2] = [
    "n >= 1, m * n >= b * n, c >= 0 |- m * c >= c * b",
    "n >= 1, m * n == b * n |- m * c == b * c",
];
const SQUARES: [&str; 5] = [
    "|- a * a + b * b >= 2 * a * b",
    "|- (a - b) * (a - b) >= 0",
    "|- a * a >= a",
    "|- a * a + b * b + n * n >= a * b + b * n + n * a",
    "|- n * (5 - n) <= 6",
];
const PRODUCTS: [&str; 5] = [
    "a * a == 0 |- a == 0",
    "a * a <= 169 |- a <= 13",
    "m + 7 <= b, 0 <= m + 7 |- (m + 7) * (m + 7) <= b * b",
    "(a + b) * n < 0, a + b > 0 |- n < 0",
    "a - c >= 15, c + m >= 1 |- (a - c) * (c + m) >= 15",
];
/// Like those above, with a condition or a bound missed.
const FALSE: [&str; 9] = [
    "|- a * a + b * b >= 3 * a * b",
    "|- a * a >= a + 1",
    "|- (a - b) * (a - b) >= 1",
    "|- n * (5 - n) <= 5",
    "a * a <= 169 |- a <= 12",
    "m + 7 <= b |- (m + 7) * (m + 7) <= b * b",
    "(a + b) * n < 0 |- n < 0",
    "a - c >= 15, c + m >= -1 |- (a - c) * (c + m) >= 15",
    "n >= 0, m * n >= b * n, c >= 0 |- m * c >= c * b",
];

fn formula(text: &str) -> Formula {
    statement::formula(text).unwrap_or_else(|why| panic!("{text}: {why}"))
}

/// What a prover that knows the facts of a claim says of its goal.
fn judged(mut prover: Prover, claim: &str) -> (Answer, Stage) {
    let (facts, goal) = claim.split_once("|-").expect("facts |- goal");
    let facts = facts.split(',').map(str::trim).filter(|fact| !fact.is_empty()).map(formula);
    prover.suppose(facts.collect::<Vec<_>>());
    let verdict = prover.judge(&formula(goal));
    (verdict.answer, verdict.stage)
}

#[test]
fn each_kind_of_row_proves_what_the_first_stages_leave_open() {
    for claim in FACTS_NEARBY.iter().chain(&WITHOUT_FACTORS).chain(&SQUARES).chain(&PRODUCTS) {
        let second = judged(Prover::new().with_second_attempt(), claim);
        assert_eq!(judged(Prover::new(), claim), (Answer::Unknown, Stage::EGraph), "{claim}");
        assert_eq!(second, (Answer::Proved, Stage::Thorough), "{claim}");
    }
}

#[test]
fn false_claims_like_these_are_not_proved() {
    for claim in FALSE {
        let (answer, _) = judged(Prover::new().with_second_attempt(), claim);
        assert_ne!(answer, Answer::Proved, "{claim}");
    }
}

/// The attempt is part of what an answer rests on: one that was remembered without it is not repeated.
#[test]
fn what_was_answered_before_is_asked_again() {
    let mut prover = Prover::new();
    let asked = formula("a * a + b * b >= 2 * a * b");
    assert_eq!(prover.judge(&asked).answer, Answer::Unknown);
    let mut prover = prover.with_second_attempt();
    assert_eq!(prover.judge(&asked).stage, Stage::Thorough);
    assert_eq!(prover.judge(&asked).answer, Answer::Proved);
}
