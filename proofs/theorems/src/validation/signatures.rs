//! Signatures of two functions: both must bind and check the same at a call.

use relax_syntax::annotation::Annotation;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Facts};
use relax_syntax::ir::{Function, VarId};
use std::collections::BTreeSet;

/// Whether parameters, those that are given up, declared dims and the result's annotation are those of the other function. Dims that are expressions
/// may be written in another way, where `facts` know them to be equal.
pub(super) fn same_signature(a: &Function, b: &Function, facts: &mut dyn Facts) -> bool {
    let params = |function: &Function| -> Vec<Annotation> {
        let each = function.lambda.params.iter();
        each.map(|&param| function.param_annotation(param).clone()).collect()
    };
    let dims = |function: &Function| -> Vec<_> {
        function.dims.iter().filter(|dim| dim.in_signature).cloned().collect()
    };
    let donated = |function: &Function| -> Vec<bool> {
        let donated: BTreeSet<VarId> = function.donated().collect();
        function.lambda.params.iter().map(|param| donated.contains(param)).collect()
    };
    let (first, second) = (params(a), params(b));
    let result = match (&a.lambda.result, &b.lambda.result) {
        (Some(a), Some(b)) => same_annotation(a, b, facts),
        (a, b) => a == b,
    };
    result
        && donated(a) == donated(b)
        && dims(a) == dims(b)
        && first.len() == second.len()
        && first.iter().zip(&second).all(|(a, b)| same_annotation(a, b, facts))
}

fn same_annotation(a: &Annotation, b: &Annotation, facts: &mut dyn Facts) -> bool {
    let without_dims = |annotation: &Annotation| annotation.map_dims(&mut |_| Dim::Int(0));
    let dims = |annotation: &Annotation| {
        let mut all = Vec::new();
        annotation.visit_dims(&mut |dim| all.push(dim.clone()));
        all
    };
    without_dims(a) == without_dims(b)
        && dims(a).iter().zip(&dims(b)).all(|(a, b)| same_dim(a, b, facts))
}

/// A variable alone is bound where it stands, and a division may stop the call: these must be the same.
fn same_dim(a: &Dim, b: &Dim, facts: &mut dyn Facts) -> bool {
    let is_checked = |dim: &Dim| !matches!(dim, Dim::Var(_)) && !divides(dim);
    a == b || is_checked(a) && is_checked(b) && facts.equal(a, b) == Answer::Proved
}

fn divides(dim: &Dim) -> bool {
    match dim {
        Dim::Int(_) | Dim::Var(_) => false,
        Dim::Op(DimOp::FloorDiv | DimOp::FloorMod | DimOp::CeilDiv, _) => true,
        Dim::Op(_, sides) => divides(&sides.0) || divides(&sides.1),
    }
}
