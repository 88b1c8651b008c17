//! Nested functions become private functions of the module; what they see around them they get as
//! parameters, symbolic variables by the dims of these parameters or as a shape.
//!
//! A call of a nested function becomes a call of the lifted one. Where it is used as a value, that is
//! `make_closure`, which gives the last parameters; elsewhere what was captured comes first, so that
//! symbolic variables have their values before the arguments are compared with them, as before.

mod captures;
mod lifted;

use crate::in_place::dps_arguments;
use crate::names::Names;
use crate::pass::{Exactness, Pass, PassContext};
use captures::Captures;
use lifted::Lifting;
use relax_semantics::check::{Phase, check};
use relax_syntax::Name;
use relax_syntax::diagnostic::{Diagnostic, Severity};
use relax_syntax::ir::{Definition, Function, Module, VarId};
use std::collections::BTreeMap;

/// The record.
pub static PASS: Pass = Pass {
    name: "lift_lambdas",
    doc: "Moves nested functions to the top level, with what they capture as parameters.",
    from: Phase::Surface,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

/// The code of the check for nested functions that are left.
const NESTED_FUNCTION: &str = "RX0303";

fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut result = Module { attrs: module.attrs.clone(), definitions: Vec::new() };
    let mut free = Names::of(module);
    let (mut lifted, mut values) = (0, 0);
    for definition in &module.definitions {
        let Definition::Graph(function) = definition else {
            result.definitions.push(definition.clone());
            continue;
        };
        let annotations = &context.checked.annotations[&function.name];
        let captures = Captures::of(function, annotations);
        if captures.nested.is_empty() {
            result.definitions.push(definition.clone());
            continue;
        }
        refuse_mutated(module, function, &captures)?;
        let names = fresh_names(function, &captures, &mut free);
        lifted += names.len();
        values += captures.values.len();
        let lifting = Lifting::new(function, annotations, &captures, names);
        result.definitions.extend(lifting.functions().into_iter().map(Definition::Graph));
    }
    if values > 0 {
        refuse_unknown(module, &result, context)?;
    }
    context.count("lifted", lifted, "nested functions");
    context.count("made", values, "closures of them");
    Ok(result)
}

/// Of a function with captured values no signature is known. Where one was needed, the program cannot
/// do without nested functions.
fn refuse_unknown(
    module: &Module,
    lifted: &Module,
    context: &mut PassContext,
) -> Result<(), Diagnostic> {
    let checked = check(lifted, context.facts, Phase::P0);
    let Some(error) = checked.diagnostics.iter().find(|d| d.severity == Severity::Error) else {
        return Ok(());
    };
    let nested = module.functions().filter_map(|function| {
        let captures = Captures::of(function, &context.checked.annotations[&function.name]);
        let var = captures.values.first().copied()?;
        Some(function.var(var).clone())
    });
    let closure = nested.last().expect("invariant: there are closures that are values");
    let message = format!(
        "`{}` cannot be moved to the top level: as a value with what it captures it has no known \
         signature, and then {}",
        closure.name, error.message
    );
    Err(Diagnostic::error(NESTED_FUNCTION, error.primary.span, message)
        .with_place(closure.span, "made here")
        .with_help("call it where it is made, or cast what its calls give"))
}

/// A nested function sees a variable as it is when the function is made.
fn refuse_mutated(
    module: &Module,
    function: &Function,
    captures: &Captures,
) -> Result<(), Diagnostic> {
    let updated = dps_arguments(module, function);
    for (&var, nested) in &captures.nested {
        if let Some(&written) = nested.vars.intersection(&updated).next() {
            let (name, written) = (&function.var(var).name, function.var(written));
            let message = format!(
                "`{name}` cannot be moved to the top level: `{}`, which it sees, is written to by a \
                 call in destination-passing style",
                written.name
            );
            let span = function.var(var).span;
            return Err(Diagnostic::error(NESTED_FUNCTION, span, message)
                .with_place(written.span, "bound here")
                .with_help("pass it as a parameter"));
        }
    }
    Ok(())
}

/// A name for each nested function that nothing in the module has.
fn fresh_names(
    function: &Function,
    captures: &Captures,
    free: &mut Names,
) -> BTreeMap<VarId, Name> {
    let nested = captures.nested.keys().map(|&var| {
        let base = format!("{}_{}", function.name, function.var(var).name);
        (var, free.fresh(&base))
    });
    nested.collect()
}
