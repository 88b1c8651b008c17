//! A function as layouts are chosen for it: a straight line of operators, with the bodies of other functions in place of their calls.

use relax_rewrite::pass::Settings;
use relax_rewrite::passes::{
    canonicalize_bindings, eliminate_dead_code, inline_private_functions as inline,
};
use relax_rewrite::pipeline::{Failed, Route, Unwatched, run};
use relax_symbolic::Prover;
use relax_syntax::ir::references::references;
use relax_syntax::ir::{AttrValue, Definition, Function, Module};

/// The module with calls in a function inlined where the arguments are proved to fit, level after level. Where the function calls
/// no other one, the module is as it was.
///
/// # Errors
/// Where a pass refuses the module.
pub fn inlined(module: &Module, entry: &str) -> Result<Module, Failed> {
    if !calls_functions(module, entry) {
        return Ok(module.clone());
    }
    let mut result = module.clone();
    for definition in &mut result.definitions {
        if let Definition::Graph(function) = definition
            && function.name != *entry
        {
            make_private(function);
        }
    }
    let pass = |module: &Module, passes| {
        let route = Route::Passes(passes);
        run(module, &route, &Settings::default(), &mut Prover::new(), &mut Unwatched)
    };
    // A chain of calls is no longer than there are functions, as what calls itself stays.
    for _ in module.functions() {
        result = pass(&result, vec![&inline::PASS, &canonicalize_bindings::PASS])?;
        if !calls_functions(&result, entry) {
            break;
        }
    }
    pass(&result, vec![&eliminate_dead_code::PASS])
}

fn make_private(function: &mut Function) {
    function.lambda.attrs.retain(|(key, _)| key != "private");
    function.lambda.attrs.push(("private".into(), AttrValue::Bool(true)));
}

fn calls_functions(module: &Module, name: &str) -> bool {
    let called = module.function(name).map(|function| references(function).called);
    called.is_some_and(|called| called.iter().any(|called| module.function(called).is_some()))
}
