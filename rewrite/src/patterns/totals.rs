//! Which tensor programs never stop on inputs of the right shapes whose elements are all written.

use super::nest::{Nest, output_of};
use super::reads::reads_of;
use crate::kernels::extent;
use crate::programs::ranges::{Ranges, assume_declared};
use crate::programs::total::Total;
use relax_semantics::tir::walk::visit;
use relax_syntax::dim::Dim;
use relax_syntax::facts::Facts;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Loop, LoopKind, Param, ScalarId, Stmt, StmtKind, TExpr};
use std::collections::BTreeSet;

/// What is known of a program that never stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Every element of its output is written, whatever the dims are.
    pub(crate) writes_all: bool,
}

impl Totals {
    /// `None`: it may stop. Known is it of a nest whose reads are proved to be in bounds, with no operation
    /// that some operands have no value for.
    pub(crate) fn of(program: &TensorProgram, facts: &mut dyn Facts) -> Option<Self> {
        let nest = Nest::of(program)?;
        reads_of(program, &nest)?;
        let plain_dims = nest.extents.values().chain(program.buffers.iter().flat_map(|b| &b.shape));
        let only_buffers = program.params.iter().all(|param| matches!(param, Param::Buffer(_)));
        let total = only_buffers
            && program.dims.iter().all(|dim| !dim.has_facts())
            && plain_dims.into_iter().all(|dim| matches!(dim, Dim::Var(_) | Dim::Int(0..)))
            && never_stops(program, &nest, facts);
        total.then_some(Totals { writes_all: nest.writes_all() })
    }
}

/// Whether some statement of a body writes every element of a buffer, whatever the dims are.
pub(crate) fn is_covered(program: &TensorProgram, body: &[Stmt], buffer: BufferId) -> bool {
    covered_where(program, body, buffer).is_some_and(|positive| positive.is_empty())
}

/// The dims that must be at least 1 for some statement of a body to write every element of a buffer; `None` where nobody knows
/// of one that does.
#[must_use]
pub fn covered_where(
    program: &TensorProgram,
    body: &[Stmt],
    buffer: BufferId,
) -> Option<BTreeSet<Dim>> {
    let ways = body.iter().filter_map(|stmt| {
        let stmt = std::slice::from_ref(stmt);
        let nest = Nest::of_body(program, stmt, buffer).and_then(|nest| nest.writes_all_where());
        let each = Stores::of(program, stmt, buffer).into_iter();
        let each = each.filter(|found| found.slice.iter().all(Option::is_none));
        nest.into_iter().chain(each.map(|found| found.positive)).min_by_key(BTreeSet::len)
    });
    ways.min_by_key(BTreeSet::len)
}

/// What is known of the elements of a parameter of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elements {
    /// The program may read one that it has not written before.
    pub are_read_first: bool,
    /// It writes all of them where these dims are at least 1; `None`: nobody knows when it does.
    pub are_written_where: Option<BTreeSet<Dim>>,
}

impl Elements {
    /// Whether the program writes all of them before it reads one.
    #[must_use]
    pub fn are_filled(&self) -> bool {
        let always = self.are_written_where.as_ref().is_some_and(BTreeSet::is_empty);
        always && !self.are_read_first
    }
}

/// Elements of a buffer: at each axis those with an index, or all.
pub type Slice = Vec<Option<TExpr>>;

/// Elements that a statement writes whatever the dims are. Indices are of variables that are bound around it.
#[must_use]
pub fn written_slices(program: &TensorProgram, stmt: &Stmt, buffer: BufferId) -> Vec<Slice> {
    let found = Stores::of(program, std::slice::from_ref(stmt), buffer);
    found.into_iter().filter(|it| it.positive.is_empty()).map(|it| it.slice).collect()
}

/// What a store at the variables of whole loops comes to.
struct Reached {
    slice: Slice,
    /// The dims that must be at least 1 for that.
    positive: BTreeSet<Dim>,
}

/// The stores to a buffer in some statements, where they stand in whole loops, blocks and nothing else: with others before and
/// after them, as where a sum is formed first.
struct Stores<'s> {
    shape: &'s [Dim],
    buffer: BufferId,
    /// Around the place.
    loops: Vec<&'s Loop>,
    /// Names of values that were given in the statements.
    named: BTreeSet<ScalarId>,
    found: Vec<Reached>,
}

