//! What the nested functions of a top-level function see of what is around them: variables, and
//! symbolic variables that have a value where the nested function is made.

use crate::dims::{atom_dims, expr_dims, lambda_dims, lone};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, OWN};
use relax_syntax::dim::Dim;
use relax_syntax::ir::{Atom, Body, Callee, Expr, Function, Lambda, VarId};
use relax_syntax::resolve::atom_uses;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A nested function.
pub(super) struct Nested {
    pub(super) lambda: Arc<Lambda>,
    /// Variables around it that it needs, those of the functions that it calls included.
    pub(super) vars: BTreeSet<VarId>,
    /// Symbolic variables around it that it needs.
    pub(super) dims: BTreeSet<Name>,
    /// Nested functions that it calls.
    pub(super) calls: BTreeSet<VarId>,
    /// Variables that it binds: parameters and what is in its body.
    pub(super) own: BTreeSet<VarId>,
    /// Symbolic variables that have a value where it is made.
    around: BTreeSet<Name>,
}

/// The nested functions of a function, by their variables.
pub(super) struct Captures {
    pub(super) nested: BTreeMap<VarId, Nested>,
    /// Those that are used otherwise than to be called.
    pub(super) values: BTreeSet<VarId>,
}

impl Captures {
    /// Looks through a function whose variables have these annotations.
    pub(super) fn of(function: &Function, annotations: &[Annotation]) -> Self {
        let mut captures = Self { nested: BTreeMap::new(), values: BTreeSet::new() };
        let Some(body) = &function.lambda.body else { return captures };
        let mut around = BTreeSet::new();
        bound_by_params(function, &function.lambda, &mut around);
        captures.find(function, body, &mut around);
        captures.look(function, body, None);
        captures.close(annotations);
        captures
    }

    /// Finds the nested functions, in order; `around` are the symbolic variables with a value.
    fn find(&mut self, function: &Function, body: &Body, around: &mut BTreeSet<Name>) {
        for binding in body.bindings() {
            match &binding.expr {
                Expr::MatchCast(_, annotation) => lone(annotation, around),
                Expr::If { then, otherwise, .. } => {
                    self.find(function, then, &mut around.clone());
                    self.find(function, otherwise, &mut around.clone());
                }
                Expr::Closure(lambda) => {
                    let nested = Nested {
                        lambda: lambda.clone(),
                        vars: BTreeSet::new(),
                        dims: BTreeSet::new(),
                        calls: BTreeSet::new(),
                        own: BTreeSet::new(),
                        around: around.clone(),
                    };
                    self.nested.insert(binding.var, nested);
                    let mut within = around.clone();
                    bound_by_params(function, lambda, &mut within);
                    if let Some(body) = &lambda.body {
                        self.find(function, body, &mut within);
                    }
                }
                _ => {}
            }
        }
    }

    /// Notes uses in a body; `within` is the innermost nested function around it.
    fn look(&mut self, function: &Function, body: &Body, within: Option<VarId>) {
        for binding in body.bindings() {
            self.bind(function, binding.var, within);
            match &binding.expr {
                Expr::Atom(atom) | Expr::Get(atom, _) | Expr::MatchCast(atom, _) => {
                    self.uses(atom, within);
                }
                Expr::Call { callee, args, attrs } => {
                    self.called(callee, within);
                    let attrs = attrs.iter().map(|(_, atom)| atom);
                    args.iter().chain(attrs).for_each(|atom| self.uses(atom, within));
                }
                Expr::If { condition, then, otherwise } => {
                    self.uses(condition, within);
                    self.look(function, then, within);
                    self.look(function, otherwise, within);
                }
                Expr::Closure(lambda) => self.look_into(function, binding.var, lambda, within),
            }
            if !matches!(binding.expr, Expr::If { .. } | Expr::Closure(_)) {
                expr_dims(&binding.expr, &mut |dim| self.mentions(dim, within));
            }
        }
        self.uses(&body.result, within);
        atom_dims(&body.result, &mut |dim| self.mentions(dim, within));
    }

