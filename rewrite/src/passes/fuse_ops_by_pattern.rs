//! What matches a registered pattern becomes a private function that is marked with the name of the
//! pattern: a composite function, which `run_codegen` hands to whoever computes it.
//!
//! The functions are of the module, not nested ones: from P0 on there are none.

use crate::blocks::take_out;
use crate::matching::find::{Around, Match, find};
use crate::matching::registry::registry;
use crate::outline::{Label, Made, Outline};
use crate::pass::{Exactness, Pass, PassContext};
use crate::programs::ranges::assume_declared;
use crate::totality::Totality;
use relax_semantics::check::Phase;
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{Atom, AttrValue, Definition, Function, Module, attr};
use std::collections::BTreeSet;

/// The record.
pub static PASS: Pass = Pass {
    name: "fuse_ops_by_pattern",
    doc: "Makes a private function, marked composite, of what matches a registered pattern.",
    from: Phase::P0,
    to: Phase::P0,
    exactness: Exactness::Exact,
    run,
};

/// The name of the pattern that a function computes.
pub(super) const COMPOSITE: &str = "composite";
/// Whoever generates the code of a function: what stands before the dot in the name of a pattern.
pub(super) const CODEGEN: &str = "codegen";

fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let rules = registry(module, context.settings)?;
    let mut totality = Totality::new(module, context.checked);
    let names = module.definitions.iter().map(|definition| definition.name().clone());
    let mut made = Made::new(names.collect());
    let mut definitions = Vec::new();
    let (mut matches, mut functions) = (0, 0);
    for definition in &module.definitions {
        let Definition::Graph(function) = definition else {
            definitions.push(definition.clone());
            continue;
        };
        let mut rebuilt = function.clone();
        let annotations = &context.checked.annotations[&function.name];
        let mut outline = Outline::new(function, annotations, &mut made);
        context.facts.push();
        assume_declared(context.facts, &function.dims);
        let facts = &mut *context.facts;
        let mut around = Around { function, annotations, totality: &mut totality, facts };
        if let Some(body) = rebuilt.lambda.body.as_mut().filter(|_| !is_marked(function)) {
            super::map_blocks(body, &mut |block| {
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
        }
        context.facts.pop();
        functions += outline.functions.len();
        definitions.push(Definition::Graph(rebuilt));
        definitions.extend(outline.functions.into_iter().map(Definition::Graph));
    }
    context.count("matched", matches, "patterns");
    context.count("made", functions, "composite functions");
    Ok(Module { attrs: module.attrs.clone(), definitions })
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
