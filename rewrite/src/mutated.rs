//! Variables whose value changes after their binding: those passed to a tensor program that is
//! called in destination-passing style. What is said of the value of a variable holds for all others.

use relax_syntax::ir::{Atom, Body, Callee, Expr, Function, Module, VarId};
use relax_syntax::resolve::atom_uses;
use std::collections::BTreeSet;

/// The variables of a function that such a call may write to.
pub(crate) fn mutated(module: &Module, function: &Function) -> BTreeSet<VarId> {
    let mut found = BTreeSet::new();
    if let Some(body) = &function.lambda.body {
        visit(module, body, &mut found);
    }
    found
}

fn visit(module: &Module, body: &Body, found: &mut BTreeSet<VarId>) {
    for binding in body.bindings() {
        match &binding.expr {
            Expr::Call { callee: Callee::Global(name), args, .. }
                if module.tensor_program(name).is_some() =>
            {
                args.iter().for_each(|arg| atom_uses(arg, found));
            }
            Expr::If { then, otherwise, .. } => {
                visit(module, then, found);
                visit(module, otherwise, found);
            }
            Expr::Closure(lambda) => {
                if let Some(body) = &lambda.body {
                    visit(module, body, found);
                }
            }
            _ => {}
        }
    }
}

/// Whether an atom mentions one of `vars`.
pub(crate) fn mentions(atom: &Atom, vars: &BTreeSet<VarId>) -> bool {
    let mut used = BTreeSet::new();
    atom_uses(atom, &mut used);
    !used.is_disjoint(vars)
}
