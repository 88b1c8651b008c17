//! Partial library lowering (paper §4.6, Figure 12): what matches a registered pattern becomes a call of
//! the library function that computes it, where the target has that library; all else stays.
//!
//! What is not decided does not match. So a product of `n` rows stays an operator unless `n` is
//! proved to be at least 2: it may be a matrix-vector product, which the compiler's own program
//! does as well or better (§5). A call whose constraints are not all proved stays too, for a library would
//! not stop with the operator's trap.

use crate::blocks::{for_each_block, take_out};
use crate::matching::find::{Around, Match, find};
use crate::matching::registry::registry;
use crate::matching::text::Rule;
use crate::pass::{Exactness, Pass, PassContext};
use crate::trap_free::TrapAnalysis;
use relax_semantics::check::Phase;
use relax_semantics::library::function as library_function;
use relax_semantics::tir::ranges::assume_declared;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::evaluation::evaluates_when_it_fits;
use relax_syntax::ir::{Atom, Block, Callee, Expr, Module};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The record.
pub static PASS: Pass = Pass {
    name: "lower_to_library",
    doc: "Calls library functions of the target for what matches their registered patterns.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut rules = registry(module, context.settings)?;
    rules.retain(has_function);
    let mut traps = TrapAnalysis::new(module, context.checked);
    let (mut calls, mut operators) = (0, 0);
    let (checked, facts) = (context.checked, &mut *context.facts);
    let result = super::map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        let annotations = &checked.annotations[&function.name];
        facts.push();
        assume_declared(facts, &function.dims);
        let mut around = Around { function, annotations, traps: &mut traps, facts };
        let body = rebuilt.lambda.body.as_mut().expect("invariant: only such are mapped");
        for_each_block(body, &mut |block| {
            let mut gone = BTreeSet::new();
            for matched in find(&rules, block, &mut around) {
                let Some(call) = library_call(&matched, block, annotations) else { continue };
                calls += 1;
                operators += matched.members.len();
                let (last, others) = matched.places();
                block.bindings[last].expr = call;
                gone.extend(others);
            }
            take_out(block, &gone);
        });
        facts.pop();
        rebuilt
    });
    context.count("made", calls, "library calls");
    context.count("of", operators, "operators");
    Ok(result)
}

fn has_function(rule: &Rule) -> bool {
    library_function(&rule.function).is_some()
}

/// `call_dps_library("cublas.matmul", [x, w], Tensor((n, 4), "f32"))`
fn library_call(matched: &Match, block: &Block, annotations: &[Annotation]) -> Option<Expr> {
    let (last, _) = matched.places();
    let out = &annotations[block.bindings[last].var.0 as usize];
    library_call_to(&matched.function, matched.operands.clone(), out)
}

/// A call of a library function that gives `out`; none where its dims might have no value.
pub(super) fn library_call_to(name: &Name, operands: Vec<Atom>, out: &Annotation) -> Option<Expr> {
    let tensor = out.as_tensor()?;
    tensor.dtype?;
    tensor.extents.dims()?.iter().all(evaluates_when_it_fits).then_some(())?;
    let args = vec![
        Atom::Str(name.clone()),
        Atom::List(operands),
        Atom::Annotation(Arc::new(out.clone())),
    ];
    Some(Expr::Call {
        callee: Callee::Operator("call_dps_library".into()),
        args,
        attrs: Vec::new(),
    })
}
