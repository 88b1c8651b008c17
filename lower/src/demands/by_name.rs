//! Calls by name of what the pipeline compiles. The question goes to the passes that decide it: `name_dims`, `legalize_ops` and
//! `lower_call_tir` are run on the module with calls of operators in their places.

use super::restored::{CallByName, calls_by_name, for_each, is_copy, named, restored};
use crate::passes::lower_call_tir;
use relax_rewrite::fallback::{Fallback, Reason};
use relax_rewrite::pass::{Pass, PassContext, Settings};
use relax_rewrite::passes::legalize_ops::{self, is_elementwise, tensor_operator};
use relax_rewrite::passes::name_dims;
use relax_semantics::check::{Checked, Phase, check, codes};
use relax_semantics::ops::lookup;
use relax_symbolic::Prover;
use relax_syntax::diagnostic::{Diagnostic, Part};
use relax_syntax::ir::{Expr, Module};

/// Rounds of `name_dims`: one names the operands of calls, the next those of what follows.
const ROUNDS: usize = 3;

/// An error for each such call. In P2.3 the text has no dims of results, which may have kept a call from being compiled: of other
/// calls than elementwise ones on symbolic dims that is a warning.
pub(super) fn demands(module: &Module, phase: Phase) -> Vec<Diagnostic> {
    let calls = calls_by_name(module);
    if calls.is_empty() {
        return Vec::new();
    }
    let mut facts = Prover::new();
    let mut checked = check(&restored(module), &mut facts, Phase::Surface);
    // What is not well-formed as a text of operators was none.
    if !checked.is_ok() {
        return Vec::new();
    }
    let calls: Vec<CallByName> =
        calls.into_iter().filter(|call| !copies(module, &checked, call)).collect();
    let in_place = run(&lower_call_tir::PASS, &checked, &mut facts);
    for _ in 0..ROUNDS {
        let Some(next) = run(&name_dims::PASS, &checked, &mut facts) else { break };
        let next = check(&next, &mut facts, Phase::Surface);
        if !next.is_ok() || next.module == checked.module {
            break;
        }
        checked = next;
    }
    let (legal, fallbacks) = legalized(&checked, &mut facts);
    let compiled = |call: &&CallByName| {
        let is = |module: &Option<Module>, stays: fn(&Expr) -> bool| {
            module.as_ref().is_some_and(|module| {
                let exprs = bindings_of(module, call);
                !exprs.is_empty() && !exprs.into_iter().any(stays)
            })
        };
        match call.operator {
            "call_tir" | "call_tir_inplace" => is(&in_place, |expr| named(expr).is_some()),
            "call_dps_library" => false,
            _ => is(&legal, |expr| tensor_operator(expr).is_some()),
        }
    };
    let is_unwritten = |call: &&CallByName| {
        let span = module.function(&call.function).map(|function| function.var(call.var).span);
        let mut same = fallbacks
            .iter()
            .filter(|fallback| fallback.function == call.function && Some(fallback.span) == span);
        same.any(|fallback| fallback.reason == Reason::Uninitialized)
    };
    let told = |call: &CallByName| {
        let is_certain = phase < Phase::P23 || has_dims(&checked, call);
        diagnostic(module, call, if is_certain { Known::Compiled } else { Known::WithoutDims })
    };
    let unwritten = calls.iter().filter(is_unwritten);
    let mut found: Vec<_> = calls.iter().filter(compiled).map(told).collect();
    found.extend(unwritten.map(|call| diagnostic(module, call, Known::MaybeUnwritten)));
    found
}

/// The module with calls of tensor programs, and what stays.
fn legalized(checked: &Checked, facts: &mut Prover) -> (Option<Module>, Vec<Fallback>) {
    let settings = Settings::default();
    let mut context = PassContext::new(checked, &settings, facts);
    let legal = (legalize_ops::PASS.run)(&checked.module, &mut context).ok();
    (legal, context.into_account().fallbacks)
}

/// What is known of a call by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Compiled,
    /// The dims of its result are not in the text.
    WithoutDims,
    /// An operand may have uninitialized elements, as tensors beside others in a storage may.
    MaybeUnwritten,
}

/// Whether the dims of the result are those of operands, or numbers.
fn has_dims(checked: &Checked, call: &CallByName) -> bool {
    let annotation = &checked.annotations[&call.function][call.var.0 as usize];
    let mut is_symbolic = false;
    annotation.visit_dims(&mut |dim| is_symbolic |= dim.as_int().is_none());
    !is_symbolic || lookup(call.operator).is_some_and(is_elementwise)
}

fn run(pass: &Pass, checked: &Checked, facts: &mut Prover) -> Option<Module> {
    let settings = Settings::default();
    (pass.run)(&checked.module, &mut PassContext::new(checked, &settings, facts)).ok()
}

fn copies(module: &Module, checked: &Checked, call: &CallByName) -> bool {
    let annotations = &checked.annotations[&call.function];
    bindings_of(module, call).into_iter().any(|expr| is_copy(expr, annotations))
}

/// What the variable of a call is bound to.
fn bindings_of<'m>(module: &'m Module, call: &CallByName) -> Vec<&'m Expr> {
    let mut found = Vec::new();
    let body = module.function(&call.function).and_then(|function| function.lambda.body.as_ref());
    if let Some(body) = body {
        for_each(body, &mut |binding| {
            if binding.var == call.var {
                found.push(&binding.expr);
            }
        });
    }
    found
}

fn diagnostic(module: &Module, call: &CallByName, known: Known) -> Diagnostic {
    let function = module.function(&call.function).expect("invariant: the call stands in it");
    let (operator, span) = (call.operator, function.var(call.var).span);
    let open = |label: &str| {
        let message = format!(
            "it is not decided whether the pipeline compiles `{operator}`, called by its name"
        );
        let open = Diagnostic::error(codes::OPEN, span, message).as_warning();
        open.at(Part::Callee).with_label(label)
    };
    match known {
        Known::WithoutDims => open("the dims that it was given are not in this text")
            .with_help("check the module of phase P2.2"),
        Known::MaybeUnwritten => open("an operand may have uninitialized elements"),
        Known::Compiled => {
            let message =
                format!("`{operator}` is called by its name, and the pipeline compiles it");
            Diagnostic::error(codes::BY_NAME, span, message)
                .at(Part::Callee)
                .with_label("interpreted when the program runs")
                .with_help(format!(
                    "write `{operator}(…)` in a module of P1: `relax opt --to P2.1` lowers it"
                ))
        }
    }
}