    fn look_into(
        &mut self,
        function: &Function,
        var: VarId,
        lambda: &Lambda,
        within: Option<VarId>,
    ) {
        lambda.params.iter().for_each(|&param| self.bind(function, param, Some(var)));
        let Some(body) = &lambda.body else { return };
        self.look(function, body, Some(var));
        lambda_dims(lambda, &mut |dim| self.mentions(dim, Some(var)));
        // What is nested in a function is in it.
        if let Some(outer) = within {
            let inner = &self.nested[&var];
            let (own, vars, calls) = (inner.own.clone(), inner.vars.clone(), inner.calls.clone());
            let dims = inner.dims.clone();
            let outer = self.nested.get_mut(&outer).expect("invariant: it was found");
            outer.own.extend(own);
            outer.vars.extend(vars);
            outer.calls.extend(calls);
            outer.dims.extend(dims);
        }
    }

    fn bind(&mut self, function: &Function, var: VarId, within: Option<VarId>) {
        let Some(nested) = within.and_then(|within| self.nested.get_mut(&within)) else { return };
        nested.own.insert(var);
        if let Some(annotation) = &function.var(var).annotation {
            annotation.visit_dims(&mut |dim| mention(dim, &mut nested.dims));
        }
    }

    fn uses(&mut self, atom: &Atom, within: Option<VarId>) {
        let mut used = BTreeSet::new();
        atom_uses(atom, &mut used);
        for var in used {
            if self.nested.contains_key(&var) {
                self.values.insert(var);
            }
            // Of itself a function makes a new value.
            if let Some(within) = within.filter(|within| *within != var) {
                self.nested.get_mut(&within).expect("invariant: it was found").vars.insert(var);
            }
        }
    }

    fn called(&mut self, callee: &Callee, within: Option<VarId>) {
        let (Callee::Var(var), Some(within)) = (callee, within) else { return };
        let is_nested = self.nested.contains_key(var);
        let nested = self.nested.get_mut(&within).expect("invariant: it was found");
        if is_nested {
            nested.calls.insert(*var);
        } else {
            nested.vars.insert(*var);
        }
    }

    fn mentions(&mut self, dim: &Dim, within: Option<VarId>) {
        if let Some(nested) = within.and_then(|within| self.nested.get_mut(&within)) {
            mention(dim, &mut nested.dims);
        }
    }

    /// What a function needs, those that it calls need too, and dims for what it needs.
    fn close(&mut self, annotations: &[Annotation]) {
        let mut changed = true;
        while changed {
            changed = false;
            for var in self.nested.keys().copied().collect::<Vec<_>>() {
                changed |= self.grow(var, annotations);
            }
        }
    }

    fn grow(&mut self, var: VarId, annotations: &[Annotation]) -> bool {
        let nested = &self.nested[&var];
        let (mut vars, mut dims) = (nested.vars.clone(), nested.dims.clone());
        for called in &nested.calls {
            vars.extend(&self.nested[called].vars);
            dims.extend(self.nested[called].dims.iter().cloned());
        }
        vars.retain(|var| !nested.own.contains(var));
        vars.remove(&var);
        for var in &vars {
            // Of a nested function as a value no signature is passed on.
            if !self.nested.contains_key(var) {
                annotations[var.0 as usize].visit_dims(&mut |dim| mention(dim, &mut dims));
            }
        }
        dims.retain(|name| nested.around.contains(name));
        let changed = vars != nested.vars || dims != nested.dims;
        let nested = self.nested.get_mut(&var).expect("invariant: it was just there");
        (nested.vars, nested.dims) = (vars, dims);
        changed
    }

    /// Whether a nested function may come to call itself.
    pub(super) fn is_recursive(&self, var: VarId) -> bool {
        let mut seen = BTreeSet::new();
        let mut work: Vec<VarId> = self.nested[&var].calls.iter().copied().collect();
        while let Some(called) = work.pop() {
            if called == var {
                return true;
            }
            if seen.insert(called) {
                work.extend(&self.nested[&called].calls);
            }
        }
        false
    }
}

fn mention(dim: &Dim, names: &mut BTreeSet<Name>) {
    dim.visit_vars(&mut |name| {
        if !name.starts_with(OWN) {
            names.insert(name.clone());
        }
    });
}

fn bound_by_params(function: &Function, lambda: &Lambda, bound: &mut BTreeSet<Name>) {
    lambda.params.iter().for_each(|&param| lone(function.param_annotation(param), bound));
}
