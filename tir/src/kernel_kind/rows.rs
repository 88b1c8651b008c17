//! Row-wise programs: which tensor programs go row by row: the same outermost loops are around everything that they do, and what they write
//! stands at these loops' places.

use super::nest::output_of;
use super::{Analysis, KernelKind};
use crate::dims::as_expr;
use crate::products::sums_products;
use relax_semantics::tir::walk::{accesses, stored, visit_statements};
use relax_syntax::dim::Dim;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Loop, Stmt, StmtKind, TExpr};
use std::collections::{BTreeMap, BTreeSet};

/// The rows of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// How many loops it has around everything; one at least.
    pub loops: usize,
    /// For each buffer at how many of its first indices nothing stands but the variables of these loops, in their order.
    pub own: BTreeMap<BufferId, usize>,
}

impl Rows {
    /// `None`: another program, or one with a sum of products, which has a schedule of its own.
    pub fn of(program: &TensorProgram) -> Option<Self> {
        let nests = nests(program)?;
        let sums = nests.iter().any(|(_, body)| sums_products(body));
        if sums { None } else { rows(program, &nests, &BTreeSet::new()) }
    }

    /// The same for as many rows as `axes` loops count, or more. Sums of products are rows too. Workspaces that are not at
    /// their row somewhere, such as a matrix that is scaled first, are filled beside the rows: in full, before they are read.
    pub fn along(program: &TensorProgram, axes: usize) -> Option<Self> {
        let nests = nests(program)?;
        let output = output_of(program)?;
        let mut beside = BTreeSet::new();
        loop {
            if let Some(rows) = rows(program, &nests, &beside)
                && rows.loops >= axes
            {
                return Some(rows);
            }
            // What lies beside the rows is not at them somewhere; this says so of more and more.
            let own = places(&nests, &beside);
            let stands_aside = |buffer: &BufferId| {
                let few = own.get(buffer).is_none_or(|&own| own < axes);
                few && *buffer != output && !program.is_param(*buffer)
            };
            let all = nests.iter().flat_map(|(_, body)| stored(body));
            let more: BTreeSet<BufferId> = all.filter(stands_aside).collect();
            if more.is_subset(&beside) {
                return None;
            }
            beside.extend(more);
        }
    }
}

/// Loops with what they do, for each statement that is no allocation.
type Nests<'p> = Vec<(&'p [Loop], &'p [Stmt])>;

/// The nests that a program is made of; `None` if it has other statements, or is to stay alone.
fn nests(program: &TensorProgram) -> Option<Nests<'_>> {
    // Who records less than is found wants it alone.
    let recorded = KernelKind::recorded(program);
    if recorded.is_some_and(|recorded| recorded > Analysis::of(program).kind) {
        return None;
    }
    let statements = program.body.as_ref()?.iter();
    let nests = statements.filter_map(|stmt| match &stmt.kind {
        StmtKind::Alloc(_) => None,
        StmtKind::For { loops, kind, body } if kind.is_sequential() && is_plain(body) => {
            Some(Some((loops.as_slice(), body.as_slice())))
        }
        _ => Some(None),
    });
    nests.collect()
}

/// For each buffer at how many of its first indices the loops around stand, in the nests that do not fill what is `beside` rows.
fn places(nests: &Nests, beside: &BTreeSet<BufferId>) -> BTreeMap<BufferId, usize> {
    let mut own = BTreeMap::new();
    for (loops, body) in nests {
        // What is read beside the rows is read at none of them.
        let vars: &[Loop] = if stored(body).is_disjoint(beside) { loops } else { &[] };
        accesses(body, &mut |buffer, indices, _| {
            let stays = indices.iter().zip(vars);
            let stays = stays.take_while(|(index, item)| **index == TExpr::Scalar(item.var));
            let (stays, known) = (stays.count(), own.entry(buffer).or_insert(usize::MAX));
            *known = stays.min(*known);
        });
    }
    own
}

fn rows(program: &TensorProgram, nests: &Nests, beside: &BTreeSet<BufferId>) -> Option<Rows> {
    let output = output_of(program)?;
    let extents = &program.buffer(output).shape;
    let mut count = extents.len();
    let mut written = BTreeSet::from([output]);
    for (loops, body) in nests {
        let stores = stored(body);
        if !stores.is_empty() && stores.is_subset(beside) {
            continue;
        }
        let rows = loops.iter().zip(extents).take_while(|(item, dim)| goes_through(item, dim));
        count = count.min(rows.count());
        written.extend(stores);
    }
    let own = places(nests, beside);
    let least = written.iter().filter_map(|buffer| own.get(buffer)).min();
    let loops = count.min(*least?);
    (loops > 0).then_some(Rows { loops, own })
}

/// From 0 to the dim.
fn goes_through(item: &Loop, dim: &Dim) -> bool {
    item.start == TExpr::Int(0) && item.stop == as_expr(dim)
}

/// Loops, branches and stores: nothing that names values, and nothing that waits.
fn is_plain(body: &[Stmt]) -> bool {
    let mut plain = true;
    visit_statements(body, &mut |stmt| {
        plain &= match &stmt.kind {
            StmtKind::For { .. } | StmtKind::If { .. } | StmtKind::Store { .. } => true,
            StmtKind::Block { axes, .. } => axes.is_empty(),
            StmtKind::Alloc(_) | StmtKind::Let { .. } | StmtKind::Barrier | StmtKind::Check(_) => {
                false
            }
        };
    });
    plain
}
