//! Terms that are linear in operands.

use super::names::{ADD, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT};
use super::term::{FoldOp, Term, Test};
use relax_syntax::Name;
use std::collections::BTreeSet;

/// Whether a term is linear in these operands together, without a constant term.
pub(crate) fn is_linear(term: &Term, operands: &BTreeSet<Name>) -> bool {
    degree(term, operands) == Some(Degree::Linear)
}

/// How a term depends on operands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Degree {
    Zero,
    Free,
    Linear,
}

/// `None` where it depends on them in another way.
fn degree(term: &Term, operands: &BTreeSet<Name>) -> Option<Degree> {
    use Degree::{Free, Linear, Zero};
    let of = |term: &Term| degree(term, operands);
    match term {
        Term::Read(name, _) => Some(if operands.contains(name) { Linear } else { Free }),
        Term::Number(_, value) => Some(if *value == 0.0 { Zero } else { Free }),
        Term::Extent(_) | Term::Scalar(_) => Some(Free),
        Term::Apply(_, name, args) => {
            let degrees = args.iter().map(of).collect::<Option<Vec<_>>>()?;
            match (&**name, &degrees[..]) {
                (_, all) if all.iter().all(|degree| *degree != Linear) => Some(Free),
                (ADD | SUBTRACT, [Linear | Zero, Linear | Zero]) => Some(Linear),
                (NEGATIVE, [Linear]) => Some(Linear),
                (MULTIPLY, [Linear, Free] | [Free, Linear]) | (DIVIDE, [Linear, Free]) => {
                    Some(Linear)
                }
                (MULTIPLY, [Linear, Zero] | [Zero, Linear]) => Some(Zero),
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
