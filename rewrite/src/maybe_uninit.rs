//! Maybe-uninitialized analysis: which variables may hold uninitialized elements. Reading one is a trap.
//!
//! Sources are `empty` and its like, and calls whose outputs are fresh memory, except calls of tensor programs that
//! write every element of their output. A tensor in a storage is one unless the first use of it in its body is a kernel that
//! writes every element ([`maybe_unwritten`]). Uninitialized elements propagate through operators that move elements, through
//! calls of functions, and through results. Arguments of functions that nothing in the module calls are
//! initialized.

use crate::in_place::mentions;
use crate::references::references;
use crate::tir_call::{TirCall, has_no_fresh_output};
use relax_semantics::ops::{Family, lookup};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::tensor::Param;
use relax_syntax::ir::{Atom, Body, Callee, Definition, Expr, Function, Module, VarId};
use relax_syntax::resolve::visit_expr_uses;
use relax_tir::analysis::write_coverage::{writes_output, writes_outputs};
use std::collections::{BTreeMap, BTreeSet};

/// For each function of a module, the variables that may hold uninitialized elements, and all that may name tensors in
/// storages.
pub(crate) fn maybe_uninitialized(module: &Module) -> BTreeMap<Name, BTreeSet<VarId>> {
    solve(module, BTreeSet::new())
}

/// The same without tensors that a kernel fills before anything else uses them, and that have their storages to themselves: of
/// others a write to the storage may lose elements.
pub(crate) fn maybe_unwritten(module: &Module) -> BTreeMap<Name, BTreeSet<VarId>> {
    let mut filled = BTreeSet::new();
    for function in module.functions() {
        if let Some(body) = &function.lambda.body {
            let mut uses = BTreeMap::new();
            storage_uses(body, &mut uses);
            let mut note = |var| _ = filled.insert((function.name.clone(), var));
            filled_at_first(module, body, &uses, &mut note);
        }
    }
    solve(module, filled)
}

