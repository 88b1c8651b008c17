//! Maybe-uninitialized analysis: which variables may hold uninitialized elements. Reading one is a trap.
//!
//! Sources are `empty` and its like, and calls whose outputs are fresh memory, except calls of tensor programs that
//! write every element of their output. Uninitialized elements propagate through operators that move elements, through
//! calls of functions, and through results. Arguments of functions that nothing in the module calls are
//! initialized.

use crate::in_place::mentions;
use crate::references::references;
use crate::tir_call::TirCall;
use relax_semantics::ops::{Family, lookup};
use relax_syntax::Name;
use relax_syntax::ir::{Atom, Body, Callee, Definition, Expr, Function, Module, VarId};
use relax_syntax::resolve::visit_expr_uses;
use relax_tir::analysis::write_coverage::writes_output;
use std::collections::{BTreeMap, BTreeSet};

/// For each function of a module, the variables that may hold uninitialized elements.
pub(crate) fn maybe_uninitialized(module: &Module) -> BTreeMap<Name, BTreeSet<VarId>> {
    let programs = module.definitions.iter().filter_map(|definition| match definition {
        Definition::Tensor(program) => writes_output(program).then_some(&program.name),
        Definition::Graph(_) => None,
    });
    let whole = programs.collect();
    let mut found = MaybeUninit { module, whole, results: BTreeSet::new(), vars: BTreeMap::new() };
    found.functions_as_values();
    let mut size = usize::MAX;
    while size != found.size() {
        size = found.size();
        module.functions().for_each(|function| found.function(function));
    }
    found.vars
}

/// The state of the fixed-point iteration over the functions of a module.
struct MaybeUninit<'m> {
    module: &'m Module,
    /// Tensor programs that write every element of their one output.
    whole: BTreeSet<&'m Name>,
    /// Functions whose results may hold uninitialized elements.
    results: BTreeSet<Name>,
    /// The variables of each function that may.
    vars: BTreeMap<Name, BTreeSet<VarId>>,
}

impl MaybeUninit<'_> {
    fn size(&self) -> usize {
        self.results.len() + self.vars.values().map(BTreeSet::len).sum::<usize>()
    }

    /// A function that is used as a value may be called with any argument.
    fn functions_as_values(&mut self) {
        for function in self.module.functions() {
            for name in references(function).held {
                if let Some(function) = self.module.function(&name) {
                    let params = function.lambda.params.iter().copied();
                    self.vars.entry(name).or_default().extend(params);
                }
            }
        }
    }

    fn function(&mut self, function: &Function) {
        let mut vars = self.vars.remove(&function.name).unwrap_or_default();
        if let Some(body) = &function.lambda.body {
            self.body(body, &mut vars);
            if mentions(&body.result, &vars) {
                self.results.insert(function.name.clone());
            }
        }
        // A recursive call may have noted parameters of this very function.
        self.vars.entry(function.name.clone()).or_default().extend(vars);
    }

    fn body(&mut self, body: &Body, vars: &mut BTreeSet<VarId>) {
        for binding in body.bindings() {
            let may = match &binding.expr {
                Expr::If { then, otherwise, .. } => {
                    self.body(then, vars);
                    self.body(otherwise, vars);
                    mentions(&then.result, vars) || mentions(&otherwise.result, vars)
                }
                Expr::Call { callee: Callee::Global(name), args, .. } => {
                    self.pass(name, args, vars);
                    self.results.contains(name)
                }
                Expr::Call { callee: Callee::Operator(name), .. } if name == "call_tir" => {
                    let call = TirCall::of(&binding.expr);
                    call.is_none_or(|call| !self.whole.contains(call.program))
                }
                Expr::Call { callee: Callee::Operator(name), .. } => {
                    is_source(name) || uses(&binding.expr, vars)
                }
                Expr::Call { callee: Callee::Var(_), .. } | Expr::Closure(_) => true,
                other => uses(other, vars),
            };
            if may {
                vars.insert(binding.var);
            }
        }
    }

    /// Propagates from the arguments of a call to the parameters of the callee.
    fn pass(&mut self, name: &Name, args: &[Atom], vars: &BTreeSet<VarId>) {
        let Some(callee) = self.module.function(name) else { return };
        for (&param, arg) in callee.lambda.params.iter().zip(args) {
            if mentions(arg, vars) {
                self.vars.entry(name.clone()).or_default().insert(param);
            }
        }
    }
}

/// Whether an operator may give uninitialized elements although its operands are initialized.
fn is_source(name: &str) -> bool {
    lookup(name).is_none_or(|row| {
        // A view has the elements of its tensor.
        row.name != "memory.view"
            && (matches!(
                row.family,
                Family::Calls | Family::Memory | Family::Builtins | Family::Distributed
            ) || row.name.starts_with("empty"))
    })
}

fn uses(expr: &Expr, vars: &BTreeSet<VarId>) -> bool {
    let mut found = false;
    visit_expr_uses(expr, &mut |var| found |= vars.contains(&var));
    found
}