impl<'s> Stores<'s> {
    fn of(program: &'s TensorProgram, body: &'s [Stmt], buffer: BufferId) -> Vec<Reached> {
        let shape = &program.buffer(buffer).shape;
        let (loops, named, found) = (Vec::new(), BTreeSet::new(), Vec::new());
        let mut stores = Stores { shape, buffer, loops, named, found };
        stores.search(body);
        stores.found
    }

    fn search(&mut self, body: &'s [Stmt]) {
        for stmt in body {
            match &stmt.kind {
                StmtKind::For { loops, kind: LoopKind::Grid | LoopKind::Serial, body } => {
                    let outer = self.loops.len();
                    self.loops.extend(loops);
                    self.search(body);
                    self.loops.truncate(outer);
                }
                StmtKind::Block { axes, body, .. } if axes.is_empty() => self.search(body),
                StmtKind::Let { var, .. } => _ = self.named.insert(*var),
                StmtKind::Store { buffer, indices, update: None, .. } if *buffer == self.buffer => {
                    let reached = self.reached(indices);
                    self.found.extend(reached);
                }
                _ => {}
            }
        }
    }

    fn reached(&self, indices: &[TExpr]) -> Option<Reached> {
        let axes = indices.iter().zip(self.shape).map(|(index, dim)| self.axis(index, dim));
        let slice: Slice = axes.collect::<Option<_>>()?;
        let mut positive = BTreeSet::new();
        for item in &self.loops {
            let places = indices.iter().filter(|index| **index == TExpr::Scalar(item.var)).count();
            match (places, &item.stop) {
                (1, _) => {}
                (0, TExpr::Int(1..)) if item.start == TExpr::Int(0) => {}
                (0, TExpr::Dim(name)) if item.start == TExpr::Int(0) => {
                    positive.insert(Dim::Var(name.clone()));
                }
                _ => return None,
            }
        }
        Some(Reached { slice, positive })
    }

    /// What an index comes to: all of an axis, or one element of it.
    fn axis(&self, index: &TExpr, dim: &Dim) -> Option<Option<TExpr>> {
        if *index == TExpr::Int(0) && *dim == Dim::Int(1) {
            return Some(None);
        }
        if let TExpr::Scalar(var) = index
            && let Some(item) = self.loops.iter().find(|item| item.var == *var)
        {
            let is_whole = item.start == TExpr::Int(0) && item.stop == extent(dim);
            return is_whole.then_some(None);
        }
        let mut is_fixed = true;
        visit(index, &mut |part| {
            is_fixed &= match part {
                TExpr::Load { .. } => false,
                TExpr::Scalar(var) => {
                    !self.named.contains(var) && self.loops.iter().all(|item| item.var != *var)
                }
                _ => true,
            };
        });
        is_fixed.then(|| Some(index.clone()))
    }
}

/// Whether a statement writes every element of a buffer, whatever the dims are, and reads none of them
/// before.
#[must_use]
pub fn initializes(program: &TensorProgram, stmt: &Stmt, buffer: BufferId) -> bool {
    let Some(nest) = Nest::of_body(program, std::slice::from_ref(stmt), buffer) else {
        return false;
    };
    let mut reads = false;
    for expr in &nest.read {
        visit(expr, &mut |part| {
            reads |= matches!(part, TExpr::Load { buffer: read, .. } if *read == buffer);
        });
    }
    nest.writes_all() && !reads
}

/// Whether a program that ends has written every element of its output.
pub(crate) fn writes_output(program: &TensorProgram) -> bool {
    let Some((body, output)) = program.body.as_ref().zip(output_of(program)) else { return false };
    Nest::of(program).is_some_and(|nest| nest.writes_all()) || is_covered(program, body, output)
}

/// Whether all that a nest evaluates has a value for all of its iterations.
pub(crate) fn never_stops(program: &TensorProgram, nest: &Nest, facts: &mut dyn Facts) -> bool {
    facts.push();
    assume_declared(facts, &program.dims);
    let mut ranges = Ranges::default();
    for (&var, dim) in &nest.extents {
        ranges.enter(facts, &Loop { var, start: TExpr::Int(0), stop: extent(dim) });
    }
    for (var, value) in nest.scalars.bound() {
        ranges.bind(var, value);
    }
    let mut total = Total::new(program, facts);
    // An axis is compared with its extent, which is not looked at here.
    let never = !nest.has_axes && nest.read.iter().all(|expr| total.has_value(&ranges, expr));
    facts.pop();
    never
}
