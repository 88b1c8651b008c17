//! Calls of composite functions of one code generator that follow each other become one function, so
//! that it sees as large a region as there is.
//!
//! A region gives one value, that of its last call, and is called where that stood; what is
//! in it is pure and always gives a value, so that nothing is lost by moving it there.

use super::fuse_ops_by_pattern::{CODEGEN, COMPOSITE};
use crate::blocks::{for_each_block, take_out};
use crate::outline::{Label, outlined};
use crate::pass::{Exactness, Pass, PassContext};
use crate::trap_free::TrapAnalysis;
use relax_semantics::check::Phase;
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{AttrValue, Block, BlockKind, Callee, Expr, Function, Module, VarId, attr};
use relax_syntax::resolve::expr_uses;
use std::collections::{BTreeMap, BTreeSet};

/// The record.
pub static PASS: Pass = Pass {
    name: "merge_composite_functions",
    doc: "Makes one private function of calls of composite functions that follow each other and \
          have the same code generator.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let composites: BTreeMap<&Name, &Name> = module.functions().filter_map(composite).collect();
    let mut traps = TrapAnalysis::new(module, context.checked);
    let mut calls = 0;
    let (result, regions) = outlined(module, context.checked, &mut |function, rebuilt, outline| {
        if codegen(function).is_some() {
            return;
        }
        let Some(body) = &mut rebuilt.lambda.body else { return };
        for_each_block(body, &mut |block| {
            let mut gone = BTreeSet::new();
            for (codegen, members) in find(block, &composites, function, &mut traps) {
                let bindings = members.iter().map(|&at| block.bindings[at].clone());
                let call = outline.group(label(codegen), bindings.collect());
                let last = *members.last().expect("invariant: a region has two calls");
                block.bindings[last] = call;
                gone.extend(members.iter().filter(|&&at| at != last));
                calls += members.len();
            }
            take_out(block, &gone);
        });
    });
    context.count("merged", calls, "calls of composite functions");
    context.count("made", regions, "regions");
    Ok(result)
}

fn label(codegen: &Name) -> Label {
    let marks = vec![(Name::new(CODEGEN), AttrValue::Str(codegen.clone()))];
    Label { name: format!("region_{codegen}"), marks, first: Vec::new() }
}

fn text<'f>(function: &'f Function, key: &str) -> Option<&'f Name> {
    match attr(&function.lambda.attrs, key)? {
        AttrValue::Str(text) => Some(text),
        _ => None,
    }
}

fn codegen(function: &Function) -> Option<&Name> {
    text(function, CODEGEN)
}

/// A composite function and its code generator.
fn composite(function: &Function) -> Option<(&Name, &Name)> {
    text(function, COMPOSITE)?;
    Some((&function.name, codegen(function)?))
}

/// Regions of two calls and more, disjoint: from each call backwards, what it alone uses.
fn find<'m>(
    block: &Block,
    composites: &BTreeMap<&'m Name, &'m Name>,
    function: &Function,
    traps: &mut TrapAnalysis,
) -> Vec<(&'m Name, BTreeSet<usize>)> {
    let BlockKind::Dataflow { outputs } = &block.kind else { return Vec::new() };
    let mut kinds: Vec<Option<&'m Name>> = Vec::new();
    let mut users: BTreeMap<VarId, BTreeSet<usize>> = BTreeMap::new();
    for (at, binding) in block.bindings.iter().enumerate() {
        let called = match &binding.expr {
            Expr::Call { callee: Callee::Global(name), .. } => composites.get(name).copied(),
            _ => None,
        };
        kinds.push(called.filter(|_| traps.is_removable(function, binding)));
        let mut used = BTreeSet::new();
        expr_uses(&binding.expr, &mut used);
        used.into_iter().for_each(|var| _ = users.entry(var).or_default().insert(at));
    }
    let (mut taken, mut regions) = (BTreeSet::<usize>::new(), Vec::new());
    for last in (0..block.bindings.len()).rev() {
        let Some(codegen) = kinds[last].filter(|_| !taken.contains(&last)) else { continue };
        let mut region = BTreeSet::from([last]);
        for at in (0..last).rev() {
            let var = block.bindings[at].var;
            let joins = kinds[at] == Some(codegen)
                && !taken.contains(&at)
                && !outputs.contains(&var)
                && users.get(&var).is_some_and(|users| users.is_subset(&region));
            if joins {
                region.insert(at);
            }
        }
        taken.extend(&region);
        if region.len() > 1 {
            regions.push((codegen, region));
        }
    }
    regions
}
