//! Dims that programs compute as elements.

use crate::denotation::term::{Domain, Term};
use relax_syntax::dim::{Dim, DimOp};

/// The dim that a term is: also the remainder of one by a positive number, which does not wrap.
pub(super) fn as_dim(term: &Term) -> Option<Dim> {
    match term {
        Term::Extent(dim) => Some(dim.clone()),
        Term::Apply(Domain::Ring, name, args) => match (name.as_str(), args.as_slice()) {
            ("floor_mod of i64", [a, Term::Extent(Dim::Int(by @ 1..))]) => {
                Some(Dim::op(DimOp::FloorMod, as_dim(a)?, Dim::Int(*by)))
            }
            _ => None,
        },
        _ => None,
    }
}
