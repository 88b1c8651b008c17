//! What a program goes through before it is rewritten by rules, and after.

use crate::pass::{Pass, Settings};
use crate::passes::saturate::PREPARATION;
use crate::passes::{canonicalize_bindings, eliminate_dead_code, lift_lambdas, normalize};
use crate::pipeline::{Failed, Route, Unwatched, run};
use relax_semantics::check::{Checked, Phase, check};
use relax_syntax::facts::Facts;
use relax_syntax::ir::Module;

/// What makes a text one of operators on names; [`PREPARATION`] goes on.
const INGESTION: [&Pass; 2] = [&lift_lambdas::PASS, &normalize::PASS];
/// What takes away names that are left over.
const AFTER: [&Pass; 2] = [&canonicalize_bindings::PASS, &eliminate_dead_code::PASS];

/// The program as rules take it.
///
/// # Errors
/// A pass refuses the program, or is wrong.
pub fn prepared(module: &Module, facts: &mut dyn Facts) -> Result<Checked, Failed> {
    let route = Route::Passes([&INGESTION, PREPARATION].concat());
    let module = run(module, &route, &Settings::default(), facts, &mut Unwatched)?;
    Ok(check(&module, facts, Phase::P0))
}

/// The rewritten program without what the rules left unused.
///
/// # Errors
/// A pass refuses the program, or is wrong.
pub fn tidied(module: &Module, facts: &mut dyn Facts) -> Result<Module, Failed> {
    let route = Route::Passes(AFTER.to_vec());
    run(module, &route, &Settings::default(), facts, &mut Unwatched)
}
