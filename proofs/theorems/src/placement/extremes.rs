//! Extremes of partial operands.

use super::reduction_of;
use crate::denotation::term::{Term, Test};
use relax_syntax::Name;
use relax_syntax::annotation::Reduction;
use std::collections::BTreeSet;

/// Whether a term of extremes is the extreme of the terms.
pub(super) fn commutes(term: &Term, partial: &BTreeSet<Name>, reduction: Reduction) -> bool {
    let of = |term: &Term| commutes(term, partial, reduction);
    match term {
        Term::Read(name, _) => partial.contains(name),
        Term::If(Test::Dims(_), then, otherwise) => of(then) && of(otherwise),
        Term::Fold(_, op, _, body) => reduction_of(op) == Some(reduction) && of(body),
        _ => false,
    }
}
