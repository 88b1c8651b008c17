//! Arguments of operators whose value the text spells.

use relax_semantics::ops::{Known, Literal};
use relax_syntax::ir::Atom;

/// An argument, or what stands for it.
pub(crate) enum Given {
    Atom(Atom),
    Default(Literal),
}

impl Given {
    /// The value, where the text spells it.
    pub(crate) fn known(&self) -> Option<Known> {
        match self {
            Given::Atom(atom) => known_atom(atom),
            Given::Default(literal) => Some(literal.known()),
        }
    }
}

/// The value of an attribute that the text spells.
pub(crate) fn known_atom(atom: &Atom) -> Option<Known> {
    let all = |items: &[Atom]| items.iter().map(known_atom).collect::<Option<Vec<_>>>();
    Some(match atom {
        Atom::None => Known::None,
        Atom::Dim(dim) => Known::Dim(dim.clone()),
        Atom::Float(value) => Known::Float(*value),
        Atom::Bool(value) => Known::Bool(*value),
        Atom::Str(text) => Known::Str(text.clone()),
        Atom::Tuple(items) | Atom::List(items) => Known::List(all(items)?),
        Atom::Shape(dims) => Known::List(dims.iter().cloned().map(Known::Dim).collect()),
        _ => return None,
    })
}
