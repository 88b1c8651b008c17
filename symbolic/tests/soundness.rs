//! Random expressions, facts and formulas against brute force over a small box: what is proved holds
//! everywhere, what is refuted fails where it says, what is simplified keeps its value.

use proptest::collection::vec;
use proptest::prelude::*;
use relax_symbolic::Prover;
use relax_symbolic::claims::Formula;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Counterexample, Facts, Relation};

/// The solver's steps for one question: little, because most random questions stay open.
#[cfg(feature = "z3")]
const SOLVER_LIMIT: u32 = 20_000;

const NAMES: [&str; 3] = ["a", "b", "n"];

fn leaf() -> impl Strategy<Value = Dim> {
    prop_oneof![
        4 => (0..NAMES.len()).prop_map(|index| Dim::var(NAMES[index])),
        3 => (-3_i64..=8).prop_map(Dim::Int),
    ]
}

/// Trees as written, without the folding of `Dim::op`.
fn dim() -> impl Strategy<Value = Dim> {
    let op = prop_oneof![
        Just(DimOp::Add),
        Just(DimOp::Sub),
        Just(DimOp::Mul),
        Just(DimOp::FloorDiv),
        Just(DimOp::FloorMod),
        Just(DimOp::Min),
        Just(DimOp::Max),
        Just(DimOp::CeilDiv),
    ];
    leaf().prop_recursive(4, 16, 2, move |inner| {
        (op.clone(), inner.clone(), inner).prop_map(|(op, a, b)| Dim::Op(op, Box::new((a, b))))
    })
}

fn claim() -> impl Strategy<Value = Claim> {
    let relation = prop_oneof![
        Just(Relation::Equal),
        Just(Relation::NotEqual),
        Just(Relation::AtMost),
        Just(Relation::Less),
        Just(Relation::Divides),
    ];
    (dim(), relation, dim()).prop_map(|(a, relation, b)| Claim::new(a, relation, b))
}

/// Facts as programs have them: bounds, multiples, definitions; and any claim.
fn fact() -> impl Strategy<Value = Claim> {
    let var = || (0..NAMES.len()).prop_map(|index| Dim::var(NAMES[index]));
    prop_oneof![
        4 => (-2_i64..3, var()).prop_map(|(low, x)| Claim::new(low, Relation::AtMost, x)),
        2 => (var(), 0_i64..6).prop_map(|(x, high)| Claim::new(x, Relation::AtMost, high)),
        2 => (2_i64..5, var()).prop_map(|(by, x)| Claim::new(by, Relation::Divides, x)),
        2 => (var(), var()).prop_map(|(a, b)| Claim::new(a, Relation::Divides, b)),
        2 => (var(), dim()).prop_map(|(x, value)| Claim::new(x, Relation::Equal, value)),
        2 => (var(), 2_i64..5, 0_i64..3).prop_map(|(x, by, rest)| {
            Claim::new(Dim::op(DimOp::FloorMod, x, Dim::Int(by)), Relation::Equal, rest)
        }),
        1 => (var(), var()).prop_map(|(a, b)| Claim::new(a, Relation::NotEqual, b)),
        2 => claim(),
    ]
}

fn formula() -> impl Strategy<Value = Formula> {
    claim().prop_map(Formula::Claim).prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Formula::And(vec![a, b])),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Formula::Or(vec![a, b])),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Formula::implies(a, b)),
            inner.prop_map(Formula::negation),
        ]
    })
}

/// All assignments with values from -4 to 6 that satisfy the facts.
fn models(facts: &[Claim]) -> Vec<Counterexample> {
    let mut models = Vec::new();
    for a in -4..=6 {
        for b in -4..=6 {
            for n in -4..=6 {
                let values = NAMES.into_iter().map(Into::into).zip([a, b, n]).collect();
                if facts.iter().all(|fact| fact.holds(&values) == Some(true)) {
                    models.push(values);
                }
            }
        }
    }
    models
}

fn prover_with(facts: &[Claim]) -> Prover {
    let mut prover = Prover::new();
    facts.iter().for_each(|fact| prover.assume(fact.clone()));
    prover
}

fn value(dim: &Dim, values: &Counterexample) -> Option<i64> {
    dim.eval(&|name| values.get(name).copied()).ok()
}

/// The counterexample, with 0 for variables that it leaves open.
fn completed(mut values: Counterexample) -> Counterexample {
    for name in NAMES {
        values.entry(name.into()).or_insert(0);
    }
    values
}

fn shown(facts: &[Claim]) -> String {
    let lines = facts.iter().map(|f| format!("{} {:?} {}", f.left, f.relation, f.right));
    lines.collect::<Vec<_>>().join("; ")
}

fn check_answer(
    facts: &[Claim],
    answer: &Answer,
    holds: impl Fn(&Counterexample) -> Option<bool>,
) -> Result<(), TestCaseError> {
    match answer {
        Answer::Unknown => {}
        Answer::Proved => {
            for values in models(facts) {
                prop_assert_eq!(holds(&values), Some(true), "proved, but {:?}", values);
            }
        }
        Answer::Refuted(values) => {
            for fact in facts {
                prop_assert_eq!(fact.holds(values), Some(true), "{:?}", values);
            }
            prop_assert_eq!(holds(&completed(values.clone())), Some(false), "{:?}", values);
        }
    }
    Ok(())
}

