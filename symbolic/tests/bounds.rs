//! The least and greatest values of terms, and whether intermediates fit i64: as expected, and
//! against brute force.

use proptest::prelude::*;
use relax_symbolic::statement::{formula, term};
use relax_symbolic::{Intermediates, Prover};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Facts, Relation};

fn bounds(assume: &[&str], text: &str) -> (Option<i64>, Option<i64>) {
    let mut prover = Prover::new();
    let known: Vec<_> = assume.iter().map(|text| formula(text).expect("a statement")).collect();
    let hypotheses = prover.suppose(known);
    prover.bounds_under(&hypotheses, &term(text).expect("a term"))
}

#[test]
fn expected_bounds() {
    assert_eq!(bounds(&["n >= 1", "n <= 100"], "n * 4 + 2"), (Some(6), Some(402)));
    assert_eq!(bounds(&["n >= 0"], "n % 8"), (Some(0), Some(7)));
    assert_eq!(bounds(&["n >= 0"], "n - n // 2"), (Some(0), None));
    assert_eq!(bounds(&[], "n"), (None, None));
    assert_eq!(bounds(&["n <= 5", "m >= n"], "n - m"), (None, Some(0)));
    assert_eq!(bounds(&["n > 3 and n < 9 or n == 20"], "n"), (Some(4), Some(20)));
    assert_eq!(bounds(&[], "n // m * 0"), (None, None));
    let least = Some(i64::MIN);
    assert_eq!(bounds(&[], "0 - 9223372036854775807 - 1"), (least, least));
    assert_eq!(bounds(&["divides(8, n)", "n >= 1", "n <= 100"], "n"), (Some(8), Some(96)));
}

fn arb_term() -> impl Strategy<Value = Dim> {
    let leaf =
        prop_oneof![(-4_i64..=6).prop_map(Dim::Int), Just(Dim::var("n")), Just(Dim::var("m")),];
    leaf.prop_recursive(3, 12, 2, |inner| {
        let ops = prop_oneof![
            Just(DimOp::Add),
            Just(DimOp::Sub),
            Just(DimOp::Mul),
            Just(DimOp::FloorDiv),
            Just(DimOp::FloorMod),
            Just(DimOp::Min),
            Just(DimOp::Max),
            Just(DimOp::CeilDiv),
        ];
        (ops, inner.clone(), inner).prop_map(|(op, a, b)| Dim::Op(op, Box::new((a, b))))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn every_value_is_within_the_bounds(dim in arb_term()) {
        let mut prover = Prover::new();
        for name in ["n", "m"] {
            prover.assume(Claim::new(-3, Relation::AtMost, Dim::var(name)));
            prover.assume(Claim::new(Dim::var(name), Relation::AtMost, 5));
        }
        let (low, high) = prover.bounds(&dim);
        for n in -3..=5 {
            for m in -3..=5 {
                let value = dim.eval(&|name| Some(if &**name == "n" { n } else { m }));
                match value {
                    Ok(value) => {
                        prop_assert!(low.is_none_or(|low| low <= value), "{dim}: {value} < {low:?}");
                        prop_assert!(high.is_none_or(|high| value <= high), "{dim}: {value} > {high:?}");
                    }
                    Err(_) => prop_assert_eq!((low, high), (None, None), "{} has no value", dim),
                }
            }
        }
    }

    #[test]
    fn intermediates_fit_exactly_where_evaluation_succeeds(dim in arb_term()) {
        // `n` is at the end of i64, so that many operations leave it.
        let ranges = [("n", i64::MAX - 2, i64::MAX), ("m", -2, 2)];
        let mut prover = Prover::new();
        for (name, low, high) in ranges {
            prover.assume(Claim::new(low, Relation::AtMost, Dim::var(name)));
            prover.assume(Claim::new(Dim::var(name), Relation::AtMost, high));
        }
        let value_of = |n: i64, m: i64| dim.eval(&|name| Some(if &**name == "n" { n } else { m }));
        let all = (i64::MAX - 2..=i64::MAX).flat_map(|n| (-2..=2).map(move |m| (n, m)));
        let all_fit = all.clone().all(|(n, m)| value_of(n, m).is_ok());
        match prover.intermediates(&dim) {
            Intermediates::Fit => prop_assert!(all_fit, "{dim} does not always fit"),
            Intermediates::Escape(escape) => {
                let of = |name: &str| escape.values.get(name).copied().unwrap_or_default();
                prop_assert!(value_of(of("n"), of("m")).is_err(), "{dim} fits: {escape:?}");
                for (name, low, high) in ranges {
                    prop_assert!(escape.values.get(name).is_none_or(|v| (low..=high).contains(v)));
                }
            }
            Intermediates::Unknown(_) => {}
        }
    }
}
