//! Regions of calls get the form that rules of `proofs/theorems/` and the prover show to be cheaper for all dims.
//!
//! The engine is [`crate::saturation`]. There are two records, since how near results are is a property of a pass:
//! `saturate` uses rules that keep every bit, `saturate_reals` also those that hold of real numbers.

use crate::pass::{Exactness, Pass, PassContext};
use crate::passes::{canonicalize_bindings, eliminate_broadcasts, eliminate_dead_code};
use crate::saturation::{Extraction, RuleKind, saturate_module, version_module};
use relax_semantics::check::Phase;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::Module;

/// What brings a program of P0 into the form that rules are about: broadcasts that operators do by themselves are left
/// to them.
pub static PREPARATION: &[&Pass] =
    &[&eliminate_broadcasts::PASS, &canonicalize_bindings::PASS, &eliminate_dead_code::PASS];

/// The record.
pub static PASS: Pass = Pass {
    name: "saturate",
    doc: "Rewrites calls by rules that are proved to keep every bit, where that is proved to cost no more \
          for all dims.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run: run_exact,
};

/// The record of the approximate one.
pub static REALS: Pass = Pass {
    name: "saturate_reals",
    doc: "As saturate, also by rules that hold of real numbers: floats are rounded elsewhere.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Reals,
    run: run_approximate,
};

/// The record of versions.
pub static VERSIONS: Pass = Pass {
    name: "add_versions",
    doc: "Gives a function versions behind comparisons of dims where it depends on dims which form of its \
          calls is cheap.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run: add_exact,
};

/// The record of approximate versions.
pub static VERSIONS_OF_REALS: Pass = Pass {
    name: "add_versions_reals",
    doc: "As add_versions, also by rules that hold of real numbers: floats are rounded elsewhere.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Reals,
    run: add_approximate,
};

fn add_exact(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    add(module, context, RuleKind::Exact)
}

fn add_approximate(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    add(module, context, RuleKind::Approximate)
}

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn add(_: &Module, context: &mut PassContext, kind: RuleKind) -> Result<Module, Diagnostic> {
    let options = &context.settings.saturation;
    let (result, report) = version_module(context.checked, context.facts, None, options, kind);
    let versions = report.versions.iter().map(|function| function.versions.len()).sum();
    context.count("made", versions, "versions");
    context.count("of", report.versions.len(), "functions");
    context.rewrite(report);
    Ok(result)
}

fn run_exact(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    run(module, context, RuleKind::Exact)
}

fn run_approximate(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    run(module, context, RuleKind::Approximate)
}

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(_: &Module, context: &mut PassContext, kind: RuleKind) -> Result<Module, Diagnostic> {
    let options = &context.settings.saturation;
    let extraction = if options.explain { Extraction::Explained } else { Extraction::Cheapest };
    let (result, report) =
        saturate_module(context.checked, context.facts, options, kind, extraction);
    context.count_of("rewrote", report.rewritten, report.regions, "regions");
    context.count("saturated", report.saturated, "of them");
    context.rewrite(report);
    Ok(result)
}
