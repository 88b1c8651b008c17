//! Which functions may write to memory that they are given: by their texts alone, and where in doubt they may.
//!
//! A function writes to memory of its own where it took the storage and the tensor itself, or where an operator gave it a
//! value. Whether what is released is still in use is an obligation of memory.

use super::evaluate::Side;
use super::operators::{ALLOC_STORAGE, ALLOC_TENSOR, is_of_closures};
use relax_semantics::ops::{Operator, called_by_name, lookup};
use relax_semantics::tir::Compiled;
use relax_syntax::Name;
use relax_syntax::ir::references::references;
use relax_syntax::ir::tensor::Param;
use relax_syntax::ir::{Atom, Body, Callee, Expr, Module, TensorProgram, VarId};
use std::collections::BTreeSet;

/// Variables of a function that hold memory of its own.
#[derive(Default)]
struct Own {
    storages: BTreeSet<VarId>,
    tensors: BTreeSet<VarId>,
}

impl Side<'_> {
    /// Whether a function of this module may write to memory that it is given.
    pub(super) fn writes_arguments(&mut self, name: &Name) -> bool {
        if let Some(&known) = self.writing.get(name) {
            return known;
        }
        let writes = writes(self.module, name, &mut BTreeSet::new());
        self.writing.insert(name.clone(), writes);
        writes
    }
}

/// Whether a function is a value somewhere: its callers do not know what they give up.
pub(super) fn is_held(module: &Module, name: &Name) -> bool {
    module.functions().any(|function| references(function).held.contains(name))
}

fn writes(module: &Module, name: &Name, seen: &mut BTreeSet<Name>) -> bool {
    if !seen.insert(name.clone()) {
        // A recursion writes what its body writes.
        return false;
    }
    let body = module.function(name).and_then(|function| function.lambda.body.as_ref());
    body.is_none_or(|body| body_writes(module, body, &mut Own::default(), seen))
}

fn body_writes(module: &Module, body: &Body, own: &mut Own, seen: &mut BTreeSet<Name>) -> bool {
    body.bindings().any(|binding| {
        note(own, binding.var, &binding.expr);
        match &binding.expr {
            Expr::Atom(_) | Expr::Get(..) | Expr::MatchCast(..) => false,
            Expr::Closure(_) => true,
            Expr::If { then, otherwise, .. } => {
                body_writes(module, then, own, seen) || body_writes(module, otherwise, own, seen)
            }
            Expr::Call { callee, args, .. } => match callee {
                Callee::Var(_) => true,
                Callee::Operator(name) => called(name, args).is_none_or(is_of_closures),
                Callee::Global(name) => match module.tensor_program(name) {
                    None => writes(module, name, seen),
                    Some(program) => program_writes(program, args, own),
                },
            },
        }
    })
}

/// Whether a call in place writes to what is not the function's own.
fn program_writes(program: &TensorProgram, args: &[Atom], own: &Own) -> bool {
    let Ok(compiled) = Compiled::new(program) else { return true };
    let mut stored = compiled.writes().into_iter();
    let mut params = program.params.iter().enumerate();
    params.any(|(at, param)| {
        let written = matches!(param, Param::Buffer(_)) && stored.next().unwrap_or(true);
        written && !args.get(at).is_some_and(|arg| own.has(arg))
    })
}

/// The operator that a call is of, which a string may name.
fn called(name: &Name, args: &[Atom]) -> Option<&'static Operator> {
    let row = lookup(name)?;
    Some(called_by_name(row, args.first()).unwrap_or(row))
}

/// Notes a variable that holds memory of its own.
fn note(own: &mut Own, var: VarId, expr: &Expr) {
    let is_own = match expr {
        Expr::Atom(atom) => own.has(atom),
        Expr::Call { callee: Callee::Operator(name), args, .. } => {
            match called(name, args).map(|row| row.name) {
                Some(ALLOC_STORAGE) => {
                    own.storages.insert(var);
                    false
                }
                Some(ALLOC_TENSOR) => {
                    matches!(args.first(), Some(Atom::Var(storage)) if own.storages.contains(storage))
                }
                _ => gives_a_value(name, args),
            }
        }
        _ => false,
    };
    if is_own {
        own.tensors.insert(var);
    }
}

impl Own {
    fn has(&self, atom: &Atom) -> bool {
        matches!(atom, Atom::Var(var) if self.tensors.contains(var))
    }
}

/// Whether an operator gives a tensor that lies in no storage: from then on its variable holds it alone.
fn gives_a_value(name: &Name, args: &[Atom]) -> bool {
    let plain = |row: &Operator| {
        !is_of_closures(row)
            && !row.name.starts_with("memory.")
            && !row.name.starts_with("builtin.")
    };
    called(name, args).is_some_and(plain)
}

/// Whether a variable holds a value that is its own, where these do.
pub(super) fn holds_a_value(expr: &Expr, values: &BTreeSet<VarId>) -> bool {
    match expr {
        Expr::Atom(Atom::Var(var)) => values.contains(var),
        Expr::Call { callee: Callee::Operator(name), args, .. } => gives_a_value(name, args),
        _ => false,
    }
}
