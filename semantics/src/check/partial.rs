//! Partial tensors, `P(sum)`: each worker has a term, and the value is the reduction of all. An operator may take one
//! where its result on the terms is a term of the result; elsewhere `redistribute` reduces it first.

use super::codes;
use crate::ops::{Family, Operator, lookup, passed};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Placement, Reduction};
use relax_syntax::diagnostic::{Diagnostic, Part};
use relax_syntax::ir::{Atom, Body, Callee, Expr, Function, Module};
use std::collections::BTreeMap;

/// Operators that are linear in all tensors together: with one partial tensor all are.
const TOGETHER: &[&str] = &["add", "subtract", "concat", "stack"];
/// Operators that are linear in each tensor: one of them is partial.
const ONE: &[&str] = &["multiply", "matmul", "negative", "sum"];
/// Operators that move elements: they commute with every reduction.
const MOVES: &[&str] = &[
    "reshape",
    "permute_dims",
    "squeeze",
    "expand_dims",
    "flatten",
    "broadcast_to",
    "strided_slice",
];

/// Whether an operator may take partial tensors at these of its tensor operands. Conservative: `relax shard` derives more
/// from index functions.
#[must_use]
pub fn carries(row: &Operator, reduction: Reduction, partial: &[bool]) -> bool {
    let name = row.short_name();
    let count = partial.iter().filter(|is_partial| **is_partial).count();
    if MOVES.contains(&name) {
        return count == 1 && partial.len() == 1;
    }
    let extreme = match reduction {
        Reduction::Sum => {
            return TOGETHER.contains(&name) && count == partial.len()
                || ONE.contains(&name) && count == 1;
        }
        Reduction::Max => ["maximum", "max"],
        Reduction::Min => ["minimum", "min"],
    };
    (extreme.contains(&name) || name == "concat") && count == partial.len()
}

/// Returns and uses of partial tensors that are not reduced.
pub(super) fn check(
    module: &Module,
    annotations: &BTreeMap<Name, Vec<Annotation>>,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for function in module.functions() {
        let (Some(body), Some(known)) = (&function.lambda.body, annotations.get(&function.name))
        else {
            continue;
        };
        let mut checker = Checker { function, known, found: &mut found };
        checker.body(body);
        if checker.reduction_of(&body.result).is_some()
            || function.lambda.result.as_ref().is_some_and(|result| partial(result).is_some())
        {
            let message = format!("`{}` returns a partial tensor", function.name);
            found.push(report(function.span, Part::Result, message));
        }
    }
    found
}

/// A reduction that an annotation leaves open.
fn partial(annotation: &Annotation) -> Option<Reduction> {
    let mut found = None;
    annotation.visit(&mut |part| {
        if let Annotation::DTensor(distributed) = part {
            found = distributed
                .placements
                .iter()
                .find_map(|placement| match placement {
                    Placement::Partial(reduction) => Some(*reduction),
                    _ => None,
                })
                .or(found);
        }
    });
    found
}

fn report(span: relax_syntax::span::Span, part: Part, message: String) -> Diagnostic {
    Diagnostic::error(codes::PARTIAL, span, message)
        .at(part)
        .with_help("reduce it first: `redistribute(x, \"mesh[0]\", \"R\")`")
}

struct Checker<'a> {
    function: &'a Function,
    known: &'a [Annotation],
    found: &'a mut Vec<Diagnostic>,
}

impl Checker<'_> {
    fn body(&mut self, body: &Body) {
        for binding in body.bindings() {
            match &binding.expr {
                Expr::If { then, otherwise, .. } => {
                    self.body(then);
                    self.body(otherwise);
                }
                Expr::Call { callee: Callee::Operator(name), args, attrs } => {
                    if let Some(wrong) = self.call(name, args, attrs) {
                        let span = self.function.var(binding.var).span;
                        self.found.push(report(span, Part::Value, wrong));
                    }
                }
                _ => {}
            }
        }
    }

    /// What is wrong with the partial operands of a call.
    fn call(&self, name: &Name, args: &[Atom], attrs: &[(Name, Atom)]) -> Option<String> {
        let row = lookup(name)?;
        let is_layout = ["redistribute", "annotate_sharding"].contains(&row.name);
        // Tensor programs, which passes make of operators too, are not followed.
        let is_opaque = matches!(row.family, Family::Calls | Family::Builtins | Family::Memory);
        if is_layout || is_opaque {
            return None;
        }
        let bound = passed(row, args, attrs).ok()?;
        let mut tensors = Vec::new();
        bound.into_iter().flatten().for_each(|atom| self.tensors(atom, &mut tensors));
        let mut reductions = tensors.iter().flatten();
        let first = *reductions.next()?;
        let partial: Vec<bool> = tensors.iter().map(Option::is_some).collect();
        if reductions.all(|reduction| *reduction == first) && carries(row, first, &partial) {
            return None;
        }
        let name = row.short_name();
        Some(format!(
            "`{name}` of `P({})` is not the reduction of `{name}` of the terms",
            first.name()
        ))
    }

    /// The tensors in an operand, each with what reduces it.
    fn tensors(&self, atom: &Atom, found: &mut Vec<Option<Reduction>>) {
        match atom {
            Atom::Var(var)
                if self
                    .known
                    .get(var.0 as usize)
                    .is_some_and(|known| known.as_tensor().is_some()) =>
            {
                found.push(self.reduction_of(atom));
            }
            Atom::Constant(_) | Atom::External(_) => found.push(None),
            Atom::Tuple(items) | Atom::List(items) => {
                items.iter().for_each(|item| self.tensors(item, found))
            }
            _ => {}
        }
    }

    fn reduction_of(&self, atom: &Atom) -> Option<Reduction> {
        match atom {
            Atom::Var(var) => self.known.get(var.0 as usize).and_then(partial),
            Atom::Tuple(items) | Atom::List(items) => {
                items.iter().find_map(|item| self.reduction_of(item))
            }
            _ => None,
        }
    }
}
