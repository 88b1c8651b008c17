//! Bindings in a row that a device can record, and the calls that take their place.

use super::statics::{Statics, buffers};
use super::{RUN_OR_CAPTURE, lookup};
use crate::fresh::{Fresh, built_in};
use relax_rewrite::outline::{Label, Outline};
use relax_syntax::ir::{Atom, Binding, Block, Body, Callee, Expr, Function, Module, VarId};
use relax_syntax::resolve::{atom_uses, expr_uses};
use std::collections::{BTreeMap, BTreeSet};

/// Launches below which a graph saves nothing: it is launched itself.
const FEWEST: usize = 2;

/// Bindings in a row.
pub(super) struct Region {
    /// The variable of the first.
    pub(super) first: VarId,
    /// How many there are.
    length: usize,
    /// How many of them launch a kernel.
    pub(super) launches: usize,
    /// The storages that they use.
    pub(super) storages: BTreeSet<VarId>,
    /// The tensors that they use and others bind.
    tensors: Vec<VarId>,
    /// What they bind and others use, in order.
    results: Vec<VarId>,
    /// Releases among them of storages and of tensors from outside: they follow the call.
    later: BTreeSet<VarId>,
}

/// The regions of a function, those of its branches included.
pub(super) fn regions(module: &Module, function: &Function, statics: &Statics) -> Vec<Region> {
    let mut mentions = BTreeMap::new();
    let mut found = Vec::new();
    if let Some(body) = &function.lambda.body {
        count_mentions(body, &mut mentions);
        Finding { module, statics, mentions: &mentions, found: &mut found }.body(body);
    }
    found
}

/// In how many bindings, conditions and results each variable is mentioned.
fn count_mentions(body: &Body, mentions: &mut BTreeMap<VarId, usize>) {
    let mut count = |used: BTreeSet<VarId>| {
        used.into_iter().for_each(|var| *mentions.entry(var).or_default() += 1);
    };
    for binding in body.bindings() {
        let mut used = BTreeSet::new();
        match &binding.expr {
            Expr::If { condition, .. } => atom_uses(condition, &mut used),
            other => expr_uses(other, &mut used),
        }
        count(used);
    }
    let mut used = BTreeSet::new();
    atom_uses(&body.result, &mut used);
    count(used);
    for binding in body.bindings() {
        if let Expr::If { then, otherwise, .. } = &binding.expr {
            count_mentions(then, mentions);
            count_mentions(otherwise, mentions);
        }
    }
}

/// What a binding of a region does.
enum Member {
    Launch,
    /// A tensor in a storage, or a view of one.
    Names,
    Releases(VarId),
    /// That of a storage comes to nothing where it is taken once.
    ReleasesStorage,
}

struct Finding<'a> {
    module: &'a Module,
    statics: &'a Statics,
    mentions: &'a BTreeMap<VarId, usize>,
    found: &'a mut Vec<Region>,
}

