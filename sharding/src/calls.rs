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

/// A layout of each operand and of the results under which a call on shards is the shard of the call.
#[derive(Clone)]
pub(crate) struct Choice {
    pub(crate) operands: Vec<Layout>,
    pub(crate) result: Layout,
}

/// Every choice whose placements are proved for all dims.
pub(crate) fn choices(
    site: &Site,
    axes: &Axes,
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
                let mut choice = choice.clone();
                for (layout, placement) in choice.operands.iter_mut().zip(&strategy.operands) {
                    layout.push(*placement);
                }
                choice.result.push(strategy.result);
                if choice.operands.iter().chain([&choice.result]).all(|layout| is_legal(layout)) {
                    next.push((choice, local));
                }
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