/// `PROPTEST_CASES` asks for more than the usual number.
fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases.unwrap_or(300)) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn claims_are_decided_soundly(facts in vec(fact(), 0..5), claim in claim()) {
        let answer = prover_with(&facts).decide(&claim);
        check_answer(&facts, &answer, |values| claim.holds(values)).map_err(|error| {
            let asked = format!("{} {:?} {}", claim.left, claim.relation, claim.right);
            TestCaseError::fail(format!("{} |- {asked}: {error}", shown(&facts)))
        })?;
    }

    /// The same with the second attempt, and formulas with it.
    #[test]
    fn a_second_attempt_decides_soundly(facts in vec(fact(), 0..5), formula in formula()) {
        let mut prover = prover_with(&facts).with_second_attempt();
        let answer = prover.decide_formula(&formula);
        check_answer(&facts, &answer, |values| formula.holds(values)).map_err(|error| {
            TestCaseError::fail(format!("{} |- {formula}: {error}", shown(&facts)))
        })?;
    }

    /// Claims that are true by construction reach the proofs: both sides of an identity.
    #[test]
    fn simplified_sides_are_decided_soundly(facts in vec(fact(), 0..4), side in dim(), off in -1_i64..=1) {
        let mut prover = prover_with(&facts);
        let simple = Dim::op(DimOp::Add, prover.simplify(&side), Dim::Int(off));
        for relation in [Relation::Equal, Relation::AtMost, Relation::NotEqual] {
            let claim = Claim::new(side.clone(), relation, simple.clone());
            let answer = prover.decide(&claim);
            check_answer(&facts, &answer, |values| claim.holds(values)).map_err(|error| {
                let asked = format!("{} {relation:?} {}", claim.left, claim.right);
                TestCaseError::fail(format!("{} |- {asked}: {error}", shown(&facts)))
            })?;
        }
    }

    #[test]
    fn formulas_are_decided_soundly(facts in vec(fact(), 0..3), formula in formula()) {
        let answer = prover_with(&facts).decide_formula(&formula);
        check_answer(&facts, &answer, |values| formula.holds(values)).map_err(|error| {
            TestCaseError::fail(format!("{} |- {formula:?}: {error}", shown(&facts)))
        })?;
    }

    /// The solver alone, which otherwise sees only what the other stages leave open.
    #[cfg(feature = "z3")]
    #[test]
    fn the_solver_proves_soundly(facts in vec(fact(), 0..3), formula in formula()) {
        for encoding in relax_symbolic::Encoding::ALL {
            let outcome =
                relax_symbolic::prove_with_encoding(&facts, &formula, encoding, SOLVER_LIMIT);
            let answer = if outcome.proved { Answer::Proved } else { Answer::Unknown };
            check_answer(&facts, &answer, |values| formula.holds(values)).map_err(|error| {
                TestCaseError::fail(format!("{encoding:?}: {} |- {formula}: {error}", shown(&facts)))
            })?;
        }
    }

    #[cfg(feature = "z3")]
    #[test]
    fn with_the_solver_formulas_are_decided_soundly(
        facts in vec(fact(), 0..3), formula in formula()
    ) {
        let mut prover = prover_with(&facts);
        prover.limit_solver(Some(SOLVER_LIMIT));
        let answer = prover.decide_formula(&formula);
        check_answer(&facts, &answer, |values| formula.holds(values)).map_err(|error| {
            TestCaseError::fail(format!("{} |- {formula}: {error}", shown(&facts)))
        })?;
    }

    #[test]
    fn simplification_keeps_values_and_settles(facts in vec(fact(), 0..4), dim in dim()) {
        let mut prover = prover_with(&facts);
        let simple = prover.simplify(&dim);
        for values in models(&facts) {
            if let Some(expected) = value(&dim, &values) {
                prop_assert_eq!(
                    value(&simple, &values), Some(expected),
                    "{} |- {} became {} at {:?}", shown(&facts), dim, simple, values
                );
            }
        }
        let again = prover.simplify(&simple);
        prop_assert_eq!(&again, &simple, "{} |- {} then {}", shown(&facts), simple, again);
    }

    #[test]
    fn a_closed_scope_leaves_nothing(
        outer in vec(fact(), 0..3), inner in vec(fact(), 0..4), asked in claim(), dim in dim()
    ) {
        let mut prover = prover_with(&outer);
        let mut fresh = prover.clone();
        prover.push();
        inner.iter().for_each(|fact| prover.assume(fact.clone()));
        prover.decide(&asked);
        prover.pop();
        prop_assert_eq!(prover.decide(&asked), fresh.decide(&asked));
        prop_assert_eq!(prover.simplify(&dim), fresh.simplify(&dim));
    }
}
