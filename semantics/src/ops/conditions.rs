//! Scalars that programs compute of dims: which claim a condition is.

use super::{Operator, passed};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::Atom;

/// A scalar that is known where dims are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfDims {
    /// An integer with this value.
    Value(Dim),
    /// Whether all of these hold.
    Holds(Vec<Claim>),
}

/// What a call of an operator gives, if that is a scalar that is known where dims are; `known` says it of variables.
pub fn of_dims(
    row: &'static Operator,
    args: &[Atom],
    attrs: &[(Name, Atom)],
    known: &dyn Fn(&Atom) -> Option<OfDims>,
) -> Option<OfDims> {
    use OfDims::{Holds, Value};
    let given = passed(row, args, attrs).ok()?;
    let operands = || match &given[..] {
        [Some(a), Some(b)] => Some((known(a)?, known(b)?)),
        _ => None,
    };
    match row.name {
        "full" => match &given[..] {
            [Some(Atom::Shape(dims)), Some(Atom::Dim(value)), Some(Atom::Str(dtype)), ..]
                if dims.is_empty() && dtype == "i64" =>
            {
                Some(Value(value.clone()))
            }
            _ => None,
        },
        "equal" => match operands()? {
            (Value(a), Value(b)) => Some(Holds(vec![Claim::new(a, Relation::Equal, b)])),
            _ => None,
        },
        "logical_and" => match operands()? {
            (Holds(a), Holds(b)) => Some(Holds([a, b].concat())),
            _ => None,
        },
        _ => None,
    }
}
