//! Definite initialization: which buffers might be read where no element was written before. Kernels have an
//! instrumented variant for those.
//!
//! A read is known to find a value after a statement that writes every element, after a store to the same
//! indices on the way to it, and in a block whose `init` stores to the same indices at the first iteration. After a condition
//! it is known to find what both branches wrote. At a barrier
//! threads know what all of them stored to the memory that they share, and after a launch what its threads stored.

mod branches;
mod shared_elements;

use super::access_summary::AccessSummary;
use super::write_coverage::launches::{ScalarValues, When, blocks_where, stores_all};
use super::write_coverage::{Part, Slice, covered_where, initializes, is_fixed, written_slices};
use crate::dims::as_expr;
use crate::launches::{is_thread_loop, reads, thread_axis};
use crate::products::flat;
use crate::workspaces::is_workspace;
use relax_semantics::tir::walk::visit;
use relax_syntax::dim::Dim;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{Axis, BufferId, Loop, ScalarId, Stmt, StmtKind, TExpr};
use std::collections::{BTreeMap, BTreeSet};

/// The buffers of a program with a read that is not known to find a value.
#[must_use]
pub fn unproved(program: &TensorProgram) -> BTreeSet<BufferId> {
    walked(program, DefiniteWrites::default())
}

/// The same with the parameters among them, as if nothing had been written to those before.
#[must_use]
pub fn unproved_with_parameters(program: &TensorProgram) -> BTreeSet<BufferId> {
    walked(program, unwritten(program.buffer_params().collect()))
}

/// The workspaces of a program with such a read: whatever they are given lies in them.
#[must_use]
pub fn unproved_workspaces(program: &TensorProgram) -> BTreeSet<BufferId> {
    let workspaces = program.buffer_params().filter(|buffer| is_workspace(program, *buffer));
    let allocated: BTreeSet<BufferId> = workspaces.collect();
    let mut found = walked(program, unwritten(allocated.clone()));
    found.retain(|buffer| allocated.contains(buffer));
    found
}

/// What a program does to the elements of each buffer among its parameters, in their order.
#[must_use]
pub fn summary_of_parameters(program: &TensorProgram) -> Vec<AccessSummary> {
    let body = program.body.as_deref().unwrap_or(&[]);
    let known = unwritten(program.buffer_params().collect());
    let mut walk = InitAnalysis { program, known, unproved: BTreeSet::new() };
    let whole = walk.body(body);
    let elements = |buffer| AccessSummary {
        are_read_first: walk.unproved.contains(&buffer),
        are_written_where: match whole.contains(&buffer) {
            true => Some(BTreeSet::new()),
            false => covered_where(program, body, buffer),
        },
    };
    program.buffer_params().map(elements).collect()
}

/// As if nothing had been written to some buffers before.
fn unwritten(allocated: BTreeSet<BufferId>) -> DefiniteWrites {
    DefiniteWrites { straight: allocated.clone(), allocated, ..DefiniteWrites::default() }
}

fn walked(program: &TensorProgram, known: DefiniteWrites) -> BTreeSet<BufferId> {
    let mut walk = InitAnalysis { program, known, unproved: BTreeSet::new() };
    walk.body(program.body.as_deref().unwrap_or(&[]));
    walk.unproved
}

/// The writes that have happened on every way to a statement.
#[derive(Clone, Debug, Default)]
pub(super) struct DefiniteWrites {
    pub(super) allocated: BTreeSet<BufferId>,
    /// Every element of these is written.
    pub(super) whole: BTreeSet<BufferId>,
    /// These elements are.
    pub(super) elements: Vec<(BufferId, Vec<TExpr>)>,
    /// The first threads along an axis stored to these, and no others did: nobody may read one before all have met.
    pub(super) by_first: Vec<(BufferId, Vec<TExpr>)>,
    /// Both branches of conditions stored to these, and nobody may read one before all have met.
    pub(super) either: BTreeMap<BufferId, BTreeSet<Vec<i64>>>,
    /// All of these are.
    pub(super) slices: Vec<(BufferId, Slice)>,
    /// Buffers whose allocation is separated from here by loops with fixed bounds only.
    pub(super) straight: BTreeSet<BufferId>,
    /// The loops around it that begin at 0, and where they stop.
    pub(super) loops: Vec<(ScalarId, TExpr)>,
    /// How many loops enclose it.
    pub(super) depth: usize,
    /// AccessSummary of shared memory that threads wrote before they met.
    pub(super) met: BTreeMap<BufferId, BTreeSet<Vec<i64>>>,
    /// Variables of loops over threads that are around, and of loops before that came to each of their stores, with their numbers.
    pub(super) threads: BTreeMap<ScalarId, i64>,
    /// What names stand for.
    pub(super) values: ScalarValues,
    /// Buffers of which launches wrote every element in some calls.
    pub(super) chosen: Vec<(BufferId, When)>,
}

