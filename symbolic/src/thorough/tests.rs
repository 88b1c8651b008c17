//! False claims, given to the second attempt itself: the first stage refutes most of them before it is made.

use crate::Prover;
use crate::statement::formula;

/// Claims that lack a condition or a bound of a true one: of a sign, of a factor above 0, of a square, of a product.
const FALSE: [&str; 14] = [
    "|- a * a + b * b >= 3 * a * b",
    "|- a * a >= a + 1",
    "|- (a - b) * (a - b) >= 1",
    "|- a * a + b * b >= 2 * a * b + 1",
    "|- n * (5 - n) <= 5",
    "a * a <= 169 |- a <= 12",
    "m + 7 <= b |- (m + 7) * (m + 7) <= b * b",
    "(a + b) * n < 0 |- n < 0",
    "a - c >= 15, c + m >= -1 |- (a - c) * (c + m) >= 15",
    "a >= 1, b >= 1 |- a * b >= 2 * a + b - 2",
    "a >= 1, b >= 1 |- a * b >= a + 2 * b - 2",
    "n >= 0, m * n >= b * n |- m >= b",
    "m * n == b * n |- m == b",
    "a * n >= 1 |- a >= 1",
];

#[test]
fn false_claims_are_not_proved() {
    for claim in FALSE {
        let (facts, goal) = claim.split_once("|-").expect("facts |- goal");
        let read = |text: &str| formula(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        let mut prover = Prover::new();
        let facts = facts.split(',').map(str::trim).filter(|fact| !fact.is_empty());
        prover.suppose(facts.map(read).collect::<Vec<_>>());
        let proved = prover.engine.proves_thoroughly(&prover.context, &read(goal));
        assert!(!proved, "{claim}");
    }
}
