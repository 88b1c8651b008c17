//! Constraints of an operator that are left to run time, as a call before the compiled one:
//! `builtin.check_operator("matmul", Tensor((n, k), "f32"), …)` checks the operands' annotations as the operator does, and
//! its traps are the operator's.

use crate::names::Names;
use relax_semantics::check::Checked;
use relax_semantics::ops::{Operator, by_position, passed};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::facts::{Claim, Facts, Relation};
use relax_syntax::ir::{Atom, Binding, Callee, Expr, VarId, VarInfo};
use relax_syntax::span::Span;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What of a binding is left to run time: a claim on dims, or a text where it is about something else.
pub type Left = Result<Claim, String>;

/// What is left to run time in a function, by binding.
#[must_use]
pub fn left_claims(checked: &Checked, function: &Name) -> BTreeMap<VarId, Vec<Left>> {
    let mut left: BTreeMap<VarId, Vec<Left>> = BTreeMap::new();
    for open in checked.obligations.iter().filter(|open| open.function == *function) {
        if let Some(var) = open.var {
            let claim = open.claim.clone().ok_or_else(|| open.text.clone());
            left.entry(var).or_default().push(claim);
        }
    }
    left
}

/// Assumes what a check establishes, for as long as the innermost scope of `facts` lasts.
pub fn assume_checked(claims: &[Claim], facts: &mut dyn Facts) {
    for claim in claims {
        if claim.relation == Relation::Divides {
            facts.assume(Claim::new(claim.left.clone(), Relation::NotEqual, 0));
        }
        facts.assume(claim.clone());
    }
}

/// The check of a call: operands by position, tensors by their annotations, so that it keeps no tensor alive. `None`
/// where the operands do not fit the operator's parameters.
#[must_use]
pub fn constraint_check(
    row: &'static Operator,
    args: &[Atom],
    attrs: &[(Name, Atom)],
    annotations: &[Annotation],
) -> Option<Expr> {
    let all = by_position(row, args, attrs)?;
    // Defaults are told apart from operands only to leave out the last ones.
    let last = passed(row, args, attrs).ok()?.iter().rposition(Option::is_some)?;
    let mut operands = vec![Atom::Str(Name::new(row.name))];
    operands.extend(all[..=last].iter().map(|atom| described(atom, annotations)));
    let callee = Callee::Operator(Name::new("builtin.check_operator"));
    Some(Expr::Call { callee, args: operands, attrs: Vec::new() })
}

fn described(atom: &Atom, annotations: &[Annotation]) -> Atom {
    let tensor = |annotation: &Annotation| match annotation.as_tensor() {
        Some(tensor) => Atom::Annotation(Arc::new(Annotation::Tensor(tensor.clone()))),
        None => atom.clone(),
    };
    match atom {
        Atom::Tuple(items) | Atom::List(items) => {
            Atom::List(items.iter().map(|item| described(item, annotations)).collect())
        }
        Atom::Var(var) => tensor(&annotations[var.0 as usize]),
        Atom::External(external) => tensor(&external.annotation),
        Atom::Constant(constant) => {
            let dims = relax_syntax::resolve::constant::constant_dims(constant);
            tensor(&Annotation::tensor(dims, constant.dtype))
        }
        _ => atom.clone(),
    }
}

/// A check as a binding of its own, to stand before the call at `span`.
pub fn check_binding(
    check: Expr,
    (names, vars): (&mut Names, &mut Vec<VarInfo>),
    span: Span,
) -> Binding {
    let var = VarId(u32::try_from(vars.len()).expect("ids are u32"));
    let name = names.fresh("checked");
    vars.push(VarInfo { name, annotation: None, span });
    Binding { var, expr: check }
}
