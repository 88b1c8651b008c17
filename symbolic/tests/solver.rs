//! The solver as a stage: it means by division what dims mean, its answers depend on nothing but the
//! question, it stops at its limit, and what a proof rests on can be checked again.
#![cfg(feature = "z3")]

use relax_symbolic::claims::Formula;
use relax_symbolic::statement;
use relax_symbolic::{
    Encoding, Prover, Stage, prove_with_encoding, solver_question, solver_version, text_hash,
};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Facts, Relation};

/// Enough for what is tested here.
const LIMIT: u32 = 1_000_000;

fn formula(text: &str) -> Formula {
    statement::formula(text).expect("a statement")
}

fn claims(texts: &[&str]) -> Vec<Claim> {
    let claim = |text: &&str| match formula(text) {
        Formula::Claim(claim) => claim,
        other => panic!("not a claim: {other}"),
    };
    texts.iter().map(claim).collect()
}

fn prover(facts: &[Claim]) -> Prover {
    let mut prover = Prover::with_solver(LIMIT);
    facts.iter().for_each(|fact| prover.assume(fact.clone()));
    prover
}

fn proves(facts: &[&str], text: &str) -> Vec<bool> {
    let prove =
        |encoding| prove_with_encoding(&claims(facts), &formula(text), encoding, LIMIT).proved;
    Encoding::ALL.into_iter().map(prove).collect()
}

#[test]
fn operations_mean_what_dims_mean() {
    let divisions =
        [DimOp::FloorDiv, DimOp::FloorMod, DimOp::CeilDiv, DimOp::Min, DimOp::Max, DimOp::Sub];
    for (a, b) in [-7, -6, -1, 0, 1, 6, 7].into_iter().flat_map(|a| [-3, -1, 2].map(|b| (a, b))) {
        for op in divisions {
            let value = op.apply(a, b).expect("small numbers");
            let facts = [("a", a), ("b", b)]
                .map(|(name, value)| Claim::new(Dim::var(name), Relation::Equal, value));
            // The divisor as a number and as a variable.
            for divisor in [Dim::Int(b), Dim::var("b")] {
                let dim = Dim::Op(op, Box::new((Dim::var("a"), divisor)));
                for encoding in Encoding::ALL {
                    let proved = |value: i64| {
                        let claim = Claim::new(dim.clone(), Relation::Equal, value);
                        prove_with_encoding(&facts, &claim.into(), encoding, LIMIT).proved
                    };
                    assert!(proved(value), "{a} {} {b} is {value}, {encoding:?}", op.symbol());
                    assert!(!proved(value + 1), "{a} {} {b} is {value}", op.symbol());
                }
            }
        }
    }
}

#[test]
fn a_statement_without_a_value_is_not_proved() {
    assert_eq!(proves(&[], "n // m == n // m"), [false; 3]);
    assert_eq!(proves(&["m != 0"], "n // m == n // m"), [true; 3]);
    assert_eq!(proves(&[], "m == 0 or n // m == n // m"), [true; 3]);
    assert_eq!(proves(&[], "n // m == n // m or m == 0"), [false; 3]);
    assert_eq!(proves(&[], "not (m != 0 and n % m != n % m)"), [true; 3]);
    // A fact has a value, so its divisors are not 0.
    assert_eq!(proves(&["n // m >= 0"], "m != 0"), [true; 3]);
    assert_eq!(proves(&["k % (n // m) == 0"], "m != 0 and n // m != 0"), [true; 3]);
}

#[test]
fn divides_does_not_hold_for_0() {
    let divides = |a: &str, b: &str| Claim::new(Dim::var(a), Relation::Divides, Dim::var(b));
    for encoding in Encoding::ALL {
        let facts = [divides("a", "b"), divides("b", "c")];
        let proved =
            |claim: Claim| prove_with_encoding(&facts, &claim.into(), encoding, LIMIT).proved;
        assert!(proved(Claim::new(Dim::var("a"), Relation::NotEqual, 0)), "{encoding:?}");
        assert!(!proved(divides("c", "a")), "{encoding:?}");
        let zero = Formula::Claim(Claim::new(0, Relation::Divides, Dim::var("x")));
        let never = prove_with_encoding(&[], &Formula::negation(zero), encoding, LIMIT);
        assert!(never.proved, "it has a value and does not hold, {encoding:?}");
    }
}

/// What the other stages leave open, and how it ends.
#[test]
fn what_others_leave_open_is_decided_and_evaluated() {
    let facts = claims(&[
        "i % 16 >= 3",
        "i % 16 < 10",
        "i // 16 >= 4",
        "i // 16 < 12",
        "i >= 0",
        "o % 7 == 3",
    ]);
    let mut prover = prover(&facts);
    let asked = formula("i // 16 < 11");
    let verdict = prover.judge(&asked);
    let Answer::Refuted(values) = &verdict.answer else { panic!("{verdict:?}") };
    assert_eq!(verdict.stage, Stage::Solver);
    assert_eq!(asked.holds(values), Some(false));
    for fact in &facts {
        assert_eq!(fact.holds(values), Some(true), "{fact:?} at {values:?}");
    }
    assert!(prover.trusted().is_none(), "an assignment is checked, not trusted");
}