fn solve(module: &Module, filled: BTreeSet<(Name, VarId)>) -> BTreeMap<Name, BTreeSet<VarId>> {
    let programs = module.definitions.iter().filter_map(|definition| match definition {
        Definition::Tensor(program) => writes_output(program).then_some(&program.name),
        Definition::Graph(_) => None,
    });
    let whole = programs.collect();
    let (results, vars) = (BTreeSet::new(), BTreeMap::new());
    let mut found = MaybeUninit { module, whole, filled, results, vars };
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
    /// Tensors in storages that are written before anything else uses them.
    filled: BTreeSet<(Name, VarId)>,
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
            self.body(&function.name, body, &mut vars);
            if mentions(&body.result, &vars) {
                self.results.insert(function.name.clone());
            }
        }
        // A recursive call may have noted parameters of this very function.
        self.vars.entry(function.name.clone()).or_default().extend(vars);
    }

    fn body(&mut self, of: &Name, body: &Body, vars: &mut BTreeSet<VarId>) {
        for binding in body.bindings() {
            let may = match &binding.expr {
                Expr::If { then, otherwise, .. } => {
                    self.body(of, then, vars);
                    self.body(of, otherwise, vars);
                    mentions(&then.result, vars) || mentions(&otherwise.result, vars)
                }
                Expr::Call { callee: Callee::Global(name), args, .. } => {
                    self.pass(name, args, vars);
                    self.results.contains(name)
                }
                Expr::Call { callee: Callee::Operator(name), .. } if name == "call_tir" => {
                    let writes = match TirCall::of(&binding.expr) {
                        Some(call) => self.whole.contains(call.program),
                        None => self.writes_all(&binding.expr),
                    };
                    !writes
                }
                // An argument that is written to keeps the elements that it had.
                Expr::Call { callee: Callee::Operator(name), .. }
                    if name == "call_tir_inplace" && has_no_fresh_output(&binding.expr) =>
                {
                    uses(&binding.expr, vars)
                }
                Expr::Call { callee: Callee::Operator(name), .. } => {
                    is_source(name) || uses(&binding.expr, vars)
                }
                Expr::Call { callee: Callee::Var(_), .. } | Expr::Closure(_) => true,
                other => uses(other, vars),
            };
            if may && !self.filled.contains(&(of.clone(), binding.var)) {
                vars.insert(binding.var);
            }
        }
    }

    /// Whether a call of a tensor program with several outputs gives tensors of which every element is written.
    fn writes_all(&self, call: &Expr) -> bool {
        let Expr::Call { args, .. } = call else { return false };
        let [Atom::Global(program), _, out, ..] = args.as_slice() else { return false };
        let count = match out {
            Atom::List(items) | Atom::Tuple(items) => items.len(),
            Atom::Annotation(out) => match &**out {
                Annotation::Tuple(items) => items.len(),
                _ => return false,
            },
            _ => return false,
        };
        self.module.tensor_program(program).is_some_and(|own| writes_outputs(own, count))
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

/// Tensors in storages whose first use, in the body that allocates them, is as the output of a kernel that writes every element.
fn filled_at_first(
    module: &Module,
    body: &Body,
    uses: &BTreeMap<VarId, usize>,
    note: &mut dyn FnMut(VarId),
) {
    let mut fresh: BTreeSet<VarId> = BTreeSet::new();
    for binding in body.bindings() {
        if let Expr::If { then, otherwise, .. } = &binding.expr {
            filled_at_first(module, then, uses, note);
            filled_at_first(module, otherwise, uses, note);
        }
        if let Some(output) = filled_by(module, &binding.expr).filter(|var| fresh.contains(var)) {
            note(output);
        }
        visit_expr_uses(&binding.expr, &mut |var| _ = fresh.remove(&var));
        if storage_of(&binding.expr).is_some_and(|storage| uses.get(&storage) == Some(&1)) {
            fresh.insert(binding.var);
        }
    }
}

/// The storage that a tensor is allocated in.
fn storage_of(expr: &Expr) -> Option<VarId> {
    let Expr::Call { callee: Callee::Operator(name), args, .. } = expr else { return None };
    lookup(name).filter(|row| row.name == "memory.alloc_tensor")?;
    match args.first() {
        Some(Atom::Var(storage)) => Some(*storage),
        _ => None,
    }
}

/// How often each variable is used, but for releases.
fn storage_uses(body: &Body, uses: &mut BTreeMap<VarId, usize>) {
    for binding in body.bindings() {
        if let Expr::If { then, otherwise, .. } = &binding.expr {
            storage_uses(then, uses);
            storage_uses(otherwise, uses);
            continue;
        }
        let is_release = matches!(&binding.expr, Expr::Call { callee: Callee::Operator(name), .. }
            if lookup(name).is_some_and(|row| row.name == "memory.kill_storage"));
        if !is_release {
            visit_expr_uses(&binding.expr, &mut |var| *uses.entry(var).or_default() += 1);
        }
    }
}

/// The variable that a kernel gets as its output alone, if it writes every element of it.
fn filled_by(module: &Module, expr: &Expr) -> Option<VarId> {
    let Expr::Call { callee: Callee::Global(name), args, .. } = expr else { return None };
    let program = module.tensor_program(name).filter(|program| writes_output(program))?;
    let output = program.params.iter().rposition(|param| matches!(param, Param::Buffer(_)))?;
    let Atom::Var(var) = args.get(output)? else { return None };
    let uses = args.iter().filter(|arg| **arg == Atom::Var(*var)).count();
    (uses == 1).then_some(*var)
}

/// Whether an operator may give uninitialized elements although its operands are initialized.
fn is_source(name: &str) -> bool {
    lookup(name).is_none_or(|row| {
        // A view has the elements of its tensor.
        row.name != "memory.view"
            && (matches!(row.family, Family::Calls | Family::Memory | Family::Builtins)
                || row.name == "call_tir_local_view"
                || row.name.starts_with("empty"))
    })
}

fn uses(expr: &Expr, vars: &BTreeSet<VarId>) -> bool {
    let mut found = false;
    visit_expr_uses(expr, &mut |var| found |= vars.contains(&var));
    found
}
