//! A prover keeps its answers: they are those that a new one gives, whatever was asked and forgotten before.

use proptest::prelude::*;
use relax_symbolic::Prover;
use relax_symbolic::claims::Formula;
use relax_symbolic::statement::{formula, term};
use relax_syntax::facts::{Answer, Claim, Facts};
use std::sync::atomic::{AtomicU64, Ordering};

/// Facts and questions, some of which contradict each other.
const CLAIMS: [&str; 23] = [
    "n >= 0",
    "m >= 1",
    "n <= 7",
    "n == m",
    "n != m",
    "n == 2 * m",
    "divides(4, n)",
    "n // 2 + m <= n",
    "min(n, m) * 2 <= n + m",
    "max(n, 3) == n",
    "n % m == 0",
    "n * m >= n",
    "k < n * m",
    "k // m < n",
    "k // (n * m) == 0",
    "(k + 1) // m <= n",
    "(k // m) // n == 0",
    "k % m < m",
    "n >= 1",
    "k >= 0",
    "k < n",
    "min(k, m) // n == 0",
    "max(k, m) // n == 0",
];
const TERMS: [&str; 4] = ["n - m + m", "(n // 4) * 4", "max(n, m)", "min(n, 7) + m * 0"];

fn claim(index: usize) -> Claim {
    let Ok(Formula::Claim(claim)) = formula(CLAIMS[index % CLAIMS.len()]) else {
        panic!("{index} is one relation")
    };
    claim
}

/// What is done with a prover.
#[derive(Clone, Debug)]
enum Deed {
    Push,
    Pop,
    Assume(usize),
    Ask(usize),
    Simplify(usize),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        2 => Just(Deed::Push),
        2 => Just(Deed::Pop),
        3 => (0..CLAIMS.len()).prop_map(Deed::Assume),
        6 => (0..CLAIMS.len()).prop_map(Deed::Ask),
        3 => (0..TERMS.len()).prop_map(Deed::Simplify),
    ]
}

/// A prover that was never asked anything, told these facts.
fn anew(scopes: &[Vec<Claim>]) -> Prover {
    let mut prover = Prover::new();
    scopes.iter().flatten().for_each(|fact| prover.assume(fact.clone()));
    prover
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn answers_are_those_of_a_new_prover(deeds in prop::collection::vec(deed(), 1..40)) {
        let mut prover = Prover::new();
        let mut scopes: Vec<Vec<Claim>> = vec![Vec::new()];
        for deed in deeds {
            match deed {
                Deed::Push => {
                    prover.push();
                    scopes.push(Vec::new());
                }
                Deed::Pop if scopes.len() > 1 => {
                    prover.pop();
                    scopes.pop();
                }
                Deed::Pop => {}
                Deed::Assume(index) => {
                    prover.assume(claim(index));
                    scopes.last_mut().expect("there is one").push(claim(index));
                }
                Deed::Ask(index) => {
                    let (kept, new) =
                        (prover.decide(&claim(index)), anew(&scopes).decide(&claim(index)));
                    prop_assert_eq!(kept, new, "{} under {:?}", CLAIMS[index], scopes);
                }
                Deed::Simplify(index) => {
                    let dim = term(TERMS[index]).expect("a term");
                    let (kept, new) = (prover.simplify(&dim), anew(&scopes).simplify(&dim));
                    prop_assert_eq!(kept, new, "{} under {:?}", TERMS[index], scopes);
                }
            }
        }
    }
}

#[test]
fn an_answer_ends_with_the_facts_it_rests_on() {
    let mut prover = Prover::new();
    let question = claim(1);
    prover.push();
    prover.assume(claim(1));
    assert_eq!(prover.decide(&question), Answer::Proved);
    prover.pop();
    assert!(matches!(prover.decide(&question), Answer::Refuted(_)));
    prover.push();
    prover.assume(claim(0));
    assert!(matches!(prover.decide(&question), Answer::Refuted(_)));
    prover.pop();
    prover.push();
    prover.assume(claim(1));
    assert_eq!(prover.decide(&question), Answer::Proved);
}

/// The least and the greatest of two dims are new atoms in both questions, and the same one of the prover's numbers.
#[test]
fn what_is_known_of_an_atom_ends_with_it() {
    let claim = |text: &str| match formula(text) {
        Ok(Formula::Claim(claim)) => claim,
        other => panic!("{text} is one relation: {other:?}"),
    };
    let (least, greatest) = (claim("min(k, m) // n == 0"), claim("max(k, m) // n == 0"));
    let facts = ["n >= 1", "m >= 0", "k >= 0", "k < n"].map(claim);
    let prover = || anew(&[facts.to_vec()]);
    let (mut asked, mut assumed) = (prover(), prover());
    assert_eq!(asked.decide(&least), Answer::Proved);
    assumed.push();
    assumed.assume(least);
    assumed.pop();
    for mut prover in [asked, assumed] {
        let answer = prover.decide(&greatest);
        assert!(matches!(answer, Answer::Refuted(_)), "{answer:?}");
    }
}

#[test]
fn a_question_that_was_asked_before_is_counted_again() {
    let mut prover = Prover::new();
    let (first, second) = (prover.decide(&claim(8)), prover.decide(&claim(8)));
    assert_eq!((first, second), (Answer::Proved, Answer::Proved));
    let once = prover.statistics();
    prover.decide(&claim(0));
    prover.decide(&claim(0));
    let twice = prover.statistics();
    assert_eq!((once.queries, once.proved(), once.unknown()), (2, 2, 0));
    assert_eq!((twice.queries, twice.proved(), twice.refuted()), (4, 2, 2));
    assert_eq!(twice.stages[0].asked, 4);
}

/// Counts one more at each call.
fn tick() -> u64 {
    static TICKS: AtomicU64 = AtomicU64::new(0);
    TICKS.fetch_add(1, Ordering::Relaxed)
}

#[test]
fn a_question_that_was_asked_before_takes_no_time() {
    let mut prover = Prover::timed(tick);
    let spent = |prover: &mut Prover| {
        prover.decide(&claim(8));
        prover.statistics().stages.map(|stage| stage.nanoseconds)
    };
    let once = spent(&mut prover);
    assert!(once.iter().sum::<u64>() > 0);
    assert_eq!(spent(&mut prover), once);
}
