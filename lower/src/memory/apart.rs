//! Which functions give new tensors, no two of them the same, in storages that nobody else has: only those
//! can be released by whoever called.

use super::aliases::{Aliases, keeps};
use relax_semantics::ops::lookup;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::{Atom, Body, Callee, Expr, Function, Module, VarId};
use std::collections::BTreeSet;

/// Whether a function does; `known` are functions that do.
pub(super) fn gives_apart(
    module: &Module,
    function: &Function,
    aliases: &Aliases,
    known: &BTreeSet<Name>,
) -> bool {
    let Some(body) = &function.lambda.body else { return false };
    let items = match &body.result {
        Atom::Tuple(items) => items.as_slice(),
        result => std::slice::from_ref(result),
    };
    let mut results = BTreeSet::new();
    let distinct = items.iter().all(|item| match item {
        Atom::Var(var) => results.insert(aliases.root(*var)),
        _ => false,
    });
    let params = &function.lambda.params;
    // What lies in a storage that the function was given is not its own.
    let plain = params.iter().all(|&param| is_plain(function.param_annotation(param)));
    let returned = params.iter().any(|&param| results.contains(&aliases.root(param)));
    let mut sources = Sources { module, aliases, known, results, own: BTreeSet::new() };
    distinct && plain && !returned && sources.body(body)
}

/// Whether no storage can be in a value.
fn is_plain(annotation: &Annotation) -> bool {
    match annotation {
        Annotation::Tensor(_)
        | Annotation::DTensor(_)
        | Annotation::Shape(_)
        | Annotation::Prim(_) => true,
        Annotation::Tuple(items) => items.iter().all(is_plain),
        _ => false,
    }
}

/// Where the results of a function come from.
struct Sources<'a> {
    module: &'a Module,
    aliases: &'a Aliases,
    known: &'a BTreeSet<Name>,
    /// Their classes.
    results: BTreeSet<VarId>,
    /// Storages that the function takes.
    own: BTreeSet<VarId>,
}

impl Sources<'_> {
    /// Whether all of them are new.
    fn body(&mut self, body: &Body) -> bool {
        body.bindings().all(|binding| {
            let is_result = self.results.contains(&self.aliases.root(binding.var));
            match &binding.expr {
                Expr::If { then, otherwise, .. } => self.body(then) && self.body(otherwise),
                Expr::Call { callee: Callee::Operator(name), args, .. } => {
                    let row = lookup(name).map(|row| row.name);
                    if row == Some("memory.alloc_storage") {
                        self.own.insert(binding.var);
                    }
                    !is_result || self.is_new(row, name, args)
                }
                Expr::Call { callee: Callee::Global(name), .. } => {
                    let is_kernel = self.module.tensor_program(name).is_some();
                    !is_result || is_kernel || self.known.contains(name)
                }
                Expr::Call { callee: Callee::Var(_), .. } | Expr::Closure(_) => !is_result,
                Expr::Atom(_) | Expr::Get(..) | Expr::MatchCast(..) => true,
            }
        })
    }

    fn is_new(&self, row: Option<&str>, name: &Name, args: &[Atom]) -> bool {
        match row {
            Some("memory.alloc_tensor") => {
                matches!(args.first(), Some(Atom::Var(storage)) if self.own.contains(storage))
            }
            Some("memory.view") => true,
            _ => !keeps(name, args),
        }
    }
}
