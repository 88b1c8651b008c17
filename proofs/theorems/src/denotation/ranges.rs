//! What an index in range says: it lies in its extent, and so no factor of the extent is 0.

use super::term::Binder;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Facts, Relation};

/// Assumes that a variable is an index in its extent.
pub(crate) fn assume_index((name, extent): &Binder, facts: &mut dyn Facts) {
    let var = Dim::Var(name.clone());
    facts.assume(Claim::new(0, Relation::AtMost, var.clone()));
    // There is an index, so the product is at least 1, and each factor that is not negative as well.
    let factors = factors(extent);
    if factors.len() > 1 {
        let none_negative = factors.iter().all(|factor| {
            facts.decide(&Claim::new(0, Relation::AtMost, factor.clone())) == Answer::Proved
        });
        if none_negative {
            for factor in factors {
                facts.assume(Claim::new(1, Relation::AtMost, factor));
            }
        }
    }
    facts.assume(Claim::new(var, Relation::Less, extent.clone()));
}

/// The factors of a product.
pub(super) fn factors(dim: &Dim) -> Vec<Dim> {
    match dim {
        Dim::Op(DimOp::Mul, operands) => {
            let mut all = factors(&operands.0);
            all.extend(factors(&operands.1));
            all
        }
        other => vec![other.clone()],
    }
}
