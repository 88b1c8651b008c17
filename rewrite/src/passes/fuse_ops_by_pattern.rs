//! What matches a registered pattern becomes a private function that is marked with the name of the
//! pattern: a composite function, which `run_codegen` hands to whoever computes it.
//!
//! The functions are of the module, not nested ones: from P0 on there are none.

use crate::blocks::{for_each_block, take_out};
use crate::matching::find::{Around, Match, find};
use crate::matching::registry::registry;
use crate::outline::{Label, outlined};
use crate::pass::{Exactness, Pass, PassContext};
use crate::trap_free::TrapAnalysis;
use relax_semantics::check::Phase;
use relax_semantics::tir::ranges::assume_declared;
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{Atom, AttrValue, Function, Module, attr};
use std::collections::BTreeSet;

/// The record.
pub static PASS: Pass = Pass {
    name: "fuse_ops_by_pattern",
    doc: "Makes a private function, marked composite, of what matches a registered pattern.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

/// The name of the pattern that a function computes.
pub const COMPOSITE: &str = "composite";
/// Whoever generates the code of a function: what stands before the dot in the name of a pattern.
pub(super) const CODEGEN: &str = "codegen";

fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let rules = registry(module, context.settings)?;
    let mut traps = TrapAnalysis::new(module, context.checked);
    let (checked, mut matches) = (context.checked, 0);
    let facts = &mut *context.facts;
    let (result, functions) = outlined(module, checked, &mut |function, rebuilt, outline| {
        if is_marked(function) {
            return;
        }
        let Some(body) = &mut rebuilt.lambda.body else { return };
        facts.push();
        assume_declared(facts, &function.dims);
        let annotations = &checked.annotations[&function.name];
        let mut around = Around { function, annotations, traps: &mut traps, facts: &mut *facts };
        for_each_block(body, &mut |block| {
            let mut gone = BTreeSet::new();
            for matched in find(&rules, block, &mut around) {
                let members = matched.members.iter().map(|&at| block.bindings[at].clone());
                let call = outline.group(label(&matched), members.collect());
                let (last, others) = matched.places();
                block.bindings[last] = call;
                gone.extend(others);
                matches += 1;
            }
            take_out(block, &gone);
        });
        facts.pop();
    });
    context.count("matched", matches, "patterns");
    context.count("made", functions, "composite functions");
    Ok(result)
}

/// The parameters are the operands in the order of the pattern, so that its functions are alike.
fn label(matched: &Match) -> Label {
    let pattern = &matched.function;
    let vars = matched.operands.iter().filter_map(|operand| match operand {
        Atom::Var(var) => Some(*var),
        _ => None,
    });
    let codegen = pattern.split('.').next().unwrap_or(pattern);
    let text = |text: &str| AttrValue::Str(Name::new(text));
    let marks = vec![(Name::new(COMPOSITE), text(pattern)), (Name::new(CODEGEN), text(codegen))];
    Label { name: format!("fused_{}", pattern.replace('.', "_")), marks, first: vars.collect() }
}

/// What is a composite function already is not looked into.
fn is_marked(function: &Function) -> bool {
    attr(&function.lambda.attrs, COMPOSITE).is_some()
}
