//! The layouts that a call may have, and its arguments on a shard.

use crate::layout::{Axes, Layout, is_legal};
use relax_semantics::ops::Known;
use relax_syntax::annotation::Placement;
use relax_syntax::dim::Dim;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{Atom, Module};
use relax_theorems::placement::blocks::{names, on_shards};
use relax_theorems::placement::calls::Site;
use relax_theorems::placement::{Strategy, candidates};
use std::collections::BTreeSet;

/// A layout of each operand and of the results under which a call on shards is the shard of the call.
#[derive(Clone)]
pub(crate) struct Choice {
    pub(crate) operands: Vec<Layout>,
    pub(crate) result: Layout,
}

impl Choice {
    /// With a placement of each operand, and of the result, along one more axis.
    fn with(&self, placement: &dyn Fn(Option<usize>) -> Placement) -> Self {
        let mut own = self.clone();
        for (at, layout) in own.operands.iter_mut().enumerate() {
            layout.push(placement(Some(at)));
        }
        own.result.push(placement(None));
        own
    }
}

/// Every choice whose placements are proved for all dims, and those by which one of the workers of `stages` alone computes the call.
pub(crate) fn choices(
    site: &Site,
    (axes, stages): (&Axes, &BTreeSet<(usize, usize)>),
    module: &Module,
    facts: &mut dyn Facts,
) -> Vec<Choice> {
    let none = Choice { operands: vec![Vec::new(); site.call.operands.len()], result: Vec::new() };
    let mut found = vec![(none, site.call.clone())];
    for axis in 0..axes.ranks.len() {
        let mut next = Vec::new();
        for (choice, call) in found {
            let mut strategies = vec![Strategy::replicated(call.operands.len())];
            strategies.extend(candidates(&call, facts));
            for strategy in strategies {
                let along = (axis, &axes.workers[axis]);
                let Some(local) = on_shards(&call, &strategy, along, module, facts) else {
                    continue;
                };
                let choice = choice.with(&|operand| match operand {
                    Some(operand) => strategy.operands[operand],
                    None => strategy.result,
                });
                if choice.operands.iter().chain([&choice.result]).all(|layout| is_legal(layout)) {
                    next.push((choice, local));
                }
            }
            for (_, stage) in stages.iter().filter(|(own, _)| *own == axis) {
                next.push((choice.with(&|_| Placement::Only(*stage)), call.clone()));
            }
        }
        found = next;
    }
    found.into_iter().map(|(choice, _)| choice).collect()
}

/// The atoms of a shape with the local extents of the result.
pub(crate) fn localized(
    atom: &Atom,
    dims: &[Dim],
    layout: &[Placement],
    axes: &Axes,
    facts: &mut dyn Facts,
) -> Atom {
    let local = axes.local(dims, layout);
    let mut entry = |at: usize, own: &Dim| {
        let is_cut = layout.contains(&Placement::Sharded(at));
        if is_cut && names(&Known::Dim(own.clone()), &dims[at], facts) {
            local[at].clone()
        } else {
            own.clone()
        }
    };
    match atom {
        Atom::Shape(entries) if entries.len() == dims.len() => {
            Atom::Shape(entries.iter().enumerate().map(|(at, own)| entry(at, own)).collect())
        }
        Atom::Tuple(items) | Atom::List(items) if items.len() == dims.len() => {
            let item = |(at, item): (usize, &Atom)| match item {
                Atom::Dim(own) => Atom::Dim(entry(at, own)),
                other => other.clone(),
            };
            let items = items.iter().enumerate().map(item).collect();
            if matches!(atom, Atom::Tuple(_)) { Atom::Tuple(items) } else { Atom::List(items) }
        }
        other => other.clone(),
    }
}
