//! In-place updates: variables whose value may change after their binding. They are the arguments of direct calls of
//! tensor programs (destination-passing style), and, in a program with explicit memory, every variable that may
//! name a tensor in a storage, because another name of it may be passed.

use crate::maybe_uninit::maybe_uninitialized;
use relax_semantics::ops::{Family, lookup};
use relax_syntax::ir::{Atom, Body, Callee, Expr, Function, Module, VarId};
use relax_syntax::resolve::atom_uses;
use std::collections::BTreeSet;

/// The variables of a function whose value may change after their binding.
pub(crate) fn updated_in_place(module: &Module, function: &Function) -> BTreeSet<VarId> {
    let mut found = dps_arguments(module, function);
    if module.functions().any(has_memory) {
        // A tensor in a storage is uninitialized at first, so such variables are among these.
        found.extend(maybe_uninitialized(module).remove(&function.name).unwrap_or_default());
    }
    found
}

/// The variables that a function passes to tensor programs in destination-passing style.
#[must_use]
pub fn dps_arguments(module: &Module, function: &Function) -> BTreeSet<VarId> {
    let mut found = BTreeSet::new();
    if let Some(body) = &function.lambda.body {
        visit(body, &mut |expr| match expr {
            Expr::Call { callee: Callee::Global(name), args, .. }
                if module.tensor_program(name).is_some() =>
            {
                args.iter().for_each(|arg| atom_uses(arg, &mut found));
            }
            _ => {}
        });
    }
    found
}

fn has_memory(function: &Function) -> bool {
    let mut found = false;
    if let Some(body) = &function.lambda.body {
        visit(body, &mut |expr| {
            if let Expr::Call { callee: Callee::Operator(name), .. } = expr {
                found |= lookup(name).is_some_and(|row| row.family == Family::Memory);
            }
        });
    }
    found
}

/// Calls `see` on every right-hand side, those of closures and branches included.
fn visit(body: &Body, see: &mut dyn FnMut(&Expr)) {
    for binding in body.bindings() {
        see(&binding.expr);
        match &binding.expr {
            Expr::If { then, otherwise, .. } => {
                visit(then, see);
                visit(otherwise, see);
            }
            Expr::Closure(lambda) => {
                if let Some(body) = &lambda.body {
                    visit(body, see);
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
