//! In-place updates: variables whose value may change after their binding. They are the arguments of direct calls of
//! tensor programs (destination-passing style), and, in a program with explicit memory, every variable that may
//! name a tensor in a storage, because another name of it may be passed.

use crate::maybe_uninit::maybe_uninitialized;
use relax_semantics::ops::{Family, lookup};
use relax_syntax::Name;
use relax_syntax::ir::{Atom, Body, Callee, Expr, Function, Module, VarId};
use relax_syntax::resolve::atom_uses;
use std::collections::{BTreeMap, BTreeSet};

/// The variables of a function whose value may change after their binding.
pub(crate) fn updated_in_place(module: &Module, function: &Function) -> BTreeSet<VarId> {
    UpdatedInPlace::of(module).variables(function)
}

/// The same for those who ask of each function of a module.
pub(crate) struct UpdatedInPlace<'m> {
    module: &'m Module,
    /// Of each function, in a module with explicit memory.
    in_storages: BTreeMap<Name, BTreeSet<VarId>>,
}

impl<'m> UpdatedInPlace<'m> {
    pub(crate) fn of(module: &'m Module) -> Self {
        // A tensor in a storage is uninitialized at first, so such variables are among these.
        let has_memory = module.functions().any(has_memory);
        let in_storages = if has_memory { maybe_uninitialized(module) } else { BTreeMap::new() };
        Self { module, in_storages }
    }

    pub(crate) fn variables(&self, function: &Function) -> BTreeSet<VarId> {
        let mut found = dps_arguments(self.module, function);
        found.extend(self.in_storages.get(&function.name).into_iter().flatten());
        found
    }
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
