//! Products of one dataflow block that need nothing of each other become one product, as in BladeDISC:
//! of a shared left operand with the right ones side by side, of the left ones above each other with a
//! shared right operand, and of equal shapes as a batch.
//!
//! Right operands are put together only where they are weights: that is then done once, by
//! `lift_transform_params` or `fold_constant`, while values of each call would be copied in each.
//! Equal shapes are those that the prover knows to be equal, whatever their names. Each element is the sum
//! that it was, in the same order. Only products that never stop the program change places.

mod block;

use super::map_functions;
use crate::blocks::for_each_dataflow;
use crate::dims::assume_declared;
use crate::names::Names;
use crate::pass::{Exactness, Pass, PassContext};
use crate::trap_free::TrapAnalysis;
use block::Combine;
use relax_semantics::check::Phase;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{Atom, Body, Expr, Function, Module, VarId, attr};
use std::collections::BTreeSet;

/// The record.
pub static PASS: Pass = Pass {
    name: "combine_parallel_matmul",
    doc: "Makes one matmul of several in a dataflow block: with a shared operand, or of shapes that are \
          proved to be equal.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut traps = TrapAnalysis::new(module, context.checked);
    let mut names = Names::of(module);
    let (mut combined, mut made) = (0, 0);
    let result = map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        let mut body = rebuilt.lambda.body.take().expect("invariant: only such are mapped");
        let mut combine = Combine {
            function,
            annotations: &context.checked.annotations[&function.name],
            weights: weights(function),
            traps: &mut traps,
            facts: context.facts,
            names: &mut names,
            vars: &mut rebuilt.vars,
            combined: 0,
            made: 0,
        };
        combine.facts.push();
        assume_declared(combine.facts, &function.dims);
        for_each_dataflow(&mut body, &mut |block| combine.block(block));
        combine.facts.pop();
        combined += combine.combined;
        made += combine.made;
        rebuilt.lambda.body = Some(body);
        rebuilt
    });
    context.count("combined", combined, "products");
    context.count("made", made, "products of them");
    Ok(result)
}

/// Parameters that do not change from call to call, where the function says which, and constants.
fn weights(function: &Function) -> BTreeSet<VarId> {
    let inputs = match attr(&function.lambda.attrs, super::bind_params::NUM_INPUT) {
        Some(relax_syntax::ir::AttrValue::Int(count)) => usize::try_from(*count).unwrap_or(0),
        _ => function.lambda.params.len(),
    };
    let mut weights: BTreeSet<VarId> =
        function.lambda.params.iter().skip(inputs).copied().collect();
    let bindings = function.lambda.body.iter().flat_map(Body::bindings);
    for binding in bindings {
        if matches!(&binding.expr, Expr::Atom(Atom::Constant(_) | Atom::External(_))) {
            weights.insert(binding.var);
        }
    }
    weights
}
