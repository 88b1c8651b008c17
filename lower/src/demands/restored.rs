//! A module of P2.1 or later with its calls by name as calls of operators again: what passes of earlier phases decide on.

use relax_rewrite::blocks::for_each_binding;
use relax_semantics::ops::{called_by_name, lookup, only_checks};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Definition, Expr, Module, VarId};
use relax_validation::heaps::raised;

/// A call by name.
#[derive(Clone, Debug)]
pub(super) struct CallByName {
    pub(super) function: Name,
    pub(super) var: VarId,
    /// The operator, by its short name.
    pub(super) operator: &'static str,
}

/// The calls by name of a module, in the order of the text.
pub(super) fn calls_by_name(module: &Module) -> Vec<CallByName> {
    let mut calls = Vec::new();
    for function in module.functions() {
        let Some(body) = &function.lambda.body else { continue };
        for_each(body, &mut |binding| {
            let Some(row) = named(&binding.expr) else { return };
            let (function, var) = (function.name.clone(), binding.var);
            calls.push(CallByName { function, var, operator: row.short_name() });
        });
    }
    calls
}

/// Calls `visit` on each binding of a body and of the branches in it.
pub(super) fn for_each<'b>(body: &'b Body, visit: &mut dyn FnMut(&'b Binding)) {
    for binding in body.bindings() {
        if let Expr::If { then, otherwise, .. } = &binding.expr {
            for_each(then, visit);
            for_each(otherwise, visit);
        }
        visit(binding);
    }
}

/// The operator that is called by its name.
pub(super) fn named(expr: &Expr) -> Option<&'static relax_semantics::ops::Operator> {
    let Expr::Call { callee: Callee::Operator(name), args, .. } = expr else { return None };
    let row = lookup(name).filter(|row| !only_checks(row))?;
    called_by_name(row, args.first())
}

/// The same module as one that records no phase, in which operators are called as such.
pub(super) fn restored(module: &Module) -> Module {
    let mut result = raised(module);
    result.attrs.retain(|(key, _)| key != "phase");
    for definition in &mut result.definitions {
        if let Definition::Graph(function) = definition
            && let Some(body) = &mut function.lambda.body
        {
            for_each_binding(body, &mut by_operator);
        }
    }
    result
}

/// `builtin.call_operator("op", x, axis=1)` becomes `op(x, axis=1)`.
fn by_operator(binding: &mut Binding) {
    let Some(row) = named(&binding.expr) else { return };
    if let Expr::Call { callee, args, .. } = &mut binding.expr {
        args.remove(0);
        *callee = Callee::Operator(Name::new(row.name));
    }
}

/// Whether a call copies a tensor: `astype` to the dtype that it has moves uninitialized elements, as no kernel does.
pub(super) fn is_copy(expr: &Expr, annotations: &[Annotation]) -> bool {
    let Expr::Call { args, .. } = expr else { return false };
    match args.as_slice() {
        [Atom::Str(name), Atom::Var(var), Atom::Str(to)] if name == "astype" => {
            let known = annotations[var.0 as usize].as_tensor().and_then(|tensor| tensor.dtype);
            known.is_none_or(|dtype| dtype.name() == to.as_str())
        }
        _ => false,
    }
}
