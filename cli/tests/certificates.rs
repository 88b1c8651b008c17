//! What the prover proves, the checker accepts: the questions of other systems' suites, and random
//! ones. The checker itself knows nothing of the prover; only these tests do.

#[path = "certificates/second_attempt.rs"]
mod second_attempt;

use proptest::collection::vec;
use proptest::prelude::*;
use relax_proofs::{Outcome, check};
use relax_symbolic::claims::Formula;
use relax_symbolic::{Prover, RULES, Stage, statement};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use serde_json::Value;

/// How many of the true cases have a certificate that replays without the solver. It only rises.
const WRITTEN: usize = 1535;
/// How many steps these have together. It only falls, as long as there are no more of them.
const STEPS: usize = 46_600;

fn formula(text: &Value) -> Formula {
    statement::formula(text.as_str().expect("text")).expect("a statement")
}

#[test]
fn true_cases_have_certificates_that_replay() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../symbolic/tests/arith_cases.jsonl");
    let data = std::fs::read_to_string(path).expect("the cases are there");
    let (mut written, mut steps, mut bytes, mut missing) = (0, 0, Vec::new(), Vec::new());
    for line in data.lines() {
        let case: Value = serde_json::from_str(line).expect("one JSON object a line");
        if case["expect"] != "proved" {
            continue;
        }
        let mut prover = Prover::new();
        let facts = case["assume"].as_array().expect("a list").iter().map(formula);
        let hypotheses = prover.suppose(facts);
        let goal = formula(&case["query"]).under(&hypotheses);
        let Some(certificate) = prover.certificate(&goal) else {
            missing.push(case["id"].to_string());
            continue;
        };
        let checked = check(&certificate, Some(RULES));
        let checked = checked.unwrap_or_else(|why| panic!("{}: {why}\n{certificate}", case["id"]));
        // Chains stand in more brackets in a certificate.
        let bare = |text: &str| text.replace(['(', ')'], "");
        assert_eq!(checked.outcome, Outcome::Proved);
        assert_eq!(bare(&checked.goal), bare(&goal.to_string()));
        (written, steps) = (written + 1, steps + checked.steps);
        bytes.push(certificate.len());
    }
    bytes.sort_unstable();
    eprintln!(
        "{written} certificates, {steps} steps, median {} bytes, longest {:?}",
        bytes[bytes.len() / 2],
        bytes.last()
    );
    assert!(written >= WRITTEN, "{written} < {WRITTEN}; without: {missing:?}");
    assert!(written > WRITTEN || steps <= STEPS, "{steps} > {STEPS}");
}

const NAMES: [&str; 3] = ["a", "b", "n"];

fn dim() -> impl Strategy<Value = Dim> {
    let leaf = prop_oneof![
        4 => (0..NAMES.len()).prop_map(|index| Dim::var(NAMES[index])),
        3 => (-3_i64..=8).prop_map(Dim::Int),
    ];
    leaf.prop_recursive(3, 10, 2, move |inner| {
        (prop::sample::select(DimOp::ALL.to_vec()), inner.clone(), inner)
            .prop_map(|(op, a, b)| Dim::op(op, a, b))
    })
}

fn claim() -> impl Strategy<Value = Claim> {
    let relations =
        [Relation::Equal, Relation::NotEqual, Relation::AtMost, Relation::Less, Relation::Divides];
    (dim(), 0..relations.len(), dim()).prop_map(move |(a, r, b)| Claim::new(a, relations[r], b))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn certificates_of_random_questions_replay(
        facts in vec(claim(), 0..3), goal in claim(), side in dim(), off in 0_i64..2
    ) {
        let mut prover = Prover::new();
        facts.iter().for_each(|fact| prover.assume(fact.clone()));
        let simple = prover.simplify(&side);
        let equal = Claim::new(side.clone(), Relation::Equal, Dim::op(DimOp::Add, simple, Dim::Int(off)));
        for goal in [goal, equal] {
            let goal = Formula::Claim(goal);
            if let Some(certificate) = prover.certificate(&goal) {
                let checked = check(&certificate, Some(RULES));
                prop_assert!(checked.is_ok(), "{:?}\n{certificate}", checked);
            }
        }
    }
}

#[test]
fn rules_stand_in_certificates() {
    let mut prover = Prover::new();
    for fact in ["n >= k", "k >= 1"] {
        let Ok(Formula::Claim(claim)) = statement::formula(fact) else { panic!("{fact}") };
        prover.assume(claim);
    }
    let goal = statement::formula("n // (n // (n // k)) == n // k").expect("a statement");
    let verdict = prover.judge(&goal);
    assert_eq!((verdict.answer, verdict.stage), (Answer::Proved, Stage::EGraph));
    let certificate = prover.certificate(&goal).expect("there is one");
    let checked =
        check(&certificate, Some(RULES)).unwrap_or_else(|why| panic!("{why}\n{certificate}"));
    assert_eq!(checked.outcome, Outcome::Proved);
    assert!(!checked.rules_used.is_empty());
    let forged = RULES.replacen("0 < b", "0 <= b", 1);
    assert!(check(&certificate, Some(&forged)).is_err(), "rules other than those of the header");
}

#[test]
fn lemmas_know_the_tightest_bounds() {
    for facts in [["n <= 3", "n <= 5"], ["n <= 5", "n <= 3"], ["n >= 5", "n >= 3"]] {
        let mut prover = Prover::new();
        let read = |text: &str| statement::formula(text).expect("a statement");
        let hypotheses = prover.suppose(facts.map(read));
        let text = if facts[0].contains("<=") { "min(n, 4) == n" } else { "max(n, 4) == n" };
        let certificate = prover.certificate(&read(text).under(&hypotheses));
        let certificate = certificate.unwrap_or_else(|| panic!("none from {facts:?}"));
        let checked = check(&certificate, Some(RULES));
        assert_eq!(checked.expect("a right certificate").outcome, Outcome::Proved);
    }
}

