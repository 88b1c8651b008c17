//! Each primitive function, a group of calls that fuse_ops made, becomes one tensor program (paper,
//! Figure 9): the programs of its calls one after the other, what they pass to each other in buffers of
//! its own. Calls of the function become calls of the program.
//!
//! A function stays where a check in it or at a call of it is left to run time, where some dim of it may
//! have no value, and where a program of it writes to what it reads: see [`merge`].

mod calls;
mod merge;
mod stage;

use super::fuse_ops_by_pattern::COMPOSITE;
use crate::canonical::canonical_program;
use crate::pass::{Exactness, Pass, PassContext};
use crate::references::references;
use crate::verify::is_private;
use calls::{Call, replace_calls};
use merge::{Merged, merge};
use relax_semantics::check::{Checked, LeftIn, Phase};
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{AttrValue, Definition, Function, Module, TensorProgram, attr};
use relax_tir::kernel_kind::{ATTRIBUTE, Analysis};
use std::collections::{BTreeMap, BTreeSet};

/// The record.
pub static PASS: Pass = Pass {
    name: "fuse_tir",
    doc: "Merges the tensor programs of each primitive function into one, and calls that in the \
          place of the function.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let candidates = candidates(module, context.checked);
    let found = module.functions().filter(|function| is_primitive(function)).count();
    let mut programs: Vec<TensorProgram> = Vec::new();
    let mut canonical: Vec<TensorProgram> = Vec::new();
    let mut merged = BTreeMap::new();
    for name in candidates {
        let function = module.function(&name).expect("invariant: it is one of the module");
        let annotations = &context.checked.annotations[&name];
        let Some(Merged { program, constants }) =
            merge(module, function, annotations, context.facts)
        else {
            continue;
        };
        let form = canonical_program(&program);
        let same = canonical.iter().position(|other| *other == form);
        let at = same.unwrap_or(programs.len());
        if same.is_none() {
            programs.push(recorded(program, function));
            canonical.push(form);
        }
        merged.insert(name, Call { program: programs[at].name.clone(), constants });
    }
    let result = replaced(module, context.checked, &merged, programs);
    context.count_of("merged", merged.len(), found, "primitive functions");
    Ok(result)
}

/// The module with the programs in the places of the functions that they are made of.
fn replaced(
    module: &Module,
    checked: &Checked,
    merged: &BTreeMap<Name, Call>,
    programs: Vec<TensorProgram>,
) -> Module {
    let mut programs: BTreeMap<Name, TensorProgram> =
        programs.into_iter().map(|program| (program.name.clone(), program)).collect();
    let definitions = module.definitions.iter().filter_map(|definition| match definition {
        Definition::Graph(function) if merged.contains_key(&function.name) => {
            programs.remove(&function.name).map(Definition::Tensor)
        }
        Definition::Graph(function) => {
            let mut function = function.clone();
            let annotations = &checked.annotations[&function.name];
            replace_calls(&mut function, annotations, merged);
            Some(Definition::Graph(function))
        }
        Definition::Tensor(_) => Some(definition.clone()),
    });
    let definitions = definitions.collect();
    Module { attrs: module.attrs.clone(), definitions }
}

/// What computes the function, if it is of a pattern, may compute the program as well.
fn recorded(mut program: TensorProgram, function: &Function) -> TensorProgram {
    if let Some(composite) = attr(&function.lambda.attrs, COMPOSITE) {
        program.attrs.push((Name::new(COMPOSITE), composite.clone()));
    }
    let pattern = Analysis::of(&program).kind;
    program.attrs.push((Name::new(ATTRIBUTE), AttrValue::Str(Name::new(pattern.name()))));
    program
}

fn is_primitive(function: &Function) -> bool {
    let marked = attr(&function.lambda.attrs, super::fuse_ops::PRIMITIVE);
    matches!(marked, Some(AttrValue::Bool(true)))
}

/// Private primitive functions that are only called, by calls that fit for all sizes, and that have no
/// check of their own left.
fn candidates(module: &Module, checked: &Checked) -> Vec<Name> {
    let mut held = BTreeSet::new();
    let mut unproved = BTreeSet::new();
    for function in module.functions() {
        held.extend(references(function).held);
        if let Some(body) = &function.lambda.body {
            calls::unfit(function, body, checked, &mut unproved);
        }
    }
    let names = module.functions().filter(|function| {
        is_primitive(function)
            && is_private(function)
            && !held.contains(&function.name)
            && !unproved.contains(&function.name)
            && *checked.left_in(&function.name) == LeftIn::default()
    });
    names.map(|function| function.name.clone()).collect()
}
