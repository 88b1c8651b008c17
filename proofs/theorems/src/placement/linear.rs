//! Terms that are linear in partial operands, and extremes of partial operands.

use super::reduction_of;
use crate::denotation::term::{FoldOp, Term, Test};
use relax_syntax::Name;
use relax_syntax::annotation::Reduction;
use std::collections::BTreeSet;

/// Whether a term is linear in these operands together, without a constant term.
pub(super) fn is_linear(term: &Term, partial: &BTreeSet<Name>) -> bool {
    degree(term, partial) == Some(Degree::Linear)
}

/// How a term depends on partial operands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Degree {
    Zero,
    Free,
    Linear,
}

/// `None` where it depends on them in another way.
fn degree(term: &Term, partial: &BTreeSet<Name>) -> Option<Degree> {
    use Degree::{Free, Linear, Zero};
    let of = |term: &Term| degree(term, partial);
    match term {
        Term::Read(name, _) => Some(if partial.contains(name) { Linear } else { Free }),
        Term::Number(_, value) => Some(if *value == 0.0 { Zero } else { Free }),
        Term::Extent(_) | Term::Scalar(_) => Some(Free),
        Term::Apply(_, name, args) => {
            let degrees = args.iter().map(of).collect::<Option<Vec<_>>>()?;
            match (&**name, &degrees[..]) {
                (_, all) if all.iter().all(|degree| *degree != Linear) => Some(Free),
                ("add" | "subtract", [Linear | Zero, Linear | Zero]) => Some(Linear),
                ("negative", [Linear]) => Some(Linear),
                ("multiply", [Linear, Free] | [Free, Linear]) | ("divide", [Linear, Free]) => {
                    Some(Linear)
                }
                ("multiply", [Linear, Zero] | [Zero, Linear]) => Some(Zero),
                _ => None,
            }
        }
        Term::If(test, then, otherwise) => {
            if let Test::Element(term) = test
                && of(term)? == Linear
            {
                return None;
            }
            match (of(then)?, of(otherwise)?) {
                (a, b) if a == b => Some(a),
                (Linear, Zero) | (Zero, Linear) => Some(Linear),
                (Free, Zero) | (Zero, Free) => Some(Free),
                _ => None,
            }
        }
        Term::Fold(_, op, _, body) => match of(body)? {
            Linear if *op == FoldOp::Add => Some(Linear),
            Linear => None,
            _ => Some(Free),
        },
        Term::Lookup(index, _, body) => {
            if of(index)? == Linear {
                None
            } else {
                of(body)
            }
        }
    }
}

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
