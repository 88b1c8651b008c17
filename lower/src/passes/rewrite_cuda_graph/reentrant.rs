//! Functions that may be called again before they end: what they take once would serve two calls at a
//! time.

use relax_rewrite::references::references;
use relax_semantics::ops::lookup;
use relax_syntax::Name;
use relax_syntax::ir::{Body, Callee, Expr, Module};
use std::collections::{BTreeMap, BTreeSet};

/// All of them. A function that calls what it was given may call any.
pub(super) fn reentrant(module: &Module) -> BTreeSet<Name> {
    let all: BTreeSet<Name> = module.functions().map(|function| function.name.clone()).collect();
    let mut reached: BTreeMap<Name, BTreeSet<Name>> = BTreeMap::new();
    for function in module.functions() {
        let found = references(function);
        let mentioned = found.called.into_iter().chain(found.held);
        let unknown = function.lambda.body.as_ref().is_some_and(calls_a_value);
        let callees = if unknown { all.clone() } else { mentioned.collect() };
        reached.insert(function.name.clone(), callees);
    }
    all.into_iter().filter(|name| reaches_itself(name, &reached)).collect()
}

fn reaches_itself(name: &Name, callees: &BTreeMap<Name, BTreeSet<Name>>) -> bool {
    let (mut seen, mut work) = (BTreeSet::new(), vec![name]);
    while let Some(at) = work.pop() {
        for callee in callees.get(at).into_iter().flatten() {
            if callee == name {
                return true;
            }
            if seen.insert(callee) {
                work.push(callee);
            }
        }
    }
    false
}

/// Whether a body calls a variable, or a closure through an operator.
fn calls_a_value(body: &Body) -> bool {
    body.bindings().any(|binding| match &binding.expr {
        Expr::Call { callee: Callee::Var(_), .. } => true,
        Expr::Call { callee: Callee::Operator(name), .. } => lookup(name)
            .is_none_or(|row| matches!(row.name, "invoke_closure" | "invoke_pure_closure")),
        Expr::If { then, otherwise, .. } => calls_a_value(then) || calls_a_value(otherwise),
        Expr::Closure(_) => true,
        _ => false,
    })
}
