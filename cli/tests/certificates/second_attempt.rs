//! What the second attempt proves has certificates that the checker accepts: steps for squares, for products of facts and for
//! facts without a factor.

use relax_proofs::{Outcome, check};
use relax_symbolic::{Prover, RULES, Stage, statement};
use relax_syntax::facts::Answer;

/// Facts and a goal that only the second attempt proves.
const CLAIMS: [(&[&str], &str); 9] = [
    (&["n // 9 < m // 9"], "n < m"),
    (&["c >= 1", "a // c < b // c"], "a < b"),
    (&["n >= 1", "m * n >= b * n", "c >= 0"], "m * c >= c * b"),
    (&[], "a * a + b * b >= 2 * a * b"),
    (&[], "a * a + b * b + n * n >= a * b + b * n + n * a"),
    (&[], "n * (5 - n) <= 6"),
    (&["a * a <= 169"], "a <= 13"),
    (&["m + 7 <= b", "0 <= m + 7"], "(m + 7) * (m + 7) <= b * b"),
    (&["(a + b) * n < 0", "a + b > 0"], "n < 0"),
];

#[test]
fn what_the_second_attempt_proves_has_a_certificate_that_replays() {
    let read = |text: &&str| statement::formula(text).expect("a statement");
    for (facts, goal) in CLAIMS {
        let mut prover = Prover::new().with_second_attempt();
        prover.suppose(facts.iter().map(read).collect::<Vec<_>>());
        let asked = read(&goal);
        let verdict = prover.judge(&asked);
        assert_eq!((verdict.answer, verdict.stage), (Answer::Proved, Stage::Thorough), "{goal}");
        let certificate = prover.certificate(&asked).unwrap_or_else(|| panic!("none: {goal}"));
        let checked = check(&certificate, Some(RULES));
        let checked = checked.unwrap_or_else(|why| panic!("{goal}: {why}\n{certificate}"));
        assert_eq!(checked.outcome, Outcome::Proved, "{goal}");
    }
}
