//! Versions of a function behind guards: a private function for the dims at which a guard holds, which declares it, and
//! the function that compares dims and calls one of them. Which guards there are others decide: where a form of
//! its calls is cheap ([`crate::saturation`]), where operators have a value ([`crate::passes::guard_constraints`]), where a library
//! computes something ([`crate::passes::guard_libraries`]).

pub(crate) mod choose;
pub(crate) mod specialize;
pub(crate) mod version;

use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::facts::Claim;
use relax_syntax::ir::{AttrValue, Function, attr};

/// Comparisons that must hold together.
pub type Guard = Vec<Claim>;

/// A version as the function sees it that chooses.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    /// The function to call.
    pub(crate) name: Name,
    /// When, if no guard before it holds; empty: whenever that is so.
    pub(crate) guard: Guard,
    /// What its result is for the caller, where that must be said again.
    pub(crate) result: Option<Annotation>,
}

/// Nothing else calls a version.
pub(crate) fn make_private(function: &mut Function) {
    let attrs = &mut function.lambda.attrs;
    if !matches!(attr(attrs, "private"), Some(AttrValue::Bool(true))) {
        attrs.retain(|(key, _)| key != "private");
        attrs.push((Name::new("private"), AttrValue::Bool(true)));
    }
}