#[test]
fn a_proof_says_what_it_rests_on() {
    let facts = claims(&["a < b", "b < c", "other > 0"]);
    let asked = formula("not a * d < b * d or b * d < c * d");
    let mut prover = prover(&facts);
    let verdict = prover.judge(&asked);
    assert_eq!((verdict.answer, verdict.stage), (Answer::Proved, Stage::Solver));
    let trusted = prover.trusted().expect("the solver proved it").clone();
    assert_eq!(Some(&trusted.version), solver_version().as_ref());
    let question = solver_question(&facts, &asked, trusted.encoding).expect("it is small");
    assert_eq!(text_hash(&question), trusted.question);
    assert!(prove_with_encoding(&facts, &asked, trusted.encoding, trusted.rlimit).proved);
    prover.judge(&formula("a <= b"));
    assert!(prover.trusted().is_none(), "the last question needed no solver");
}

#[test]
fn names_and_the_order_of_facts_do_not_matter() {
    let asked = |n: &str, m: &str, k: &str, order: [usize; 4]| {
        let facts = [
            format!("{n} >= 0"),
            format!("{n} // {m} <= {k}"),
            format!("{k} < 7"),
            "unrelated == 5443".to_owned(),
        ];
        let facts: Vec<&str> = order.iter().map(|index| facts[*index].as_str()).collect();
        let query = formula(&format!("{n} < {m} * 8"));
        solver_question(&claims(&facts), &query, Encoding::Direct).expect("it is small")
    };
    let text = asked("n", "m", "k", [0, 1, 2, 3]);
    assert_eq!(text, asked("zebra", "a", "_0", [3, 2, 1, 0]));
    assert_eq!(text, asked("m", "k", "n", [1, 3, 0, 2]));
    assert!(!text.contains("5443"), "what cannot matter is left out: {text}");
}

#[test]
fn answers_do_not_depend_on_what_was_asked_before() {
    let facts = claims(&["x >= 2", "y >= 2"]);
    let asked = ["x * x * y % 7 != 5", "(x * y) // x == y", "x * x * x + y * y * y != 4104"];
    let judge =
        |prover: &mut Prover, text: &str| (prover.judge(&formula(text)), prover.trusted().cloned());
    let alone: Vec<_> = asked.iter().map(|text| judge(&mut prover(&facts), text)).collect();
    let mut busy = prover(&facts);
    for round in 0..2 {
        for (text, alone) in asked.iter().zip(&alone) {
            assert_eq!(&judge(&mut busy, text), alone, "round {round}: {text}");
        }
    }
}

/// Sums of three cubes: nobody decides these by a few steps.
#[test]
fn the_limit_is_kept() {
    let asked = formula("x * x * x + y * y * y + z * z * z != 114");
    for encoding in Encoding::ALL {
        for limit in [1_000, 100_000] {
            let outcome = prove_with_encoding(&[], &asked, encoding, limit);
            assert!(!outcome.proved);
            assert!(outcome.used <= limit + limit / 2 + 20_000, "{} of {limit}", outcome.used);
        }
    }
    let verdict = Prover::with_solver(100_000).judge(&asked);
    assert_eq!((verdict.answer, verdict.stage), (Answer::Unknown, Stage::Solver));
}

#[test]
fn big_questions_are_bounded() {
    let chain = |op: DimOp, length: i64| {
        (0..length).fold(Dim::var("n"), |dim, index| {
            Dim::Op(op, Box::new((dim, Dim::var(format!("x{index}")))))
        })
    };
    for op in [DimOp::FloorDiv, DimOp::Max, DimOp::Mul] {
        let claim = Claim::new(chain(op, 190), Relation::Equal, Dim::Int(i64::MIN));
        let verdict = Prover::with_solver(20_000).judge(&claim.clone().into());
        assert_ne!(verdict.answer, Answer::Proved);
        let many = Formula::And(vec![claim.into(); 300]);
        assert!(solver_question(&[], &many, Encoding::Direct).is_none(), "too big a text");
    }
}

#[test]
fn without_a_limit_the_solver_is_not_asked() {
    let mut prover = Prover::new();
    let asked = formula("x * x * x + y * y * y != 1729");
    assert_ne!(prover.judge(&asked).stage, Stage::Solver);
    prover.limit_solver(Some(LIMIT));
    assert_eq!(prover.judge(&asked).stage, Stage::Solver);
    prover.limit_solver(None);
    assert_ne!(prover.judge(&asked).stage, Stage::Solver);
}
