//! What formulas print reads back as the same formula.

use proptest::prelude::*;
use relax_symbolic::claims::Formula;
use relax_symbolic::statement::{formula, term};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};

const RELATIONS: [Relation; 5] =
    [Relation::Equal, Relation::NotEqual, Relation::AtMost, Relation::Less, Relation::Divides];

fn arb_dim() -> impl Strategy<Value = Dim> {
    let leaf = prop_oneof![
        (-9_i64..=9).prop_map(Dim::Int),
        prop_oneof![Just(i64::MIN), Just(i64::MAX)].prop_map(Dim::Int),
        prop_oneof![Just("n"), Just("m_1"), Just("x")].prop_map(Dim::var),
    ];
    leaf.prop_recursive(4, 16, 2, |inner| {
        (prop::sample::select(DimOp::ALL.to_vec()), inner.clone(), inner)
            .prop_map(|(op, a, b)| Dim::Op(op, Box::new((a, b))))
    })
}

fn arb_formula() -> impl Strategy<Value = Formula> {
    let leaf = prop_oneof![
        1 => Just(Formula::True),
        1 => Just(Formula::False),
        6 => (prop::sample::select(RELATIONS.to_vec()), arb_dim(), arb_dim())
            .prop_map(|(relation, a, b)| Formula::Claim(Claim::new(a, relation, b))),
    ];
    leaf.prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(Formula::And),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Formula::Or),
            inner.clone().prop_map(Formula::negation),
            (inner.clone(), inner).prop_map(|(a, b)| Formula::implies(a, b)),
        ]
    })
}

proptest! {
    #[test]
    fn formulas_read_back(original in arb_formula()) {
        prop_assert_eq!(formula(&original.to_string()), Ok(original));
    }

    #[test]
    fn terms_read_back(original in arb_dim()) {
        prop_assert_eq!(term(&original.to_string()), Ok(original));
    }

    #[test]
    fn no_text_is_too_much(text in "[a-z0-9 ()+*/%<>=,-]{0,60}") {
        let _ = formula(&text);
    }
}