#[test]
fn numbers_divide_numbers() {
    for text in ["divides(4, 4)", "divides(3, 9)", "divides(4, -8)", "divides(5, 0)"] {
        let goal = statement::formula(text).expect("a statement");
        let certificate = Prover::new().certificate(&goal);
        let certificate = certificate.unwrap_or_else(|| panic!("none of {text}"));
        let checked = check(&certificate, Some(RULES));
        assert_eq!(checked.expect("a right certificate").outcome, Outcome::Proved, "{text}");
    }
}

#[test]
fn hypotheses_are_all_that_were_given_or_those_that_are_needed() {
    let mut prover = Prover::new();
    let claim = |text: &str| match statement::formula(text) {
        Ok(Formula::Claim(claim)) => claim,
        other => panic!("{text}: {other:?}"),
    };
    ["n >= 1", "m >= 2"].map(claim).into_iter().for_each(|fact| prover.assume(fact));
    let goal = claim("n + n >= 2");
    let of = |certificate: Option<String>| {
        let checked = check(&certificate.expect("there is one"), Some(RULES));
        checked.expect("a right certificate").hypotheses
    };
    let all = of(prover.certificate(&Formula::Claim(goal.clone())));
    let needed = of(prover.decide_certified(&goal).1);
    assert_eq!((all.len(), needed.len()), (2, 1), "{all:?} {needed:?}");
    assert_eq!(all[0], needed[0]);
}

/// Sizes of storages, as memory plans have them.
#[test]
fn maxima_of_sizes_have_short_certificates() {
    for (goal, most) in [
        ("8 * b * 12 * min(64, n) * n <= max(b * n * 64, min(n, 64) * b * n * 5) * 48", 30),
        (
            "b * n * 12288 + 4 * b * n * 1536 <= \
             max(max(b * n * 160 + min(n, 64) * b * 132, b * n * 512), b * n * 96 + min(n, 64) * b * n * 5) * 48",
            20,
        ),
        // On the smaller side of an inequality, each argument is a case.
        ("max(b * n, 3 * n) * 2 <= max(2 * b, 7) * n + max(0, b)", 40),
        ("min(b, n) * b * 4 <= b * n * 4 + min(b, 7)", 20),
    ] {
        let mut prover = Prover::new();
        let read = |text: &str| statement::formula(text).expect("a statement");
        let hypotheses = prover.suppose(["b >= 0", "n >= 0"].map(read));
        let certificate = prover.certificate(&read(goal).under(&hypotheses));
        let certificate = certificate.unwrap_or_else(|| panic!("none of {goal}"));
        let checked = check(&certificate, Some(RULES));
        let checked = checked.unwrap_or_else(|why| panic!("{why}\n{certificate}"));
        assert!(checked.steps <= most, "{} steps: {goal}", checked.steps);
    }
}

/// The certificate of `facts |- claim`.
fn certificate_of(text: &str) -> Option<String> {
    let (facts, goal) = text.split_once("|-").expect("a turnstile");
    let mut prover = Prover::new();
    let read = |text: &str| statement::formula(text).expect("a statement");
    let hypotheses = prover.suppose(facts.split(';').map(read));
    prover.certificate(&read(goal).under(&hypotheses))
}

/// What follows from equalities between products.
fn ideal_claims() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../symbolic/tests/ideal_claims.txt");
    let data = std::fs::read_to_string(path).expect("the claims are there");
    data.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn what_follows_from_equalities_of_products_has_certificates() {
    let mut missing = Vec::new();
    for text in ideal_claims() {
        let Some(certificate) = certificate_of(&text) else {
            missing.push(text);
            continue;
        };
        let checked = check(&certificate, Some(RULES));
        let checked = checked.unwrap_or_else(|why| panic!("{text}: {why}\n{certificate}"));
        assert_eq!(checked.outcome, Outcome::Proved);
        assert_eq!(checked.rules_used, Vec::<String>::new());
    }
    assert!(missing.is_empty(), "without a certificate: {missing:#?}");
}

/// The line with one of its multiples of equalities left out, negated, or multiplied by a variable.
fn with_wrong_multiples(line: &str) -> Vec<String> {
    let line: Value = serde_json::from_str(line).expect("a line of JSON");
    let keys = ["equation", "with"].into_iter().filter(|key| line[*key].is_array());
    let mut wrong = Vec::new();
    for key in keys {
        for index in 0..line[key].as_array().expect("a list").len() {
            let mut without = line.clone();
            without[key].as_array_mut().expect("a list").remove(index);
            wrong.push(without.to_string());
            let factor = line[key][index][1].as_str().expect("a term");
            for other in [format!("-({factor})"), format!("({factor}) * m")] {
                let mut changed = line.clone();
                changed[key][index][1] = other.into();
                wrong.push(changed.to_string());
            }
        }
    }
    wrong
}

#[test]
fn wrong_multiples_of_equalities_are_refused() {
    let mut forged = 0;
    for text in ideal_claims() {
        let certificate = certificate_of(&text).expect("there is one");
        let lines: Vec<&str> = certificate.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            for wrong in with_wrong_multiples(line) {
                let mut lines = lines.clone();
                lines[index] = &wrong;
                let refused = check(&lines.join("\n"), Some(RULES)).expect_err(&wrong);
                assert_eq!(refused.line, index + 1, "{refused}: {wrong}");
                forged += 1;
            }
        }
    }
    assert!(forged > 500, "{forged}");
}
