//! Trap analysis: which bindings are pure and cannot trap, so that a pass may drop, duplicate or move them.
//!
//! A call of an operator can trap on an undecided constraint, on run-time values
//! ([`relax_semantics::ops::Traps`]), on an uninitialized element, and on a dim whose evaluation leaves i64. The
//! analysis is conservative: a binding that is not shown to be trap-free counts as trapping.

use crate::maybe_uninit::maybe_uninitialized;
use relax_semantics::check::Checked;
use relax_semantics::ops::traps::calls::{evaluates, is_trap_free};
use relax_semantics::ops::{Operator, lookup};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::evaluation::evaluates_when_it_fits;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, Function, Lambda, Module, VarId};
use relax_syntax::resolve::atom_uses;
use std::collections::{BTreeMap, BTreeSet};

/// The trap analysis of a module; functions are analyzed on their first call.
pub(crate) struct TrapAnalysis<'a> {
    module: &'a Module,
    checked: &'a Checked,
    /// Whether calls of a function are removable.
    functions: BTreeMap<Name, bool>,
    /// The variables of each function that may hold uninitialized elements.
    maybe_uninit: BTreeMap<Name, BTreeSet<VarId>>,
}

impl<'a> TrapAnalysis<'a> {
    /// Of a checked module.
    pub(crate) fn new(module: &'a Module, checked: &'a Checked) -> Self {
        let maybe_uninit = maybe_uninitialized(module);
        Self { module, checked, functions: BTreeMap::new(), maybe_uninit }
    }

    /// The variables of each function that may hold uninitialized elements.
    pub(crate) fn maybe_uninitialized(&self) -> &BTreeMap<Name, BTreeSet<VarId>> {
        &self.maybe_uninit
    }

    /// Whether the binding has no effect and does not trap, for all inputs.
    pub(crate) fn is_removable(&mut self, function: &Function, binding: &Binding) -> bool {
        if self.checked.left_in(&function.name).vars.contains(&binding.var) {
            return false;
        }
        match &binding.expr {
            Expr::Atom(atom) => evaluates(atom, &[]),
            Expr::Get(atom, index) => match self.known(function, atom) {
                Some(Annotation::Tuple(items)) => *index < items.len(),
                _ => false,
            },
            Expr::MatchCast(..) => false,
            Expr::If { condition, then, otherwise } => {
                self.is_condition(function, condition)
                    && [then, otherwise].into_iter().all(|branch| self.body(function, branch))
            }
            Expr::Closure(_) => true,
            Expr::Call { callee: Callee::Operator(name), args, attrs } => {
                let attrs = attrs.iter().map(|(_, atom)| atom);
                let operands: Vec<&Atom> = args.iter().chain(attrs).collect();
                lookup(name).is_some_and(|row| self.operator(function, binding, row, &operands))
            }
            Expr::Call { callee: Callee::Global(name), args, .. } => {
                args.iter().all(|arg| evaluates(arg, &[])) && self.function(name)
            }
            Expr::Call { callee: Callee::Var(_), .. } => false,
        }
    }

    fn body(&mut self, function: &Function, body: &Body) -> bool {
        body.bindings().all(|binding| self.is_removable(function, binding))
            && evaluates(&body.result, &[])
    }

    /// Whether a call of a function of the module is removable when its arguments are proved to fit its
    /// parameters. A recursive call counts as not removable, because it may not terminate.
    fn function(&mut self, name: &Name) -> bool {
        if let Some(&known) = self.functions.get(name) {
            return known;
        }
        self.functions.insert(name.clone(), false);
        let Some(function) = self.module.function(name) else { return false };
        let Lambda { params, result, body: Some(body), .. } = &function.lambda else {
            return false;
        };
        let annotations = params.iter().map(|&param| function.param_annotation(param));
        let removable = !self.checked.impure.contains(name)
            && !self.checked.left_in(&function.name).result
            && annotations.chain(result).all(compares)
            && self.body(function, body);
        self.functions.insert(name.clone(), removable);
        removable
    }

    fn operator(
        &self,
        function: &Function,
        binding: &Binding,
        row: &Operator,
        operands: &[&Atom],
    ) -> bool {
        let annotations = &self.checked.annotations[&function.name];
        let mut vars = BTreeSet::new();
        operands.iter().for_each(|atom| atom_uses(atom, &mut vars));
        vars.is_disjoint(&self.maybe_uninit[&function.name])
            && is_trap_free(row, operands, annotations, &annotations[binding.var.0 as usize])
    }

    fn known(&self, function: &Function, atom: &Atom) -> Option<&Annotation> {
        let Atom::Var(var) = atom else { return None };
        self.checked.annotations[&function.name].get(var.0 as usize)
    }

    /// Whether an atom is an initialized bool scalar.
    fn is_condition(&self, function: &Function, atom: &Atom) -> bool {
        let mut vars = BTreeSet::new();
        atom_uses(atom, &mut vars);
        let is_bool = match self.known(function, atom) {
            Some(Annotation::Prim(dtype)) => *dtype == DType::Bool,
            Some(Annotation::Tensor(tensor)) => {
                tensor.dtype == Some(DType::Bool) && tensor.extents.rank() == Some(0)
            }
            _ => matches!(atom, Atom::Bool(_)),
        };
        is_bool && vars.is_disjoint(&self.maybe_uninit[&function.name])
    }
}

/// Whether the run-time comparison of a value that fits an annotation evaluates every dim within i64.
fn compares(annotation: &Annotation) -> bool {
    let mut all = true;
    annotation.visit_dims(&mut |dim| all &= evaluates_when_it_fits(dim));
    all
}
