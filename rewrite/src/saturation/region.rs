//! Regions: runs of bindings of a block that never stop the program and have no effect, cut where a single value
//! goes on, as after each layer of a network. A region is looked at alone, and layers are alike.

use relax_syntax::ir::{Binding, Callee, Expr, VarId};
use relax_syntax::resolve::expr_uses;
use std::collections::BTreeSet;
use std::ops::Range;

/// The most bindings that a region has: terms share much, and an explanation shares nothing.
const MOST_BINDINGS: usize = 48;

/// The regions among the bindings of a block. `eligible` says of each binding whether it may be part of one,
/// `outputs` are the variables that are used after the block.
pub(super) fn regions(
    bindings: &[Binding],
    eligible: &[bool],
    outputs: &BTreeSet<VarId>,
) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut begin = 0;
    while begin < bindings.len() {
        let length = eligible[begin..].iter().take_while(|eligible| **eligible).count();
        if length == 0 {
            begin += 1;
            continue;
        }
        let run = begin..begin + length;
        cut(bindings, run.clone(), outputs, &mut found);
        begin = run.end;
    }
    found.retain(|range| bindings[range.clone()].iter().any(|binding| is_call(&binding.expr)));
    found
}

fn is_call(expr: &Expr) -> bool {
    matches!(expr, Expr::Call { callee: Callee::Operator(_), .. })
}

/// The least bindings before a cut: of operands that are computed one after the other the first alone is a single
/// value too. Where layers come again, so do the places of cuts, since each depends on the one before alone.
const LEAST_BINDINGS: usize = 10;

/// Cuts a run into regions.
fn cut(
    bindings: &[Binding],
    run: Range<usize>,
    outputs: &BTreeSet<VarId>,
    found: &mut Vec<Range<usize>>,
) {
    let narrow = narrow_places(bindings, &run, outputs);
    let mut begin = run.start;
    let mut last = run.start;
    for place in narrow.into_iter().chain([run.end]) {
        // A part of one binding goes with what is before it: the norm after a sum.
        let goes_on = place - last <= 1 || last - begin < LEAST_BINDINGS;
        if last > begin && (!goes_on || place - begin > MOST_BINDINGS) {
            found.push(begin..last);
            begin = last;
        }
        last = place;
        while last - begin > MOST_BINDINGS {
            found.push(begin..begin + MOST_BINDINGS);
            begin += MOST_BINDINGS;
        }
    }
    if last > begin {
        found.push(begin..last);
    }
}

/// The places before which exactly one value was computed in the run that is used behind them.
fn narrow_places(
    bindings: &[Binding],
    run: &Range<usize>,
    outputs: &BTreeSet<VarId>,
) -> Vec<usize> {
    let mut live: BTreeSet<VarId> = outputs.clone();
    for binding in &bindings[run.end..] {
        expr_uses(&binding.expr, &mut live);
    }
    let inside: BTreeSet<VarId> = bindings[run.clone()].iter().map(|binding| binding.var).collect();
    live.retain(|var| inside.contains(var));
    // What is seen after the run stays alive to its end; it does not hold layers together.
    let seen = live.clone();
    let mut narrow = Vec::new();
    for place in run.clone().rev() {
        let binding = &bindings[place];
        live.remove(&binding.var);
        let mut uses = BTreeSet::new();
        expr_uses(&binding.expr, &mut uses);
        live.extend(uses.into_iter().filter(|var| inside.contains(var)));
        let held = live.iter().filter(|var| !seen.contains(var)).count();
        if place > run.start && held <= 1 {
            narrow.push(place);
        }
    }
    narrow.reverse();
    narrow
}
