//! Which allocated buffers might be read where nothing was written: kernels watch those element by element.
//!
//! A read is known to find a value after a statement that writes every element, after a store to the same
//! indices on the way to it, and in a block whose `init` stores to the same indices at the first iteration.

use relax_rewrite::patterns::{initializes, visit};
use relax_rewrite::products::flat;
use relax_syntax::dim::Dim;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{Axis, BufferId, Param, Stmt, StmtKind, TExpr};
use std::collections::BTreeSet;

/// The buffers of a program with a read that is not known to find a value.
#[must_use]
pub fn unproved(program: &TensorProgram) -> BTreeSet<BufferId> {
    walked(program, Known::default())
}

/// The same with the parameters among them, as if nothing had been written to those before.
#[must_use]
pub fn unproved_with_parameters(program: &TensorProgram) -> BTreeSet<BufferId> {
    let params = program.params.iter().filter_map(|param| match param {
        Param::Buffer(id) => Some(*id),
        Param::Scalar(_) | Param::Dim(_) => None,
    });
    let allocated: BTreeSet<BufferId> = params.collect();
    walked(program, Known { straight: allocated.clone(), allocated, ..Known::default() })
}

fn walked(program: &TensorProgram, known: Known) -> BTreeSet<BufferId> {
    let mut walk = Walk { program, known, unproved: BTreeSet::new() };
    walk.body(program.body.as_deref().unwrap_or(&[]));
    walk.unproved
}

/// What is known where the walk is.
#[derive(Clone, Debug, Default)]
struct Known {
    allocated: BTreeSet<BufferId>,
    /// Every element of these is written.
    whole: BTreeSet<BufferId>,
    /// These elements are.
    elements: Vec<(BufferId, Vec<TExpr>)>,
    /// Buffers whose allocation is separated from here by loops with fixed bounds only.
    straight: BTreeSet<BufferId>,
    /// Loops around.
    depth: usize,
}

struct Walk<'p> {
    program: &'p TensorProgram,
    known: Known,
    unproved: BTreeSet<BufferId>,
}

impl Walk<'_> {
    /// What a body makes known holds to its end only; in the outer body it may not have run.
    fn body(&mut self, body: &[Stmt]) {
        let outer = self.known.clone();
        for stmt in body {
            self.stmt(stmt);
            let whole: Vec<BufferId> = self.known.allocated.iter().copied().collect();
            for buffer in whole {
                if initializes(self.program, stmt, buffer) || covers(self.program, stmt, buffer) {
                    self.known.whole.insert(buffer);
                }
            }
        }
        self.known = outer;
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::For { loops, body, .. } => {
                let outer = (self.known.straight.clone(), self.known.depth);
                self.known.depth += loops.len();
                for item in loops {
                    self.read(&item.start);
                    self.read(&item.stop);
                    if !is_fixed(&item.start) || !is_fixed(&item.stop) {
                        self.known.straight.clear();
                    }
                }
                self.body(body);
                (self.known.straight, self.known.depth) = outer;
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
            StmtKind::Let { value, .. } => self.read(value),
            StmtKind::If { condition, then, otherwise } => {
                self.read(condition);
                let straight = std::mem::take(&mut self.known.straight);
                self.body(then);
                self.body(otherwise);
                self.known.straight = straight;
            }
            StmtKind::Alloc(buffer) => self.fresh(*buffer),
            StmtKind::Barrier => {}
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
        self.known.elements.retain(|(other, _)| *other != buffer);
    }

    fn wrote(&mut self, buffer: BufferId, indices: &[TExpr]) {
        if indices.iter().all(|index| !loads(index)) {
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
            || known.elements.iter().any(|(other, at)| *other == buffer && at == indices);
        if !found {
            self.unproved.insert(buffer);
        }
    }
}

/// Whether a nest stores to every element of a buffer: its loops are those over the extents, and each
/// iteration comes to such a store.
fn covers(program: &TensorProgram, stmt: &Stmt, buffer: BufferId) -> bool {
    let (loops, body) = flat(std::slice::from_ref(stmt));
    let shape = &program.buffer(buffer).shape;
    let whole = |index: &TExpr, extent: &Dim| {
        loops.iter().any(|item| {
            let stop = match &item.stop {
                TExpr::Int(value) => Dim::Int(*value),
                TExpr::Dim(name) => Dim::Var(name.clone()),
                _ => return false,
            };
            *index == TExpr::Scalar(item.var) && item.start == TExpr::Int(0) && stop == *extent
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

/// Whether a bound is the same in every iteration of all loops.
fn is_fixed(bound: &TExpr) -> bool {
    let mut fixed = true;
    visit(bound, &mut |part| fixed &= !matches!(part, TExpr::Scalar(_) | TExpr::Load { .. }));
    fixed
}

fn loads(expr: &TExpr) -> bool {
    let mut found = false;
    visit(expr, &mut |part| found |= matches!(part, TExpr::Load { .. }));
    found
}

fn mentions(expr: &TExpr, scalar: &TExpr) -> bool {
    let mut found = false;
    visit(expr, &mut |part| found |= part == scalar);
    found
}
