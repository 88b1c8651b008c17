//! Versions of a function behind guards: a private function for the dims at which a guard holds, which declares it, and
//! the function that compares dims and calls one of them. Which guards there are others decide: where a form of
//! its calls is cheap ([`crate::saturation`]), where operators have a value ([`crate::passes::guard_constraints`]), where a library
//! computes something ([`crate::passes::guard_libraries`]).

pub(crate) mod choose;
pub(crate) mod specialize;
pub(crate) mod version;

use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents};
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

/// Tensors, whatever is known of their dims.
pub(crate) fn are_tensors(annotation: &Annotation) -> bool {
    match annotation {
        Annotation::Tensor(tensor) => tensor.dtype.is_some(),
        Annotation::Tuple(fields) => fields.iter().all(are_tensors),
        _ => false,
    }
}

/// What is said again of a version's result: all that is known, where the dims of one tensor are. Others may have dims that
/// only the run knows, as those of `nonzero`.
pub(crate) fn repeated(result: &Annotation) -> Option<Annotation> {
    (are_tensors(result) && has_dims(result)).then(|| result.clone())
}

fn has_dims(annotation: &Annotation) -> bool {
    match annotation {
        Annotation::Tensor(tensor) => matches!(tensor.extents, Extents::Known(_)),
        Annotation::Tuple(fields) => fields.iter().any(has_dims),
        _ => false,
    }
}
