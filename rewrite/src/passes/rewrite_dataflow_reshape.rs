//! A call of a tensor program that only reshapes becomes the operator `reshape`, which moves no
//! element: later the result is another view of the same memory.
//!
//! That it only reshapes is told from its loops and accesses ([`only_reshapes`]). The call stays where
//! the program could stop: on elements that nothing has written, and on checks that are not decided.

use super::map_functions;
use crate::blocks::for_each_dataflow;
use crate::dims::assume_declared;
use crate::maybe_uninit::maybe_uninitialized;
use crate::pass::{Exactness, Pass, PassContext};
use crate::tir_call::TirCall;
use relax_semantics::check::Phase;
use relax_semantics::ops::reshaped;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::dim::evaluation::always_evaluates;
use relax_syntax::facts::{Answer, Facts};
use relax_syntax::ir::{Atom, Binding, Definition, Module, VarId};
use relax_tir::kernel_kind::only_reshapes;
use std::collections::BTreeSet;

/// The record.
pub static PASS: Pass = Pass {
    name: "rewrite_dataflow_reshape",
    doc: "Turns a call of a tensor program that only reshapes, as its loops tell, into the operator \
          reshape, in dataflow blocks.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let programs = module.definitions.iter().filter_map(|definition| match definition {
        Definition::Tensor(program) => Some(program),
        Definition::Graph(_) => None,
    });
    let views: BTreeSet<Name> = programs
        .filter(|program| only_reshapes(program, context.facts))
        .map(|program| program.name.clone())
        .collect();
    let maybe_uninit = maybe_uninitialized(module);
    let mut rewritten = 0;
    let result = map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        let mut calls = Calls {
            views: &views,
            annotations: &context.checked.annotations[&function.name],
            left: &context.checked.left_in(&function.name).vars,
            maybe_uninit: &maybe_uninit[&function.name],
            facts: context.facts,
        };
        calls.facts.push();
        assume_declared(calls.facts, &function.dims);
        let body = rebuilt.lambda.body.as_mut().expect("invariant: only such are mapped");
        for_each_dataflow(body, &mut |block| {
            for binding in &mut block.bindings {
                rewritten += usize::from(calls.rewrite(binding));
            }
        });
        calls.facts.pop();
        rebuilt
    });
    context.count("rewrote", rewritten, "calls");
    Ok(result)
}

struct Calls<'a> {
    /// Programs that only reshape.
    views: &'a BTreeSet<Name>,
    annotations: &'a [Annotation],
    /// Bindings with checks that are left to run time.
    left: &'a BTreeSet<VarId>,
    maybe_uninit: &'a BTreeSet<VarId>,
    facts: &'a mut dyn Facts,
}

impl Calls<'_> {
    fn rewrite(&mut self, binding: &mut Binding) -> bool {
        let view = self.view(binding);
        let Some((operand, dims)) = view else { return false };
        binding.expr = reshaped(Atom::Var(operand), dims);
        true
    }

    /// What is reshaped, and to which dims.
    fn view(&mut self, binding: &Binding) -> Option<(VarId, Vec<Dim>)> {
        let call = TirCall::of(&binding.expr).filter(|call| self.views.contains(call.program))?;
        let &[Atom::Var(operand)] = call.args else { return None };
        let Annotation::Tensor(from) = &self.annotations[operand.0 as usize] else { return None };
        let from = from.extents.dims()?;
        let to = call.out.dims()?;
        let as_many = self.facts.equal(&Dim::product(to), &Dim::product(from)) == Answer::Proved;
        let never_stops = !self.left.contains(&binding.var)
            && !self.maybe_uninit.contains(&operand)
            && to.iter().all(|dim| always_evaluates(dim, &[from]));
        (as_many && never_stops).then(|| (operand, to.to_vec()))
    }
}
