//! A function whose operators have a value for some dims only gets a version for those dims: there the constraints
//! are proved, so its calls become tensor programs and fuse like any others. For all other dims the function as it was
//! says which constraint fails, or goes on where another guard would have done (BladeDISC §4.1 has constraints as facts;
//! a guard makes facts of what nobody declared).
//!
//! A guard is what a signature can declare: two dims are one, or a dim has a bound or a divisor. A claim that is none of
//! these, such as `3 <= (h - 1) // 2 + 3`, is asked for the bound of its only variable that decides it: sizes give
//! the bound, the prover shows that it is enough.

use crate::guarded::version::{OTHERWISE, Version, declarable};
use crate::names::Names;
use crate::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::{Checked, Phase, check};
use relax_semantics::ops::{Family, Operator, lookup};
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{AttrValue, Body, Callee, Definition, Expr, Function, Module, VarId, attr};
use std::collections::{BTreeMap, BTreeSet};

/// The record.
pub static PASS: Pass = Pass {
    name: "guard_constraints",
    doc: "Gives a function whose operators' constraints hold for some dims only a version for those dims, \
          behind comparisons of dims.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut names = Names::of(module);
    let mut versions: BTreeMap<Name, Closed> = BTreeMap::new();
    let mut tried = module.clone();
    let mut found = 0;
    for function in module.functions() {
        let open = open_calls(context.checked, function);
        found += usize::from(!open.is_empty());
        let Some(mut closed) = Closed::of(function, open, context) else { continue };
        let special = &mut closed.version.special;
        special.name = names.numbered_from_one(&function.name);
        tried.definitions.push(Definition::Graph(special.clone()));
        versions.insert(function.name.clone(), closed);
    }
    if !versions.is_empty() {
        let checked = check(&tried, context.facts, Phase::P0);
        versions.retain(|_, closed| closed.leaves_less(&checked));
    }
    context.count_of("guarded", versions.len(), found, "functions");
    let mut definitions = Vec::with_capacity(module.definitions.len());
    for definition in &module.definitions {
        match (definition, versions.remove(definition.name())) {
            (Definition::Graph(function), Some(closed)) => {
                let otherwise = AttrValue::Bool(true);
                let made = closed.version.beside(function, otherwise, &mut names);
                definitions.extend(made.map(Definition::Graph));
            }
            _ => definitions.push(definition.clone()),
        }
    }
    Ok(Module { attrs: module.attrs.clone(), definitions })
}

/// The calls of operators with kernels of which a constraint is left to run time.
fn open_calls(checked: &Checked, function: &Function) -> BTreeSet<VarId> {
    let mut open = BTreeSet::new();
    if let Some(body) = &function.lambda.body {
        calls(body, &checked.left_in(&function.name).vars, &mut open);
    }
    open
}

/// A collective in one process moves elements, behind a check: that is not worth a second function.
fn gets_versions(row: &'static Operator) -> bool {
    row.program.are_some() && row.family != Family::Distributed
}

fn calls(body: &Body, left: &BTreeSet<VarId>, open: &mut BTreeSet<VarId>) {
    for binding in body.bindings() {
        match &binding.expr {
            Expr::If { then, otherwise, .. } => {
                calls(then, left, open);
                calls(otherwise, left, open);
            }
            Expr::Call { callee: Callee::Operator(name), .. }
                if left.contains(&binding.var) && lookup(name).is_some_and(gets_versions) =>
            {
                open.insert(binding.var);
            }
            _ => {}
        }
    }
}

/// A function for some dims only, in which fewer calls are open.
struct Closed {
    version: Version,
    /// The calls that are open in the function that it is of.
    open: BTreeSet<VarId>,
}

impl Closed {
    /// `None` where nothing that a signature can declare would close one of the calls.
    fn of(function: &Function, open: BTreeSet<VarId>, context: &mut PassContext) -> Option<Self> {
        let otherwise = attr(&function.lambda.attrs, OTHERWISE);
        if open.is_empty() || matches!(otherwise, Some(AttrValue::Bool(true))) {
            return None;
        }
        let mut guard = Vec::new();
        for left in &context.checked.obligations {
            let is_open = left.var.is_some_and(|var| open.contains(&var));
            if left.function != function.name || !is_open {
                continue;
            }
            let claim = left.claim.as_ref();
            guard.extend(claim.and_then(|claim| declarable(function, claim, context.facts)));
        }
        let version = Version::of(function, guard, context.checked)?;
        Some(Self { version, open })
    }

    /// Whether fewer calls are open in the version.
    fn leaves_less(&self, checked: &Checked) -> bool {
        checked.is_ok() && open_calls(checked, &self.version.special).len() < self.open.len()
    }
}
