//! Write coverage: which statements write every element of a buffer.
//!
//! Nests over the whole shape are recognized here, and nests that count their iterations over blocks and
//! threads in [`launches`].

pub(crate) mod launches;

use crate::dims::as_expr;
use crate::kernel_kind::{Nest, output_of};
use relax_semantics::tir::walk::visit;
use relax_syntax::dim::Dim;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Loop, ScalarId, Stmt, StmtKind, TExpr};
use std::collections::BTreeSet;

/// Whether some statement of a body writes every element of a buffer, whatever the dims are.
#[must_use]
pub fn is_covered(program: &TensorProgram, body: &[Stmt], buffer: BufferId) -> bool {
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
        let each = WholeLoopStores::of(program, stmt, buffer).into_iter();
        let each = each.filter(|found| found.slice.iter().all(Option::is_none));
        nest.into_iter().chain(each.map(|found| found.positive)).min_by_key(BTreeSet::len)
    });
    ways.min_by_key(BTreeSet::len)
}

/// Elements of a buffer: at each axis those with an index, or all.
pub type Slice = Vec<Option<TExpr>>;

/// Elements that a statement writes whatever the dims are. Indices are of variables that are bound around it.
#[must_use]
pub fn written_slices(program: &TensorProgram, stmt: &Stmt, buffer: BufferId) -> Vec<Slice> {
    let found = WholeLoopStores::of(program, std::slice::from_ref(stmt), buffer);
    found.into_iter().filter(|it| it.positive.is_empty()).map(|it| it.slice).collect()
}

/// What a store at the variables of whole loops comes to.
struct WrittenElements {
    slice: Slice,
    /// The dims that must be at least 1 for that.
    positive: BTreeSet<Dim>,
}

/// The stores to a buffer in some statements, where they stand in whole loops, blocks and nothing else: with others before and
/// after them, as where a sum is formed first.
struct WholeLoopStores<'s> {
    shape: &'s [Dim],
    buffer: BufferId,
    /// Around the place.
    loops: Vec<&'s Loop>,
    /// Names of values that were given in the statements.
    named: BTreeSet<ScalarId>,
    found: Vec<WrittenElements>,
}

impl<'s> WholeLoopStores<'s> {
    fn of(program: &'s TensorProgram, body: &'s [Stmt], buffer: BufferId) -> Vec<WrittenElements> {
        let shape = &program.buffer(buffer).shape;
        let (loops, named, found) = (Vec::new(), BTreeSet::new(), Vec::new());
        let mut stores = WholeLoopStores { shape, buffer, loops, named, found };
        stores.search(body);
        stores.found
    }

    fn search(&mut self, body: &'s [Stmt]) {
        for stmt in body {
            match &stmt.kind {
                StmtKind::For { loops, kind, body } if kind.is_sequential() => {
                    let outer = self.loops.len();
                    self.loops.extend(loops);
                    self.search(body);
                    self.loops.truncate(outer);
                }
                StmtKind::Block { axes, body, .. } if axes.is_empty() => self.search(body),
                StmtKind::Let { var, .. } => _ = self.named.insert(*var),
                StmtKind::Store { buffer, indices, update: None, .. } if *buffer == self.buffer => {
                    let written = self.written_elements(indices);
                    self.found.extend(written);
                }
                _ => {}
            }
        }
    }

    fn written_elements(&self, indices: &[TExpr]) -> Option<WrittenElements> {
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
        Some(WrittenElements { slice, positive })
    }

    /// What an index comes to: all of an axis, or one element of it.
    fn axis(&self, index: &TExpr, dim: &Dim) -> Option<Option<TExpr>> {
        if *index == TExpr::Int(0) && *dim == Dim::Int(1) {
            return Some(None);
        }
        if let TExpr::Scalar(var) = index
            && let Some(item) = self.loops.iter().find(|item| item.var == *var)
        {
            let is_whole = item.start == TExpr::Int(0) && item.stop == as_expr(dim);
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
#[must_use]
pub fn writes_output(program: &TensorProgram) -> bool {
    let Some((body, output)) = program.body.as_ref().zip(output_of(program)) else { return false };
    Nest::of(program).is_some_and(|nest| nest.writes_all()) || is_covered(program, body, output)
}
