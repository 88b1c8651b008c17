//! A `match_cast` that never fails becomes another name of its value, which keeps the annotation.
//! The check of the module has asked the prover, at the place of the cast, with what holds there.

use super::map_functions;
use crate::pass::{Exactness, Pass, PassContext};
use crate::substitute::{Check, Resolved, resolve_casts};
use relax_semantics::check::{Cast, Phase, check};
use relax_syntax::Name;
use relax_syntax::diagnostic::{Diagnostic, Severity};
use relax_syntax::dim::evaluation::evaluates_when_it_fits;
use relax_syntax::ir::{Function, Module, VarId};
use std::collections::{BTreeMap, BTreeSet};

/// The record.
pub static PASS: Pass = Pass {
    name: "eliminate_checks",
    doc: "Turns each match_cast that is proved for all dims into another name of its value; \
          variables that it binds are replaced by the dims that they equal.",
    from: Phase::P0,
    to: Phase::P1,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

type Casts = BTreeMap<Name, BTreeMap<VarId, Resolved>>;

fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let found = context.checked.casts.len();
    let mut casts = proved(&context.checked.casts);
    if casts.is_empty() {
        context.count_of("eliminated", 0, found, "checks");
        return Ok(module.clone());
    }
    let mut result = resolved(module, &casts);
    // A cast also says that its dims are not negative. Where that was needed, it stays.
    let needed = functions_with_errors(&result, context);
    if !needed.is_empty() {
        casts.retain(|function, _| !needed.contains(function));
        result = resolved(module, &casts);
    }
    let eliminated = casts.values().map(BTreeMap::len).sum();
    context.count_of("eliminated", eliminated, found, "checks");
    Ok(result)
}

fn proved(casts: &[Cast]) -> Casts {
    let mut proved = Casts::new();
    for cast in casts {
        if cast.proved && cast.binds.values().all(evaluates_when_it_fits) {
            let resolved = Resolved { binds: cast.binds.clone(), check: Check::Drop };
            proved.entry(cast.function.clone()).or_default().insert(cast.var, resolved);
        }
    }
    proved
}

fn resolved(module: &Module, casts: &Casts) -> Module {
    map_functions(module, &mut |function| {
        let mut function = function.clone();
        if let Some(casts) = casts.get(&function.name) {
            resolve_casts(&mut function, casts);
        }
        function
    })
}

/// The functions in which something is not decided, or wrong, that was fine before.
pub(super) fn functions_with_errors(module: &Module, context: &mut PassContext) -> BTreeSet<Name> {
    let checked = check(module, context.facts, Phase::P0);
    let errors = checked.diagnostics.iter().filter(|d| d.severity == Severity::Error);
    let places: BTreeSet<_> = errors.map(|error| error.primary.span).collect();
    if places.is_empty() {
        return BTreeSet::new();
    }
    let has_one = |function: &&Function| {
        let vars = function.vars.iter().map(|info| info.span);
        vars.chain([function.span]).any(|span| places.contains(&span))
    };
    module.functions().filter(has_one).map(|function| function.name.clone()).collect()
}
