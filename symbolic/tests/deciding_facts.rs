//! Facts that would each decide a claim, of which only the weakest are told.

use relax_symbolic::Prover;
use relax_symbolic::claims::Formula;
use relax_symbolic::statement::formula;
use relax_syntax::facts::Facts;

fn missing(text: &str) -> Vec<String> {
    let Ok(Formula::Claim(claim)) = formula(text) else { panic!("{text} is one claim") };
    Prover::new().missing(&claim).iter().map(ToString::to_string).collect()
}

#[test]
fn facts_of_which_none_follows_from_another() {
    assert_eq!(missing("n % 4 * (m % 3) * k == 0"), ["divides(3, m)", "divides(4, n)"]);
}

#[test]
fn a_claim_does_not_decide_itself() {
    for text in ["n % 4 <= m", "max(n, m) <= k"] {
        assert!(!missing(text).contains(&text.to_owned()), "{text}: {:?}", missing(text));
    }
}
