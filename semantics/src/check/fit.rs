//! Does what is deduced of a value fit an annotation? For all dims, for none, or undecided.

use relax_syntax::annotation::{Annotation, Extents, Signature, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Counterexample, Facts, Relation};

/// Why something does not fit, or is not known to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Misfit {
    /// A sentence.
    pub(super) why: String,
    /// What must hold of dims, where that is what it is about.
    pub(super) claim: Option<Claim>,
    /// Values under which the claim fails; empty where none are known or none are needed.
    pub(super) values: Counterexample,
}

impl Misfit {
    /// With the values that show it.
    pub(super) fn text(&self) -> String {
        match self.claim.as_ref().and_then(|claim| claim.failure(&self.values)) {
            Some(failure) => format!("{} ({failure})", self.why),
            None => self.why.clone(),
        }
    }
}

impl From<String> for Misfit {
    fn from(why: String) -> Self {
        Self { why, claim: None, values: Counterexample::new() }
    }
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// For all dims.
    Yes,
    /// For some dims it does not.
    Fails(Misfit),
    /// For no dims it does.
    Never(Misfit),
    /// It is not known.
    Unknown(Misfit),
}

impl Fit {
    fn never(why: impl Into<String>) -> Self {
        Fit::Never(why.into().into())
    }

    fn unknown(why: impl Into<String>) -> Self {
        Fit::Unknown(why.into().into())
    }

    /// Both: the worse of two answers.
    fn and(self, other: impl FnOnce() -> Fit) -> Fit {
        match self {
            Fit::Yes => other(),
            Fit::Never(_) => self,
            Fit::Fails(_) | Fit::Unknown(_) => match other() {
                never @ Fit::Never(_) => never,
                _ => self,
            },
        }
    }
}

/// Whether a value of `deduced` always has `wanted`.
pub(super) fn fits(facts: &mut dyn Facts, deduced: &Annotation, wanted: &Annotation) -> Fit {
    match (deduced, wanted) {
        (_, Annotation::Object) => Fit::Yes,
        (Annotation::Object, _) => {
            Fit::unknown(format!("nothing is known of the value, `{wanted}` is wanted"))
        }
        (Annotation::Prim(found), Annotation::Prim(expected)) if found == expected => Fit::Yes,
        (Annotation::Shape(found), Annotation::Shape(expected)) => extents(facts, found, expected),
        (Annotation::Tensor(found), Annotation::Tensor(expected)) => {
            tensors(facts, found, expected)
        }
        (Annotation::DTensor(found), Annotation::DTensor(expected)) => {
            if found.mesh != expected.mesh || found.placements != expected.placements {
                return Fit::never(format!(
                    "the placement of `{deduced}` is not that of `{wanted}`"
                ));
            }
            tensors(facts, &found.tensor, &expected.tensor)
        }
        (Annotation::Tuple(found), Annotation::Tuple(expected)) => {
            if found.len() != expected.len() {
                return Fit::never(format!("{} fields are not {}", found.len(), expected.len()));
            }
            found
                .iter()
                .zip(expected)
                .fold(Fit::Yes, |fit, (found, expected)| fit.and(|| fits(facts, found, expected)))
        }
        (Annotation::Callable(_), Annotation::Callable(None)) => Fit::Yes,
        (Annotation::Callable(None), Annotation::Callable(_)) => {
            Fit::unknown(format!("the signature is not known, `{wanted}` is wanted"))
        }
        (Annotation::Callable(Some(found)), Annotation::Callable(Some(expected))) => {
            signatures(found, expected)
        }
        (Annotation::Tensor(_), Annotation::DTensor(_)) => {
            Fit::never("it has no layout, and `redistribute` gives it one")
        }
        (Annotation::DTensor(_), Annotation::Tensor(_)) => Fit::never("it has a layout"),
        _ => Fit::never(format!("`{deduced}` is not `{wanted}`")),
    }
}

/// Number of parameters and purity; parameters and result are checked by every call, at the
/// callee's own boundary.
fn signatures(found: &Signature, expected: &Signature) -> Fit {
    if found.params.len() != expected.params.len() {
        let (found, expected) = (found.params.len(), expected.params.len());
        return Fit::never(format!("a function of {found} parameters is not one of {expected}"));
    }
    if expected.pure && !found.pure {
        return Fit::never("the function has an effect");
    }
    Fit::Yes
}