impl Finding<'_> {
    fn body(&mut self, body: &Body) {
        for block in &body.blocks {
            let mut run: Vec<(&Binding, Member)> = Vec::new();
            for binding in &block.bindings {
                if let Some(member) = self.member(binding) {
                    run.push((binding, member));
                    continue;
                }
                self.region(&std::mem::take(&mut run));
                if let Expr::If { then, otherwise, .. } = &binding.expr {
                    self.body(then);
                    self.body(otherwise);
                }
            }
            self.region(&run);
        }
    }

    fn member(&self, binding: &Binding) -> Option<Member> {
        let Expr::Call { callee, args, attrs } = &binding.expr else { return None };
        match callee {
            Callee::Global(name) => {
                let program = self.module.tensor_program(name)?;
                let all = args.len() == program.params.len() && attrs.is_empty();
                let is_static = |(atom, is_written)| match is_written {
                    true => self.statics.is_writable(atom),
                    false => self.statics.is_readable(atom),
                };
                let scalars = args.iter().filter(|atom| !self.statics.is_readable(atom));
                let known = scalars.clone().all(|atom| matches!(atom, Atom::Dim(_)));
                (all && known && program.body.is_some() && buffers(program, args).all(is_static))
                    .then_some(Member::Launch)
            }
            Callee::Operator(name) if attrs.is_empty() => {
                match (lookup(name)?.name, args.as_slice()) {
                    ("memory.alloc_tensor" | "memory.view", _) => {
                        self.statics.storage_of(binding.var).map(|_| Member::Names)
                    }
                    ("memory.kill_tensor", [Atom::Var(tensor)]) => {
                        let is_ours = self.statics.storage_of(*tensor).is_some()
                            && self.statics.is_released_once(*tensor);
                        is_ours.then_some(Member::Releases(*tensor))
                    }
                    ("memory.kill_storage", [Atom::Var(storage)]) => {
                        self.statics.is_storage(*storage).then_some(Member::ReleasesStorage)
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The part of a run that is worth recording: up to its last launch, and releases after it.
    fn region(&mut self, run: &[(&Binding, Member)]) {
        let is_launch = |(_, member): &(&Binding, Member)| matches!(member, Member::Launch);
        let launches = run.iter().filter(|item| is_launch(item)).count();
        let last = run.iter().rposition(is_launch);
        let (Some(last), true) = (last, launches >= FEWEST) else { return };
        let from =
            run.iter().position(|(_, member)| matches!(member, Member::Launch | Member::Names));
        let from = from.expect("invariant: there are launches");
        let bound: BTreeSet<VarId> = run[from..=last].iter().map(|(b, _)| b.var).collect();
        let releases = |(_, member): &&(&Binding, Member)| {
            matches!(member, Member::Releases(_) | Member::ReleasesStorage)
        };
        let end = last + 1 + run[last + 1..].iter().take_while(releases).count();
        let members = &run[from..end];
        let later = members.iter().filter_map(|(binding, member)| match member {
            Member::Releases(tensor) if !bound.contains(tensor) => Some(binding.var),
            Member::ReleasesStorage => Some(binding.var),
            _ => None,
        });
        let later: BTreeSet<VarId> = later.collect();
        let mut inside: BTreeMap<VarId, usize> = BTreeMap::new();
        let mut storages = BTreeSet::new();
        for (binding, _) in members {
            let mut used = BTreeSet::from([binding.var]);
            expr_uses(&binding.expr, &mut used);
            for var in used {
                let mentioned = var != binding.var;
                *inside.entry(var).or_default() += usize::from(mentioned);
                storages.extend(self.statics.storage_of(var));
                storages.extend(Some(var).filter(|&var| self.statics.is_storage(var)));
            }
        }
        let total = |var: &VarId| self.mentions.get(var).copied().unwrap_or(0);
        let results = members.iter().map(|(binding, _)| binding.var);
        let results = results.filter(|var| total(var) > inside[var]).collect();
        let is_tensor = |var: &&VarId| !self.statics.is_storage(**var) && !bound.contains(*var);
        let tensors = inside.keys().filter(is_tensor).copied().collect();
        let (first, length) = (members[0].0.var, members.len());
        self.found.push(Region { first, length, launches, storages, tensors, results, later });
    }
}

/// Puts calls in the place of regions.
pub(super) struct Rewriting<'a, 'f> {
    /// By their first bindings.
    pub(super) by_first: BTreeMap<VarId, &'a Region>,
    pub(super) outline: &'a mut Outline<'f>,
    pub(super) fresh: &'a mut Fresh,
}

impl Rewriting<'_, '_> {
    /// In a body and the branches in it.
    pub(super) fn body(&mut self, body: &mut Body) {
        body.blocks.iter_mut().for_each(|block| self.block(block));
    }

    fn block(&mut self, block: &mut Block) {
        let mut bindings = Vec::with_capacity(block.bindings.len());
        let mut left = std::mem::take(&mut block.bindings).into_iter();
        while let Some(mut binding) = left.next() {
            if let Expr::If { then, otherwise, .. } = &mut binding.expr {
                self.body(then);
                self.body(otherwise);
            }
            match self.by_first.get(&binding.var).copied() {
                Some(region) => {
                    let members =
                        std::iter::once(binding).chain(left.by_ref().take(region.length - 1));
                    let (later, members) = members.partition(|b| region.later.contains(&b.var));
                    self.call(region, members, later, &mut bindings);
                }
                None => bindings.push(binding),
            }
        }
        block.bindings = bindings;
    }

    fn call(
        &mut self,
        region: &Region,
        members: Vec<Binding>,
        later: Vec<Binding>,
        out: &mut Vec<Binding>,
    ) {
        let span = self.fresh.vars[region.first.0 as usize].span;
        let (name, first) = ("cuda_graph_capture".to_owned(), region.tensors.clone());
        let label = Label { name, marks: Vec::new(), first };
        let vars: Vec<Atom> = region.results.iter().map(|&var| Atom::Var(var)).collect();
        let result = match vars.as_slice() {
            [one] => one.clone(),
            _ => Atom::Tuple(vars),
        };
        let (name, mut args) = self.outline.region(label, members, result);
        args.insert(0, Atom::Global(name));
        let var = match region.results.as_slice() {
            [one] => *one,
            [] => self.fresh.unit(span),
            _ => self.fresh.var("captured", None, span),
        };
        out.push(built_in(var, RUN_OR_CAPTURE, args));
        if region.results.len() > 1 {
            let parts = region.results.iter().enumerate();
            out.extend(
                parts.map(|(at, &part)| Binding { var: part, expr: Expr::Get(Atom::Var(var), at) }),
            );
        }
        out.extend(later);
    }
}
