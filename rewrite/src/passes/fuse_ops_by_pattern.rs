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
use relax_semantics::ops::lookup;
use relax_semantics::ops::traps::calls::deduced;
use relax_semantics::tir::ranges::assume_declared;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Facts};
use relax_syntax::ir::{Atom, AttrValue, Binding, Callee, Expr, Function, Module, attr};
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
        let mut types = annotations.clone();
        let mut around = Around { function, annotations, traps: &mut traps, facts: &mut *facts };
        for_each_block(body, &mut |block| {
            let mut gone = BTreeSet::new();
            for matched in find(&rules, block, &mut around) {
                let members = matched.members.iter().map(|&at| block.bindings[at].clone());
                let members: Vec<Binding> = members.collect();
                if !stands_alone(&members, annotations, &mut types, around.facts) {
                    continue;
                }
                let call = outline.group(label(&matched), members);
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

/// Whether the annotations of operands are all that the result's needs: what the function around has learned, as that two dims
/// are equal, a function of the members alone does not know.
/// `types` are the annotations around, and are so again afterwards.
fn stands_alone(
    members: &[Binding],
    annotations: &[Annotation],
    types: &mut [Annotation],
    facts: &mut dyn Facts,
) -> bool {
    let stands = members.iter().all(|member| {
        let Expr::Call { callee: Callee::Operator(name), args, attrs } = &member.expr else {
            return false;
        };
        let Some(row) = lookup(name) else { return false };
        let at = member.var.0 as usize;
        match deduced(row, (args, attrs), types, facts) {
            Some((found, false)) => {
                let is_same = same_dims(&found, &annotations[at], facts);
                types[at] = found;
                is_same
            }
            _ => false,
        }
    });
    for at in members.iter().map(|member| member.var.0 as usize) {
        types[at].clone_from(&annotations[at]);
    }
    stands
}

fn same_dims(a: &Annotation, b: &Annotation, facts: &mut dyn Facts) -> bool {
    let dims = |of: &Annotation| of.dims().map(<[Dim]>::to_vec);
    let (Some(a), Some(b)) = (dims(a), dims(b)) else { return a == b };
    a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| facts.equal(a, b) == Answer::Proved)
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
