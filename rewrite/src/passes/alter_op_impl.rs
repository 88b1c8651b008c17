//! Calls of a tensor program, or of what a pattern matched, become calls of another implementation in the module
//! (TVM: `AlterOpImpl`).
//!
//! `func_attr("implements", NAME)` marks an implementation of what has this name, this `operator_name` or this
//! `composite` name. A graph function may change layouts around a tensor program of its own. Which implementations are
//! used is in the settings: whoever runs the pass compares each [`pair`] first.

mod pairs;

use super::fuse_ops_by_pattern::COMPOSITE;
use super::map_functions;
use crate::blocks::for_each_binding;
use crate::pass::{Exactness, Pass, PassContext};
use crate::references::drop_replaced;
use crate::tir_call::{AnyTirCall, call_tir};
pub use pairs::{Pair, pair};
use relax_semantics::check::Phase;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::references::{reached_from, references};
use relax_syntax::ir::{AttrValue, Attrs, Callee, Definition, Expr, Module, attr};
use std::collections::{BTreeMap, BTreeSet};

/// The record of the pass.
pub static PASS: Pass = Pass {
    name: "alter_op_impl",
    doc: "Calls implementations that the module has of tensor programs and composite functions in their places.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Reals,
    run,
};

/// Marks an implementation with the name of what it implements.
pub const IMPLEMENTS: &str = "implements";
/// By which TVM names the operator that a tensor program computes.
const OPERATOR_NAME: &str = "operator_name";

/// Definitions, and what is called in the place of each.
pub type Alterations = BTreeMap<Name, Name>;

/// A definition that is called, and another one that says it implements it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What is called now.
    pub of: Name,
    /// What would be.
    pub by: Name,
}

/// What the implementations of a module are for.
#[derive(Debug, Default)]
pub struct Candidates {
    /// By definition, and those of one in the order of their implementations in the text.
    pub pairs: Vec<Candidate>,
    /// Implementations that no call can use, each with the name of what it implements.
    pub unused: Vec<(Name, Name)>,
}

/// All candidates of a module.
#[must_use]
pub fn candidates(module: &Module) -> Candidates {
    let called: BTreeSet<Name> = module
        .functions()
        .map(references)
        .flat_map(|each| each.called.into_iter().chain(each.held))
        .collect();
    let mut found = Candidates::default();
    let mut pairs = BTreeMap::<usize, Vec<Candidate>>::new();
    for definition in &module.definitions {
        let Some(name) = implemented(definition.attrs()) else { continue };
        let by = definition.name();
        let mut is_used = false;
        for (place, of) in module.definitions.iter().enumerate() {
            if of.name() != by && called.contains(of.name()) && has_name(of, name) {
                let pair = Candidate { of: of.name().clone(), by: by.clone() };
                pairs.entry(place).or_default().push(pair);
                is_used = true;
            }
        }
        if !is_used {
            found.unused.push((by.clone(), name.clone()));
        }
    }
    found.pairs = pairs.into_values().flatten().collect();
    found
}

fn implemented(attrs: &Attrs) -> Option<&Name> {
    match attr(attrs, IMPLEMENTS)? {
        AttrValue::Str(name) => Some(name),
        _ => None,
    }
}

fn has_name(definition: &Definition, name: &Name) -> bool {
    let marks = [OPERATOR_NAME, COMPOSITE].map(|key| attr(definition.attrs(), key));
    definition.name() == name
        || marks.iter().any(|mark| matches!(mark, Some(AttrValue::Str(mark)) if mark == name))
}

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let (checked, alterations) = (context.checked, &context.settings.alterations);
    // An implementation may use what it implements, for some of its elements or in a helper.
    let within = reached_from(module, alterations.values().cloned().collect());
    let (mut done, mut found) = (0, 0);
    let mut result = map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        if within.contains(&function.name) {
            return rebuilt;
        }
        let annotations = &checked.annotations[&function.name];
        let left = &checked.left_in(&function.name).vars;
        let body = rebuilt.lambda.body.as_mut().expect("invariant: only such are mapped");
        for_each_binding(body, &mut |binding| {
            let Some(by) = target(&binding.expr).and_then(|of| alterations.get(of)) else { return };
            found += 1;
            // The check of this call has its own trap.
            if left.contains(&binding.var) {
                return;
            }
            let out = &annotations[binding.var.0 as usize];
            if let Some(altered) = altered(&binding.expr, module, by, out) {
                binding.expr = altered;
                done += 1;
            }
        });
        rebuilt
    });
    drop_replaced(&mut result, &alterations.keys().cloned().collect());
    context.count_of("altered", done, found, "calls");
    Ok(result)
}

/// The definition that a binding calls.
fn target(expr: &Expr) -> Option<&Name> {
    match expr {
        Expr::Call { callee: Callee::Global(name), .. } => Some(name),
        _ => AnyTirCall::of(expr).map(|call| call.program),
    }
}

/// The call of an implementation in the place of another call, which has this result.
fn altered(expr: &Expr, module: &Module, by: &Name, out: &Annotation) -> Option<Expr> {
    let (args, out) = match expr {
        Expr::Call { callee: Callee::Global(_), args, attrs } if attrs.is_empty() => {
            (args.clone(), out.clone())
        }
        _ => {
            let call = AnyTirCall::of(expr).filter(|call| call.scalars.is_empty())?;
            (call.args.to_vec(), call.result()?)
        }
    };
    if module.tensor_program(by).is_some() {
        return is_known(&out).then(|| call_tir(by.clone(), args, out));
    }
    let callee = Callee::Global(by.clone());
    Some(Expr::Call { callee, args, attrs: Vec::new() })
}

/// Whether `call_tir` can declare it.
fn is_known(out: &Annotation) -> bool {
    match out {
        Annotation::Tensor(tensor) => tensor.dtype.is_some() && tensor.extents.dims().is_some(),
        Annotation::Tuple(fields) => {
            !fields.is_empty()
                && fields.iter().all(|field| field.as_tensor().is_some() && is_known(field))
        }
        _ => false,
    }
}
