//! A function with the bodies of other functions in place of their calls.

use crate::pass::{Pass, Settings};
use crate::passes::{
    canonicalize_bindings, eliminate_dead_code, inline_private_functions as inline,
};
use crate::pipeline::{Failed, Route, Unwatched, run};
use relax_syntax::facts::Facts;
use relax_syntax::ir::references::references;
use relax_syntax::ir::{AttrValue, Definition, Function, Module};

/// How many bindings the functions of a module may have in all. Bodies that call others twice double with each level.
const MOST_BINDINGS: usize = 20_000;

/// The module as layouts are chosen for a function of it: a straight line of operators, and nothing that it does not use. Where the
/// function calls no other one, the module is as it was.
///
/// # Errors
/// Where a pass refuses the module.
pub fn inlined(module: &Module, entry: &str, facts: &mut dyn Facts) -> Result<Module, Failed> {
    match with_calls_inlined(module, entry, facts)? {
        Some(made) => apply(&made, vec![&eliminate_dead_code::PASS], facts),
        None => Ok(module.clone()),
    }
}

/// The module with calls inlined where the arguments are proved to fit, level after level, in all functions until one calls no
/// other, or they would grow too much. The others are private then. `None` where it calls none.
///
/// # Errors
/// Where a pass refuses the module.
pub fn with_calls_inlined(
    module: &Module,
    entry: &str,
    facts: &mut dyn Facts,
) -> Result<Option<Module>, Failed> {
    if !calls_functions(module, entry) {
        return Ok(None);
    }
    let mut result = module.clone();
    for definition in &mut result.definitions {
        if let Definition::Graph(function) = definition
            && function.name != *entry
        {
            make_private(function);
        }
    }
    let most = MOST_BINDINGS.max(bindings(module));
    // A chain of calls is no longer than there are functions. What calls itself stays, and then nothing changes any more.
    for _ in module.functions() {
        let next = apply(&result, vec![&inline::PASS, &canonicalize_bindings::PASS], facts)?;
        if next == result || bindings(&next) > most {
            break;
        }
        result = next;
        if !calls_functions(&result, entry) {
            break;
        }
    }
    Ok(Some(result))
}

fn apply(
    module: &Module,
    passes: Vec<&'static Pass>,
    facts: &mut dyn Facts,
) -> Result<Module, Failed> {
    run(module, &Route::Passes(passes), &Settings::default(), facts, &mut Unwatched)
}

fn bindings(module: &Module) -> usize {
    let bodies = module.functions().filter_map(|function| function.lambda.body.as_ref());
    bodies.map(|body| body.bindings().count()).sum()
}

fn make_private(function: &mut Function) {
    function.lambda.attrs.retain(|(key, _)| key != "private");
    function.lambda.attrs.push(("private".into(), AttrValue::Bool(true)));
}

fn calls_functions(module: &Module, name: &str) -> bool {
    let called = module.function(name).map(|function| references(function).called);
    called.is_some_and(|called| called.iter().any(|called| module.function(called).is_some()))
}
