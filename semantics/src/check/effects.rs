//! Which functions have an effect: those that say so, and those that do something that has one.

use crate::ops::{Effect, Family, called_by_name, lookup};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::{
    Atom, AttrValue, Body, Callee, Expr, Function, Lambda, Module, VarId, attr,
};
use std::collections::{BTreeMap, BTreeSet};

/// The functions of a module that have an effect.
#[derive(Debug, Default)]
pub(super) struct Effects {
    impure: BTreeSet<Name>,
}

/// What a body does.
#[derive(Debug, Default)]
struct Doings {
    /// It does something that has an effect.
    effect: bool,
    /// It calls a function value of which nothing is known.
    unknown: bool,
    /// Functions of the module that it calls.
    globals: BTreeSet<Name>,
    /// Closures whose bodies have been looked at.
    seen: BTreeSet<VarId>,
    /// Storages that it allocates, and tensors in storages.
    own: BTreeSet<VarId>,
}

impl Effects {
    /// Finds them: an effect spreads from callees to callers.
    pub(super) fn of(module: &Module) -> Self {
        let mut callers: BTreeMap<Name, Vec<Name>> = BTreeMap::new();
        let mut work = Vec::new();
        for function in module.functions() {
            let mut doings = Doings::default();
            doings.lambda(function, &function.lambda, &closures(function));
            if is_declared(&function.lambda, "impure")
                || doings.effect
                || (doings.unknown && !is_declared(&function.lambda, "pure"))
            {
                work.push(function.name.clone());
            }
            for callee in doings.globals {
                callers.entry(callee).or_default().push(function.name.clone());
            }
        }
        let mut impure = BTreeSet::new();
        while let Some(name) = work.pop() {
            if impure.insert(name.clone()) {
                work.extend(callers.get(&name).into_iter().flatten().cloned());
            }
        }
        Self { impure }
    }

    /// Whether calling a function of the module has an effect.
    pub(super) fn has_effect(&self, name: &Name) -> bool {
        self.impure.contains(name)
    }

    /// Those that have one.
    pub(super) fn into_impure(self) -> BTreeSet<Name> {
        self.impure
    }

    /// Whether calling a closure of a function has an effect.
    pub(super) fn closure_has_effect(&self, function: &Function, lambda: &Lambda) -> bool {
        let mut doings = Doings::default();
        doings.lambda(function, lambda, &closures(function));
        is_declared(lambda, "impure")
            || doings.effect
            || (doings.unknown && !is_declared(lambda, "pure"))
            || doings.globals.iter().any(|name| self.has_effect(name))
    }
}

/// Whether `func_attr("purity", what)` is given.
pub(super) fn is_declared(lambda: &Lambda, what: &str) -> bool {
    matches!(attr(&lambda.attrs, "purity"), Some(AttrValue::Str(text)) if text == what)
}

type Closures<'f> = BTreeMap<VarId, &'f Lambda>;

/// Every closure of a function.
fn closures(function: &Function) -> Closures<'_> {
    fn visit<'f>(body: &'f Body, found: &mut Closures<'f>) {
        for binding in body.bindings() {
            match &binding.expr {
                Expr::If { then, otherwise, .. } => {
                    visit(then, found);
                    visit(otherwise, found);
                }
                Expr::Closure(lambda) => {
                    found.insert(binding.var, lambda);
                    if let Some(body) = &lambda.body {
                        visit(body, found);
                    }
                }
                _ => {}
            }
        }
    }
    let mut found = Closures::new();
    if let Some(body) = &function.lambda.body {
        visit(body, &mut found);
    }
    found
}

impl Doings {
    fn lambda(&mut self, function: &Function, lambda: &Lambda, closures: &Closures) {
        if let Some(body) = &lambda.body {
            self.body(function, body, closures);
        }
    }

    /// A closure counts where it is called, not where it is made.
    fn body(&mut self, function: &Function, body: &Body, closures: &Closures) {
        for binding in body.bindings() {
            match &binding.expr {
                Expr::If { then, otherwise, .. } => {
                    self.body(function, then, closures);
                    self.body(function, otherwise, closures);
                }
                Expr::Call { callee: Callee::Operator(name), args, .. } => {
                    self.operator(binding.var, name, args);
                }
                Expr::Call { callee, .. } => self.call(function, callee, closures),
                // A part of what it took for itself.
                Expr::Get(Atom::Var(whole), _) if self.own.contains(whole) => {
                    self.own.insert(binding.var);
                }
                _ => {}
            }
        }
    }

    fn operator(&mut self, var: VarId, name: &Name, args: &[Atom]) {
        let Some(row) = lookup(name) else { return };
        let row = called_by_name(row, args.first()).unwrap_or(row);
        // The heap of a function is its own as well.
        if row.family == Family::Builtins {
            return;
        }
        if row.family != Family::Memory {
            self.effect |= row.effect == Effect::Impure;
            return;
        }
        // What a graph does is what its function does.
        if let (
            "builtin.cuda_graph_get_cached_alloc" | "builtin.cuda_graph_run_or_capture",
            Some(Atom::Global(function)),
        ) = (row.name, args.first())
        {
            self.globals.insert(function.clone());
            self.own.insert(var);
            return;
        }
        // Memory that a function takes for itself nobody else sees, its release neither.
        let releases_own = matches!(args.first(), Some(Atom::Var(var)) if self.own.contains(var));
        self.effect |= row.effect == Effect::Impure && !releases_own;
        self.own.insert(var);
    }

    fn call(&mut self, function: &Function, callee: &Callee, closures: &Closures) {
        match callee {
            Callee::Operator(_) => {}
            Callee::Global(name) => {
                self.globals.insert(name.clone());
            }
            Callee::Var(var) => match (closures.get(var), &function.var(*var).annotation) {
                (Some(lambda), _) => {
                    if self.seen.insert(*var) {
                        self.effect |= is_declared(lambda, "impure");
                        self.lambda(function, lambda, closures);
                    }
                }
                (None, Some(Annotation::Callable(Some(signature)))) => {
                    self.effect |= !signature.pure;
                }
                _ => self.unknown = true,
            },
        }
    }
}