fn tensors(facts: &mut dyn Facts, found: &TensorType, expected: &TensorType) -> Fit {
    let dtype = match (found.dtype, expected.dtype) {
        (_, None) => Fit::Yes,
        (None, Some(expected)) => Fit::unknown(format!("the dtype is not known to be {expected}")),
        (Some(found), Some(expected)) if found != expected => {
            Fit::never(format!("dtype {found} is not {expected}"))
        }
        _ => Fit::Yes,
    };
    dtype.and(|| extents(facts, &found.extents, &expected.extents))
}

fn extents(facts: &mut dyn Facts, found: &Extents, expected: &Extents) -> Fit {
    match (found.rank(), expected.rank()) {
        (_, None) => return Fit::Yes,
        (None, Some(rank)) => return Fit::unknown(format!("the rank is not known to be {rank}")),
        (Some(found), Some(expected)) if found != expected => {
            return Fit::never(format!("rank {found} is not {expected}"));
        }
        _ => {}
    }
    let Some(wanted) = expected.dims() else { return Fit::Yes };
    let Some(dims) = found.dims() else { return Fit::unknown("the dims are not known") };
    dims.iter()
        .zip(wanted)
        .enumerate()
        .fold(Fit::Yes, |fit, (axis, (found, wanted))| fit.and(|| dim(facts, axis, found, wanted)))
}

fn dim(facts: &mut dyn Facts, axis: usize, found: &Dim, wanted: &Dim) -> Fit {
    let claim = Claim::new(found.clone(), Relation::Equal, wanted.clone());
    let values = match facts.equal(found, wanted) {
        Answer::Proved => return Fit::Yes,
        Answer::Refuted(values) => Some(values),
        Answer::Unknown => None,
    };
    let differ = Claim::new(found.clone(), Relation::NotEqual, wanted.clone());
    let never = facts.decide(&differ) == Answer::Proved;
    let why = if never || values.is_some() {
        format!("dim {axis}: {found} is not {wanted}")
    } else {
        format!("dim {axis}: {found} is not known to be {wanted}")
    };
    let fails = values.is_some();
    let misfit = Misfit { why, claim: Some(claim), values: values.unwrap_or_default() };
    match (never, fails) {
        (true, _) => Fit::Never(misfit),
        (false, true) => Fit::Fails(misfit),
        (false, false) => Fit::Unknown(misfit),
    }
}

/// What is known of a value that has both annotations.
pub(super) fn more_precise(deduced: &Annotation, wanted: &Annotation) -> Annotation {
    match (deduced, wanted) {
        (_, Annotation::Object) => deduced.clone(),
        (Annotation::Tensor(found), Annotation::Tensor(expected)) => {
            Annotation::Tensor(precise_tensor(found, expected))
        }
        (Annotation::Shape(found), Annotation::Shape(expected)) => {
            Annotation::Shape(precise_extents(found, expected))
        }
        (Annotation::Tuple(found), Annotation::Tuple(expected))
            if found.len() == expected.len() =>
        {
            Annotation::Tuple(found.iter().zip(expected).map(|(f, e)| more_precise(f, e)).collect())
        }
        (Annotation::Callable(Some(_)), Annotation::Callable(None)) => deduced.clone(),
        _ => wanted.clone(),
    }
}

fn precise_tensor(found: &TensorType, expected: &TensorType) -> TensorType {
    TensorType {
        extents: precise_extents(&found.extents, &expected.extents),
        dtype: expected.dtype.or(found.dtype),
    }
}

fn precise_extents(found: &Extents, expected: &Extents) -> Extents {
    match (found, expected) {
        (_, Extents::Known(_)) => expected.clone(),
        (Extents::Known(_), _) | (Extents::Rank(_), Extents::Unknown) => found.clone(),
        _ => expected.clone(),
    }
}

