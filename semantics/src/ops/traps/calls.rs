//! Calls as a text has them: what deduction sees of their operands, and whether they can stop a run.

use super::super::{Effect, Infer, Known, Literal, Operand, Operator, bind};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::Dim;
use relax_syntax::dim::evaluation::always_evaluates;
use relax_syntax::facts::Facts;
use relax_syntax::ir::Atom;
use relax_syntax::resolve::atom_uses;
use relax_syntax::resolve::constant::constant_dims;
use std::collections::BTreeSet;

/// Whether a binding of such a call never stops a run, whatever constraints were checked before it: it is pure, its constraints follow
/// from `facts` alone, and neither its elements nor its dims can trap. No operand may hold uninitialized elements.
pub fn never_stops(
    row: &'static Operator,
    (args, attrs): (&[Atom], &[(Name, Atom)]),
    annotations: &[Annotation],
    facts: &mut dyn Facts,
) -> bool {
    // What deduction leaves to a run it assumes from there on.
    facts.push();
    let found = deduced(row, (args, attrs), annotations, facts);
    facts.pop();
    let atoms: Vec<&Atom> = args.iter().chain(attrs.iter().map(|(_, atom)| atom)).collect();
    found.is_some_and(|(result, is_left)| {
        !is_left && is_trap_free(row, &atoms, annotations, &result)
    })
}

/// Whether a call whose constraints hold cannot trap, by its operands, its result and the annotations of variables.
#[must_use]
pub fn is_trap_free(
    row: &Operator,
    atoms: &[&Atom],
    annotations: &[Annotation],
    result: &Annotation,
) -> bool {
    let passed: Vec<Operand> = atoms.iter().map(|atom| operand(atom, annotations)).collect();
    if !is_removable_call(row, &passed, result) {
        return false;
    }
    let mut vars = BTreeSet::new();
    atoms.iter().for_each(|atom| atom_uses(atom, &mut vars));
    let known: Vec<&Annotation> = vars.iter().map(|var| &annotations[var.0 as usize]).collect();
    let shapes: Vec<&[Dim]> = known.iter().filter_map(|annotation| annotation.dims()).collect();
    known.iter().all(|annotation| is_fully_known(annotation))
        && atoms.iter().all(|atom| evaluates(atom, &shapes))
}

/// Whether a call is pure and does not trap on run-time values, given that its constraints on annotations
/// and dims hold; `result` is the annotation deduced from `operands`.
#[must_use]
pub fn is_removable_call(row: &Operator, operands: &[Operand], result: &Annotation) -> bool {
    row.effect == Effect::Pure && row.never_traps(operands, result) && is_fully_known(result)
}

/// What a call of an operator gives, and whether it leaves something to run time; none where it stops in every run.
pub fn deduced(
    row: &'static Operator,
    (args, attrs): (&[Atom], &[(Name, Atom)]),
    annotations: &[Annotation],
    facts: &mut dyn Facts,
) -> Option<(Annotation, bool)> {
    let known = |atom: &Atom| operand(atom, annotations);
    let positional = args.iter().map(known).collect();
    let keywords = attrs.iter().map(|(key, atom)| (key.clone(), known(atom))).collect();
    let default = |literal: Literal| Operand::of_known(literal.known());
    inferred(row, &bind(row, positional, keywords, &default).ok()?, facts)
}

/// The same of operands as deduction sees them.
pub fn inferred(
    row: &'static Operator,
    operands: &[Operand],
    facts: &mut dyn Facts,
) -> Option<(Annotation, bool)> {
    let mut infer = Infer { row, operands, facts, obligations: Vec::new(), module: None };
    let found = (row.infer)(&mut infer).ok()?;
    Some((found, !infer.obligations.is_empty()))
}

/// An argument as deduction sees it; `annotations` are those of the variables.
#[must_use]
pub fn operand(atom: &Atom, annotations: &[Annotation]) -> Operand {
    if let Some(known) = Known::of_atom(atom) {
        return Operand::of_known(known);
    }
    let annotation = match atom {
        Atom::Var(var) => annotations[var.0 as usize].clone(),
        Atom::Constant(constant) => Annotation::tensor(constant_dims(constant), constant.dtype),
        Atom::External(external) => external.annotation.clone(),
        Atom::Shape(dims) => Annotation::Shape(Extents::Known(dims.clone())),
        Atom::Tuple(items) | Atom::List(items) => {
            let items = items.iter().map(|item| operand(item, annotations).annotation);
            Annotation::Tuple(items.collect())
        }
        _ => Annotation::Object,
    };
    Operand { annotation, known: None }
}

/// Whether the evaluation of every dim in an atom stays in i64, given that tensors of these shapes exist.
#[must_use]
pub fn evaluates(atom: &Atom, shapes: &[&[Dim]]) -> bool {
    match atom {
        // A literal is an attribute: an axis may be negative.
        Atom::Dim(Dim::Int(_)) => true,
        Atom::Dim(dim) => always_evaluates(dim, shapes),
        Atom::Shape(dims) => dims.iter().all(|dim| always_evaluates(dim, shapes)),
        Atom::Tuple(items) | Atom::List(items) => items.iter().all(|item| evaluates(item, shapes)),
        Atom::Annotation(annotation) => {
            let mut all = true;
            annotation.visit_dims(&mut |dim| all &= always_evaluates(dim, shapes));
            all
        }
        _ => true,
    }
}

/// Whether an annotation has all dims and dtypes, so that `infer` decides each constraint on it or leaves an
/// obligation.
#[must_use]
pub fn is_fully_known(annotation: &Annotation) -> bool {
    match annotation {
        Annotation::Prim(_) => true,
        Annotation::Shape(extents) => matches!(extents, Extents::Known(_)),
        Annotation::Tensor(_) | Annotation::DTensor(_) => annotation
            .as_tensor()
            .is_some_and(|tensor| tensor.dtype.is_some() && tensor.extents.dims().is_some()),
        Annotation::Tuple(items) => items.iter().all(is_fully_known),
        Annotation::Object | Annotation::Callable(_) => false,
    }
}
