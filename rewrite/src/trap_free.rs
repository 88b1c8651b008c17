//! Trap analysis: which bindings are pure and cannot trap, so that a pass may drop, duplicate or move them.
//!
//! A call of an operator can trap on an undecided constraint, on run-time values
//! ([`relax_semantics::ops::Traps`]), on an uninitialized element, and on a dim whose evaluation leaves i64. The
//! analysis is conservative: a binding that is not shown to be trap-free counts as trapping.

use crate::dims::{always_evaluates, evaluates_when_it_fits};
use crate::maybe_uninit::maybe_uninitialized;
use relax_semantics::check::Checked;
use relax_semantics::ops::{Effect, Infer, Known, Literal, Operand, Operator, bind, lookup};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, Function, Lambda, Module, VarId};
use relax_syntax::resolve::atom_uses;
use relax_syntax::resolve::constant::constant_dims;
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
        let result = &annotations[binding.var.0 as usize];
        let passed: Vec<Operand> = operands.iter().map(|atom| operand(atom, annotations)).collect();
        if !is_removable_call(row, &passed, result) {
            return false;
        }
        let mut vars = BTreeSet::new();
        operands.iter().for_each(|atom| atom_uses(atom, &mut vars));
        let known: Vec<&Annotation> = vars.iter().map(|var| &annotations[var.0 as usize]).collect();
        let shapes: Vec<&[Dim]> = known.iter().filter_map(|annotation| annotation.dims()).collect();
        known.iter().all(|annotation| is_fully_known(annotation))
            && vars.is_disjoint(&self.maybe_uninit[&function.name])
            && operands.iter().all(|atom| evaluates(atom, &shapes))
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

/// Whether a call is pure and does not trap on run-time values, given that its constraints on annotations
/// and dims hold; `result` is the annotation deduced from `operands`.
pub(crate) fn is_removable_call(row: &Operator, operands: &[Operand], result: &Annotation) -> bool {
    row.effect == Effect::Pure && row.never_traps(operands, result) && is_fully_known(result)
}

/// What a call of an operator gives, and whether it leaves something to run time; none where it stops in every run.
pub(crate) fn deduced(
    row: &'static Operator,
    (args, attrs): (&[Atom], &[(Name, Atom)]),
    annotations: &[Annotation],
    facts: &mut dyn Facts,
) -> Option<(Annotation, bool)> {
    let known = |atom: &Atom| operand(atom, annotations);
    let positional = args.iter().map(known).collect();
    let keywords = attrs.iter().map(|(key, atom)| (key.clone(), known(atom))).collect();
    let default = |literal: Literal| Operand::of_known(literal.known());
    inferred(row, &bind(row, positional, keywords, &default).ok()?, facts)
}

/// The same of operands as deduction sees them.
pub(crate) fn inferred(
    row: &'static Operator,
    operands: &[Operand],
    facts: &mut dyn Facts,
) -> Option<(Annotation, bool)> {
    let mut infer = Infer { row, operands, facts, obligations: Vec::new(), module: None };
    let found = (row.infer)(&mut infer).ok()?;
    Some((found, !infer.obligations.is_empty()))
}

/// An argument as deduction sees it; `annotations` are those of the variables.
pub(crate) fn operand(atom: &Atom, annotations: &[Annotation]) -> Operand {
    if let Some(known) = Known::of_atom(atom) {
        return Operand::of_known(known);
    }
    let annotation = match atom {
        Atom::Var(var) => annotations[var.0 as usize].clone(),
        Atom::Constant(constant) => Annotation::tensor(constant_dims(constant), constant.dtype),
        Atom::External(external) => external.annotation.clone(),
        Atom::Shape(dims) => Annotation::Shape(Extents::Known(dims.clone())),
        Atom::Tuple(items) | Atom::List(items) => {
            let items = items.iter().map(|item| operand(item, annotations).annotation);
            Annotation::Tuple(items.collect())
        }
        _ => Annotation::Object,
    };
    Operand { annotation, known: None }
}

/// Whether the evaluation of every dim in an atom stays in i64, given that tensors of these shapes exist.
fn evaluates(atom: &Atom, shapes: &[&[Dim]]) -> bool {
    match atom {
        // A literal is an attribute: an axis may be negative.
        Atom::Dim(Dim::Int(_)) => true,
        Atom::Dim(dim) => always_evaluates(dim, shapes),
        Atom::Shape(dims) => dims.iter().all(|dim| always_evaluates(dim, shapes)),
        Atom::Tuple(items) | Atom::List(items) => items.iter().all(|item| evaluates(item, shapes)),
        Atom::Annotation(annotation) => {
            let mut all = true;
            annotation.visit_dims(&mut |dim| all &= always_evaluates(dim, shapes));
            all
        }
        _ => true,
    }
}

/// Whether the run-time comparison of a value that fits an annotation evaluates every dim within i64.
fn compares(annotation: &Annotation) -> bool {
    let mut all = true;
    annotation.visit_dims(&mut |dim| all &= evaluates_when_it_fits(dim));
    all
}

/// Whether an annotation has all dims and dtypes, so that `infer` decides each constraint on it or leaves an
/// obligation.
fn is_fully_known(annotation: &Annotation) -> bool {
    match annotation {
        Annotation::Prim(_) => true,
        Annotation::Shape(extents) => matches!(extents, Extents::Known(_)),
        Annotation::Tensor(_) | Annotation::DTensor(_) => annotation
            .as_tensor()
            .is_some_and(|tensor| tensor.dtype.is_some() && tensor.extents.dims().is_some()),
        Annotation::Tuple(items) => items.iter().all(is_fully_known),
        Annotation::Object | Annotation::Callable(_) => false,
    }
}
