//! The lines of a program, before they are text.

use crate::argument::Arg;
use crate::builder::V;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use std::collections::BTreeSet;

/// A line of the program.
#[derive(Clone, Debug)]
pub(crate) enum Line {
    Comment(String),
    Call {
        targets: Vec<V>,
        operator: String,
        args: Vec<Arg>,
    },
    /// `match_cast`
    Cast {
        target: V,
        from: V,
    },
    /// `match_cast` of the shape that a vector holds: its elements get names.
    ShapeCast {
        target: V,
        from: V,
        dims: Vec<Dim>,
    },
    /// `assert_op`, which has an effect.
    Assert {
        condition: Arg,
        message: Arg,
    },
    /// Another name.
    Alias {
        target: V,
        from: V,
    },
    /// The fields of a tuple.
    Fields {
        targets: Vec<V>,
        from: V,
    },
    /// A function within the function, which gives a tuple.
    Define {
        name: String,
        params: Vec<V>,
        results: Vec<Annotation>,
        /// Its own symbolic variables.
        locals: BTreeSet<String>,
        lines: Vec<Line>,
        returns: Vec<V>,
    },
    /// A call of it, and the fields of what it gives.
    Apply {
        targets: Vec<V>,
        function: String,
        args: Vec<V>,
    },
    /// A branch, and which value of each side a target is.
    If {
        condition: V,
        then: Vec<Line>,
        otherwise: Vec<Line>,
    },
}