pub(super) struct InitAnalysis<'p> {
    pub(super) program: &'p TensorProgram,
    pub(super) known: DefiniteWrites,
    pub(super) unproved: BTreeSet<BufferId>,
}

impl InitAnalysis<'_> {
    /// What a body makes known holds to its end only; in the outer body it may not have run. Gives what is whole at its end.
    fn body(&mut self, body: &[Stmt]) -> BTreeSet<BufferId> {
        self.at_end(body).whole
    }

    /// The same with all that is known at its end.
    fn at_end(&mut self, body: &[Stmt]) -> DefiniteWrites {
        let outer = self.known.clone();
        for stmt in body {
            let there = self.there_for(stmt);
            self.known.whole.extend(&there);
            self.stmt(stmt);
            self.known.whole.retain(|buffer| !there.contains(buffer));
            let open = self.known.allocated.difference(&self.known.whole);
            for buffer in open.copied().collect::<Vec<_>>() {
                self.slices(stmt, buffer);
                if initializes(self.program, stmt, buffer)
                    || covers(self.program, stmt, buffer)
                    || self.is_listed(buffer)
                {
                    self.known.whole.insert(buffer);
                }
            }
            if is_thread_loop(stmt) && self.known.threads.is_empty() {
                self.launched(stmt);
            }
        }
        std::mem::replace(&mut self.known, outer)
    }

    /// What launches stored in those calls in which another one has blocks, and what is not whole in all.
    fn there_for(&self, stmt: &Stmt) -> BTreeSet<BufferId> {
        if self.known.chosen.is_empty() || !self.known.threads.is_empty() {
            return BTreeSet::new();
        }
        let calls = blocks_where(&self.known.values, stmt);
        let chosen = self.known.chosen.iter();
        let there = chosen.filter(|(_, when)| calls.contains(when)).map(|(buffer, _)| *buffer);
        there.filter(|buffer| !self.known.whole.contains(buffer)).collect()
    }

    /// Notes what a statement stored in whole loops.
    fn slices(&mut self, stmt: &Stmt, buffer: BufferId) {
        for slice in written_slices(self.program, stmt, buffer) {
            if slice.iter().all(|part| *part == Part::All) {
                self.known.whole.insert(buffer);
            } else {
                self.known.slices.push((buffer, slice));
            }
        }
    }

    /// What the threads of a launch stored is there for the next one.
    fn launched(&mut self, stmt: &Stmt) {
        let open = self.known.allocated.difference(&self.known.whole);
        let open: Vec<BufferId> = open.copied().collect();
        for buffer in open {
            let Some(when) = stores_all(self.program, &self.known.values, stmt, buffer) else {
                continue;
            };
            let completes =
                |(other, at): &(BufferId, When)| *other == buffer && at.completes(&when);
            if when == When::Always || self.known.chosen.iter().any(completes) {
                self.known.whole.insert(buffer);
            } else {
                self.known.chosen.push((buffer, when));
            }
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::For { loops, kind, body } => {
                let outer = (self.known.straight.clone(), self.known.depth);
                let around = self.known.loops.len();
                self.known.depth += loops.len();
                for item in loops {
                    self.read(&item.start);
                    self.read(&item.stop);
                    if item.start == TExpr::Int(0) {
                        self.known.loops.push((item.var, item.stop.clone()));
                    }
                    if !is_fixed(&item.start) || !is_fixed(&item.stop) {
                        self.known.straight.clear();
                    }
                }
                let counts: Option<Vec<i64>> = loops.iter().map(count).collect();
                let threads = self.known.threads.clone();
                if let ([item], Some([count])) = (loops.as_slice(), counts.as_deref())
                    && thread_axis(kind).is_some()
                {
                    self.known.threads.insert(item.var, *count);
                }
                let whole = self.body(body);
                if counts.as_ref().is_some_and(|counts| counts.iter().all(|count| *count > 0)) {
                    self.known.whole.extend(whole.intersection(&self.known.allocated));
                }
                self.known.threads = threads;
                if let Some(counts) = counts.filter(|_| !is_thread_loop(stmt)) {
                    self.ran(loops.iter().map(|item| item.var).zip(counts), body);
                }
                (self.known.straight, self.known.depth) = outer;
                self.known.loops.truncate(around);
            }
            StmtKind::Block { axes, init, body, .. } => self.block(axes, init, body),
            StmtKind::Store { buffer, indices, update, value } => {
                indices.iter().for_each(|index| self.read(index));
                self.read(value);
                if update.is_some() {
                    self.load(*buffer, indices);
                }
                self.wrote(*buffer, indices);
            }
            StmtKind::Let { var, value } => {
                self.read(value);
                if !reads(value) {
                    self.known.values.insert(*var, value.clone());
                }
            }
            StmtKind::If { condition, then, otherwise } => {
                self.read(condition);
                let straight = std::mem::take(&mut self.known.straight);
                let written = self.branches([then, otherwise]);
                self.known.straight = straight;
                self.known.join(written);
                self.first_wrote(condition, then);
                self.either_wrote(condition, [then, otherwise], &[]);
            }
            StmtKind::Alloc(buffer) => self.fresh(*buffer),
            StmtKind::Barrier => self.meet(),
            StmtKind::Check(check) => self.read(&check.condition),
        }
    }

    fn fresh(&mut self, buffer: BufferId) {
        self.known.allocated.insert(buffer);
        // In a loop that the block reduces along, it would be another buffer in each iteration.
        if self.known.depth == 0 {
            self.known.straight.insert(buffer);
        }
        self.known.whole.remove(&buffer);
        self.known.met.remove(&buffer);
        self.known.elements.retain(|(other, _)| *other != buffer);
        self.known.by_first.retain(|(other, _)| *other != buffer);
        self.known.either.remove(&buffer);
        self.known.slices.retain(|(other, _)| *other != buffer);
        self.known.chosen.retain(|(other, _)| *other != buffer);
    }

    pub(super) fn wrote(&mut self, buffer: BufferId, indices: &[TExpr]) {
        if indices.iter().all(|index| !reads(index)) {
            self.known.elements.push((buffer, indices.to_vec()));
        }
    }

    /// With implicit axes, `init` runs at the first iteration for each element: the loops between the
    /// allocation and the block are the same for all of them.
    fn block(&mut self, axes: &[Axis], init: &[Stmt], body: &[Stmt]) {
        for axis in axes {
            self.read(&axis.extent);
            self.read(&axis.value);
        }
        let outer = self.known.clone();
        self.body(init);
        if axes.is_empty() {
            for stmt in init {
                if let StmtKind::Store { buffer, indices, .. } = &stmt.kind
                    && self.known.straight.contains(buffer)
                {
                    self.wrote(*buffer, indices);
                }
            }
        }
        self.body(body);
        self.known = outer;
        // A block is no loop: its plain stores have run when it ends.
        for stmt in body {
            if let StmtKind::Store { buffer, indices, .. } = &stmt.kind {
                let own_axes = axes.iter().any(|axis| {
                    indices.iter().any(|index| mentions(index, &TExpr::Scalar(axis.var)))
                });
                if !own_axes {
                    self.wrote(*buffer, indices);
                }
            }
        }
    }

    fn read(&mut self, expr: &TExpr) {
        visit(expr, &mut |part| {
            if let TExpr::Load { buffer, indices } = part {
                self.load(*buffer, indices);
            }
        });
    }

    fn load(&mut self, buffer: BufferId, indices: &[TExpr]) {
        let known = &self.known;
        let found = !known.allocated.contains(&buffer)
            || known.whole.contains(&buffer)
            || known.elements.iter().any(|(other, at)| *other == buffer && at == indices)
            || known
                .slices
                .iter()
                .any(|(other, slice)| *other == buffer && known.holds(slice, indices))
            || self.is_met(buffer, indices);
        if !found {
            self.unproved.insert(buffer);
        }
    }
}