/// What is known of a value that has one of the annotations.
pub(super) fn join(facts: &mut dyn Facts, a: &Annotation, b: &Annotation) -> Annotation {
    match (a, b) {
        _ if a == b => a.clone(),
        (Annotation::Tensor(x), Annotation::Tensor(y)) => Annotation::Tensor(TensorType {
            extents: join_extents(facts, &x.extents, &y.extents),
            dtype: x.dtype.filter(|_| x.dtype == y.dtype),
        }),
        (Annotation::Shape(x), Annotation::Shape(y)) => {
            Annotation::Shape(join_extents(facts, x, y))
        }
        (Annotation::Tuple(x), Annotation::Tuple(y)) if x.len() == y.len() => {
            Annotation::Tuple(x.iter().zip(y).map(|(x, y)| join(facts, x, y)).collect())
        }
        (Annotation::Callable(_), Annotation::Callable(_)) => Annotation::Callable(None),
        _ => Annotation::Object,
    }
}

fn join_extents(facts: &mut dyn Facts, a: &Extents, b: &Extents) -> Extents {
    match (a, b) {
        (Extents::Known(x), Extents::Known(y)) if x.len() == y.len() => {
            let same = x.iter().zip(y).all(|(x, y)| facts.equal(x, y) == Answer::Proved);
            if same { a.clone() } else { Extents::Rank(x.len()) }
        }
        _ => match (a.rank(), b.rank()) {
            (Some(x), Some(y)) if x == y => Extents::Rank(x),
            _ => Extents::Unknown,
        },
    }
}

/// The annotation without the dims that `known` does not accept.
pub(super) fn coarsen(annotation: &Annotation, known: &dyn Fn(&Dim) -> bool) -> Annotation {
    let extents = |extents: &Extents| match extents {
        Extents::Known(dims) if !dims.iter().all(known) => Extents::Rank(dims.len()),
        other => other.clone(),
    };
    match annotation {
        Annotation::Tensor(tensor) => Annotation::Tensor(TensorType {
            extents: extents(&tensor.extents),
            dtype: tensor.dtype,
        }),
        Annotation::Shape(dims) => Annotation::Shape(extents(dims)),
        Annotation::Tuple(items) => {
            Annotation::Tuple(items.iter().map(|item| coarsen(item, known)).collect())
        }
        Annotation::DTensor(distributed) => {
            let mut distributed = distributed.clone();
            distributed.tensor.extents = extents(&distributed.tensor.extents);
            Annotation::DTensor(distributed)
        }
        Annotation::Callable(Some(signature)) => {
            let mut all = true;
            annotation.visit_dims(&mut |dim| all &= known(dim));
            let _ = signature;
            if all { annotation.clone() } else { Annotation::Callable(None) }
        }
        other => other.clone(),
    }
}

/// Parts of a dim, and of an annotation, beyond which it is not followed further: calls of calls and
/// tuples of tuples double in size with every line of the text.
const MAX_DIM: usize = 512;
const MAX_ANNOTATION: usize = 4096;

/// The annotation, coarsened where it is too large to reason with.
pub(super) fn limited(annotation: Annotation) -> Annotation {
    let mut parts = MAX_ANNOTATION;
    let mut large = false;
    annotation.visit_dims(&mut |dim| {
        let mut left = MAX_DIM;
        large |= !spend_dim(dim, &mut left);
    });
    let annotation = if large {
        coarsen(&annotation, &|dim| spend_dim(dim, &mut { MAX_DIM }))
    } else {
        annotation
    };
    if spend(&annotation, &mut parts) { annotation } else { Annotation::Object }
}

fn spend_dim(dim: &Dim, left: &mut usize) -> bool {
    let Some(rest) = left.checked_sub(1) else { return false };
    *left = rest;
    match dim {
        Dim::Op(_, operands) => spend_dim(&operands.0, left) && spend_dim(&operands.1, left),
        _ => true,
    }
}

fn spend(annotation: &Annotation, left: &mut usize) -> bool {
    let dims = |extents: &Extents, left: &mut usize| {
        extents.dims().unwrap_or_default().iter().all(|dim| spend_dim(dim, left))
    };
    let Some(rest) = left.checked_sub(1) else { return false };
    *left = rest;
    match annotation {
        Annotation::Tuple(items) => items.iter().all(|item| spend(item, left)),
        Annotation::Tensor(tensor) => dims(&tensor.extents, left),
        Annotation::DTensor(distributed) => dims(&distributed.tensor.extents, left),
        Annotation::Shape(extents) => dims(extents, left),
        Annotation::Callable(Some(signature)) => {
            signature.params.iter().all(|param| spend(param, left))
                && spend(&signature.result, left)
        }
        Annotation::Object | Annotation::Prim(_) | Annotation::Callable(None) => true,
    }
}
