//! Runs of launches whose memory is the same at every call become functions that a device records once
//! and replays (paper, §4.4; in the figures `builtin.cuda_graph_run_or_capture`).
//!
//! A device replays the very bytes that it saw. So a launch is recorded only where all that it reads or
//! writes lies in storages that the function takes once for all its calls, or is a constant or a weight.
//! Such a storage has a constant size, which plans at upper bounds give (`plan_memory`), holds no part of
//! the result, which the next call would overwrite, and belongs to a function that is not called
//! again before it ends. Tensors in it may have symbolic dims: they are arguments of the recorded function,
//! alone as dims of a tensor or in one more shape, so that a graph is replayed for the same dims only.

mod reentrant;
mod regions;
mod statics;

use crate::fresh::{Fresh, built_in};
use crate::memory::aliases::{Aliases, Returns};
use reentrant::reentrant;
use regions::{Region, Rewriting};
use relax_rewrite::names::Defined;
use relax_rewrite::outline::{Outline, outlined};
use relax_rewrite::pass::{Device, Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_semantics::ops::lookup;
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{
    Atom, AttrValue, Binding, Block, BlockKind, Body, Callee, Expr, Function, Lambda, Module, VarId,
};
use relax_syntax::span::Span;
use statics::Statics;
use std::collections::{BTreeMap, BTreeSet};

/// The record.
pub static PASS: Pass = Pass {
    name: "rewrite_cuda_graph",
    doc: "For cuda: makes functions of launches whose memory is the same at every call, which a device \
          records and replays.",
    from: Phase::P21,
    to: Phase::P22,
    until: Phase::P22,
    exactness: Exactness::Exact,
    run,
};

/// Takes memory once for all calls.
const GET_CACHED_ALLOC: &str = "builtin.cuda_graph_get_cached_alloc";
/// Records a function, or replays it.
const RUN_OR_CAPTURE: &str = "builtin.cuda_graph_run_or_capture";

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    if context.settings.device != Device::Cuda {
        return Ok(module.clone());
    }
    let (returns, reentrant) = (Returns::of(module), reentrant(module));
    let defined = Defined::of(module);
    let (mut graphs, mut launches) = (0, 0);
    let (result, _) = outlined(module, context.checked, &mut |function, rebuilt, outline| {
        if reentrant.contains(&function.name) {
            return;
        }
        let aliases = Aliases::of(function, module, &returns);
        let Some(statics) = Statics::of(module, function, &aliases) else { return };
        let regions: Vec<Region> = regions::regions(module, function, &statics);
        graphs += regions.len();
        launches += regions.iter().map(|region| region.launches).sum::<usize>();
        if !regions.is_empty() {
            rewrite(&defined, rebuilt, &regions, &statics, outline);
        }
    });
    context.count("made", graphs, "graphs");
    context.count("of", launches, "launches");
    Ok(result)
}

/// Puts calls in the place of regions, and takes their storages once.
fn rewrite(
    defined: &Defined,
    function: &mut Function,
    regions: &[Region],
    statics: &Statics,
    outline: &mut Outline,
) {
    let used: BTreeSet<VarId> = regions.iter().flat_map(|region| region.storages.clone()).collect();
    let storages: Vec<VarId> =
        statics.storages().filter(|storage| used.contains(storage)).collect();
    let mut body = function.lambda.body.take().expect("invariant: it has regions");
    let mut fresh = Fresh::of(defined, function);
    let alloc = take_once(function, &body, &storages, outline);
    let by_first = regions.iter().map(|region| (region.first, region)).collect();
    let mut rewriting = Rewriting { by_first, outline: &mut *outline, fresh: &mut fresh };
    rewriting.body(&mut body);
    let begin = cached(alloc, &storages, &mut fresh, function.span, &mut body);
    match body.blocks.first_mut() {
        Some(first) => first.bindings.insert(0, begin),
        None => body.blocks.push(Block { kind: BlockKind::Plain, bindings: vec![begin] }),
    }
    function.vars = fresh.vars;
    function.lambda.body = Some(body);
}

/// A function that takes storages; its name.
fn take_once(function: &Function, body: &Body, storages: &[VarId], outline: &mut Outline) -> Name {
    let mut taken: BTreeMap<VarId, Expr> = BTreeMap::new();
    allocations(body, storages, &mut taken);
    let id = |at: usize| VarId(u32::try_from(at).expect("invariant: ids are u32"));
    let vars = storages.iter().map(|storage| function.vars[storage.0 as usize].clone()).collect();
    let bindings = storages.iter().enumerate().map(|(at, storage)| {
        let expr = taken.remove(storage).expect("invariant: the function takes its storages");
        Binding { var: id(at), expr }
    });
    let block = Block { kind: BlockKind::Plain, bindings: bindings.collect() };
    let result = match storages.len() {
        1 => Atom::Var(id(0)),
        count => Atom::Tuple((0..count).map(|at| Atom::Var(id(at))).collect()),
    };
    let private = vec![(Name::new("private"), AttrValue::Bool(true))];
    let body = Some(Body { blocks: vec![block], result });
    let lambda = Lambda { params: Vec::new(), result: None, attrs: private, body };
    let name = outline.fresh(&Name::new("cuda_graph_alloc"));
    let made = Function { name: name.clone(), span: function.span, lambda, vars, dims: Vec::new() };
    outline.functions.push(made);
    name
}

fn allocations(body: &Body, storages: &[VarId], taken: &mut BTreeMap<VarId, Expr>) {
    for binding in body.bindings() {
        if let Expr::If { then, otherwise, .. } = &binding.expr {
            allocations(then, storages, taken);
            allocations(otherwise, storages, taken);
        } else if storages.contains(&binding.var) {
            taken.insert(binding.var, binding.expr.clone());
        }
    }
}

/// Storages are what was taken once, or parts of it, and are not released; gives the binding of that.
fn cached(
    alloc: Name,
    storages: &[VarId],
    fresh: &mut Fresh,
    span: Span,
    body: &mut Body,
) -> Binding {
    let all = match storages {
        [one] => *one,
        _ => fresh.var("cached", None, span),
    };
    let index = storages.iter().enumerate().map(|(at, &storage)| (storage, at)).collect();
    refer(body, all, &index);
    built_in(all, GET_CACHED_ALLOC, vec![Atom::Global(alloc)])
}

fn refer(body: &mut Body, all: VarId, index: &BTreeMap<VarId, usize>) {
    for block in &mut body.blocks {
        block.bindings.retain(|binding| binding.var != all && !releases(&binding.expr, index));
        for binding in &mut block.bindings {
            if let Expr::If { then, otherwise, .. } = &mut binding.expr {
                refer(then, all, index);
                refer(otherwise, all, index);
            } else if let Some(&at) = index.get(&binding.var) {
                binding.expr = Expr::Get(Atom::Var(all), at);
            }
        }
    }
    body.blocks.retain(|block| !block.bindings.is_empty());
}

fn releases(expr: &Expr, storages: &BTreeMap<VarId, usize>) -> bool {
    let Expr::Call { callee: Callee::Operator(name), args, .. } = expr else { return false };
    let is_release = lookup(name).is_some_and(|row| row.name == "memory.kill_storage");
    is_release && matches!(args.first(), Some(Atom::Var(storage)) if storages.contains_key(storage))
}