impl DefiniteWrites {
    /// Whether an element is one of these.
    fn holds(&self, slice: &Slice, indices: &[TExpr]) -> bool {
        slice.iter().zip(indices).all(|(part, index)| match part {
            Part::All => true,
            Part::At(one) => one == index,
            Part::Below(bound) => {
                self.loops.iter().any(|(var, stop)| *index == TExpr::Scalar(*var) && stop == bound)
            }
        })
    }
}

/// Whether a nest stores to every element of a buffer: its loops are those over the extents, and each
/// iteration comes to such a store.
fn covers(program: &TensorProgram, stmt: &Stmt, buffer: BufferId) -> bool {
    let (loops, body) = flat(std::slice::from_ref(stmt));
    let shape = &program.buffer(buffer).shape;
    let whole = |index: &TExpr, extent: &Dim| {
        loops.iter().any(|item| {
            *index == TExpr::Scalar(item.var)
                && item.start == TExpr::Int(0)
                && item.stop == as_expr(extent)
        })
    };
    loops.len() == shape.len()
        && body.iter().any(|stmt| match &stmt.kind {
            StmtKind::Store { buffer: to, indices, .. } => {
                let places: BTreeSet<_> = indices
                    .iter()
                    .filter_map(
                        |index| if let TExpr::Scalar(var) = index { Some(*var) } else { None },
                    )
                    .collect();
                *to == buffer
                    && places.len() == shape.len()
                    && indices.iter().zip(shape).all(|(index, extent)| whole(index, extent))
            }
            _ => false,
        })
}

/// How often a loop runs, where the text has it.
fn count(item: &Loop) -> Option<i64> {
    match (&item.start, &item.stop) {
        (TExpr::Int(start), TExpr::Int(stop)) => stop.checked_sub(*start).filter(|_| *start == 0),
        _ => None,
    }
}

pub(super) fn mentions(expr: &TExpr, scalar: &TExpr) -> bool {
    let mut found = false;
    visit(expr, &mut |part| found |= part == scalar);
    found
}

#[cfg(test)]
mod tests;
