//! Composite functions are handed to their code generators. Here there is one kind of those: a library
//! that has a function of the pattern's name, which is called in the place of the composite function. What
//! no library has stays a function, and runs as what it is made of.

use super::fuse_ops_by_pattern::COMPOSITE;
use super::lower_to_library::library_call_to;
use crate::blocks::for_each_block;
use crate::matching::find::{Around, find};
use crate::matching::registry::registry;
use crate::matching::text::Rule;
use crate::pass::{Exactness, Pass, PassContext};
use crate::references::drop_replaced;
use crate::trap_free::TrapAnalysis;
use crate::verify::is_private;
use relax_semantics::check::Phase;
use relax_semantics::library::function as library_function;
use relax_semantics::tir::ranges::assume_declared;
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{Atom, AttrValue, Body, Callee, Expr, Function, Module, VarId, attr};
use std::collections::BTreeMap;

/// The record.
pub static PASS: Pass = Pass {
    name: "run_codegen",
    doc: "Calls a library function in the place of each composite function whose pattern a library \
          computes.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

/// A composite function as a library function: which of its parameters each operand is.
struct Backend {
    function: Name,
    operands: Vec<usize>,
}

fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let rules = registry(module, context.settings)?;
    let mut traps = TrapAnalysis::new(module, context.checked);
    let (mut found, mut backends) = (0, BTreeMap::new());
    for function in module.functions() {
        let Some(AttrValue::Str(pattern)) = attr(&function.lambda.attrs, COMPOSITE) else {
            continue;
        };
        found += 1;
        let own = rules.iter().filter(|rule| rule.function == *pattern).cloned();
        let own: Vec<Rule> = own.collect();
        let annotations = &context.checked.annotations[&function.name];
        context.facts.push();
        assume_declared(context.facts, &function.dims);
        let facts = &mut *context.facts;
        let mut around = Around { function, annotations, traps: &mut traps, facts };
        if let Some(backend) = backend(function, &own, &mut around) {
            backends.insert(function.name.clone(), backend);
        }
        context.facts.pop();
    }
    let mut calls = 0;
    let checked = context.checked;
    let mut result = super::map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        let annotations = &checked.annotations[&function.name];
        let body = rebuilt.lambda.body.as_mut().expect("invariant: only such are mapped");
        for_each_block(body, &mut |block| {
            for binding in &mut block.bindings {
                let out = &annotations[binding.var.0 as usize];
                let Expr::Call { callee: Callee::Global(name), args, .. } = &binding.expr else {
                    continue;
                };
                let Some(backend) = backends.get(name) else { continue };
                let operands = backend.operands.iter().map(|&at| args.get(at).cloned()).collect();
                let call = Option::<Vec<Atom>>::and_then(operands, |operands| {
                    library_call_to(&backend.function, operands, out)
                });
                if let Some(call) = call {
                    binding.expr = call;
                    calls += 1;
                }
            }
        });
        rebuilt
    });
    drop_replaced(&mut result, &backends.keys().cloned().collect());
    context.count_of("offloaded", backends.len(), found, "composite functions");
    context.count("made", calls, "library calls");
    Ok(result)
}

/// The library function of a composite one, whose body the pattern matches as a whole.
fn backend(function: &Function, rules: &[Rule], around: &mut Around) -> Option<Backend> {
    let pattern = &rules.first()?.function;
    if library_function(pattern).is_none() || !is_private(function) {
        return None;
    }
    let Body { blocks, result } = function.lambda.body.as_ref()?;
    let [block] = blocks.as_slice() else { return None };
    let found = find(rules, block, around);
    let [matched] = found.as_slice() else { return None };
    let (last, _) = matched.places();
    let whole = matched.members.len() == block.bindings.len()
        && *result == Atom::Var(block.bindings[last].var);
    let position = |atom: &Atom| match atom {
        Atom::Var(var) => function.lambda.params.iter().position(|param: &VarId| param == var),
        _ => None,
    };
    let operands = matched.operands.iter().map(position).collect::<Option<_>>()?;
    whole.then(|| Backend { function: pattern.clone(), operands })
}
