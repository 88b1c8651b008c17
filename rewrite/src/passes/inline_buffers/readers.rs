//! Whether the reads of a buffer may be computed in their places.

use super::producer::{Producer, reads};
use relax_semantics::tir::ranges::{Ranges, assume_declared};
use relax_semantics::tir::walk::visit_statements;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::Facts;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{Stmt, StmtKind, TExpr};
use relax_tir::products::adds_products;
use std::collections::BTreeSet;

/// Whether each read of what `producer` writes is in bounds, may be where it is, and nothing that
/// the producer reads is written before.
pub(super) fn may_read_inlined(
    program: &TensorProgram,
    producer: &Producer,
    after: &[Stmt],
    facts: &mut dyn Facts,
) -> bool {
    let mut unchanged = true;
    visit_statements(after, &mut |stmt| match &stmt.kind {
        StmtKind::Store { buffer, .. } => unchanged &= !producer.reads.contains(buffer),
        StmtKind::Alloc(id) => unchanged &= *id != producer.buffer,
        _ => {}
    });
    if !unchanged {
        return false;
    }
    facts.push();
    assume_declared(facts, &program.dims);
    let shape = &program.buffer(producer.buffer).shape;
    let mut readers = Readers {
        producer,
        saves_memory: producer.saves_memory(program),
        shape,
        facts,
        loops: Vec::new(),
        sets_first: false,
        columns_of_product: None,
        reads: 0,
    };
    let may = readers.body(after, &mut Ranges::default());
    let reads = readers.reads;
    facts.pop();
    // Without a read there is nothing to compute: the nest could be left out, but its loops are kept.
    may && reads > 0 && (reads == 1 || !producer.is_expensive())
}

struct Readers<'a> {
    producer: &'a Producer,
    saves_memory: bool,
    shape: &'a [Dim],
    facts: &'a mut dyn Facts,
    /// Variables of the loops around, in order.
    loops: Vec<Name>,
    /// Within a block that tells its reduction axes from what it uses.
    sets_first: bool,
    /// Within a sum of products, which has a schedule of its own where its factors are elements of buffers: the variables of the
    /// last index that it is stored at.
    columns_of_product: Option<BTreeSet<Name>>,
    reads: usize,
}

impl Readers<'_> {
    fn body(&mut self, body: &[Stmt], ranges: &mut Ranges) -> bool {
        body.iter().all(|stmt| self.stmt(stmt, ranges))
    }

    fn scoped(&mut self, body: &[Stmt], ranges: &Ranges, condition: Option<&TExpr>) -> bool {
        self.facts.push();
        if let Some(condition) = condition {
            ranges.assume(self.facts, condition);
        }
        let may = self.body(body, &mut ranges.clone());
        self.facts.pop();
        may
    }

    fn stmt(&mut self, stmt: &Stmt, ranges: &mut Ranges) -> bool {
        // Most stages of a long program do not read this buffer: their loops need no facts.
        let binds = matches!(stmt.kind, StmtKind::Let { .. });
        if !binds && !reads(stmt, self.producer.buffer) {
            return true;
        }
        let mut own = Vec::new();
        relax_semantics::tir::walk::visit_own(stmt, &mut |expr| own.push(expr));
        self.columns_of_product = adds_products(stmt).then(|| last_index(stmt, ranges));
        if !own.into_iter().all(|expr| self.expr(expr, ranges)) {
            return false;
        }
        match &stmt.kind {
            StmtKind::For { loops, body, .. } => {
                self.facts.push();
                let (mut within, outer) = (ranges.clone(), self.loops.len());
                for item in loops {
                    within.enter(self.facts, item);
                    self.loops.extend(within.name(item.var));
                }
                let may = self.body(body, &mut within);
                self.loops.truncate(outer);
                self.facts.pop();
                may
            }
            StmtKind::Block { axes, init, body, .. } => {
                let mut within = ranges.clone();
                axes.iter().for_each(|axis| within.bind(axis.var, &axis.value));
                let outer = self.sets_first;
                self.sets_first |= axes.is_empty() && !init.is_empty();
                let may = self.scoped(init, &within, None) && self.scoped(body, &within, None);
                self.sets_first = outer;
                may
            }
            StmtKind::If { condition, then, otherwise } => {
                self.scoped(then, ranges, Some(condition)) && self.scoped(otherwise, ranges, None)
            }
            StmtKind::Let { var, value } => {
                ranges.bind(*var, value);
                true
            }
            StmtKind::Store { .. }
            | StmtKind::Alloc(_)
            | StmtKind::Barrier
            | StmtKind::Check(_) => true,
        }
    }

    fn expr(&mut self, expr: &TExpr, ranges: &Ranges) -> bool {
        let all = |reader: &mut Self, operands: &[TExpr]| {
            operands.iter().all(|operand| reader.expr(operand, ranges))
        };
        match expr {
            TExpr::Load { buffer, indices } if *buffer == self.producer.buffer => {
                self.reads += 1;
                self.read(indices, ranges)
            }
            TExpr::Load { indices: operands, .. } | TExpr::Call(_, operands) => all(self, operands),
            TExpr::Unary(_, operand) | TExpr::Cast(_, operand) => self.expr(operand, ranges),
            TExpr::Binary(_, operands) => {
                self.expr(&operands.0, ranges) && self.expr(&operands.1, ranges)
            }
            TExpr::Select(parts) => {
                self.facts.push();
                ranges.assume(self.facts, &parts.0);
                let then = self.expr(&parts.1, ranges);
                self.facts.pop();
                then && self.expr(&parts.0, ranges) && self.expr(&parts.2, ranges)
            }
            _ => true,
        }
    }

    /// One read.
    fn read(&mut self, indices: &[TExpr], ranges: &Ranges) -> bool {
        let mut used = BTreeSet::new();
        for (index, extent) in indices.iter().zip(self.shape) {
            if !ranges.is_within(self.facts, index, extent) {
                return false;
            }
            if let Some(dim) = ranges.dim(index) {
                dim.visit_vars(&mut |name| _ = used.insert(name.clone()));
            }
        }
        let depends = self.loops.iter().all(|name| used.contains(name));
        // A variable that is used no more would be no axis of the block any more.
        let mut vars = self.producer.indices.iter().flatten();
        let keeps_axes = !self.sets_first || vars.all(|&var| self.producer.uses(var));
        // Schedules compute the factor that has the columns of the result, block by block; the other one stays in memory.
        let has_them = |columns: &BTreeSet<Name>| {
            self.saves_memory && (columns.is_empty() || !columns.is_disjoint(&used))
        };
        let keeps_product = self.columns_of_product.as_ref().is_none_or(has_them);
        keeps_axes && (depends || (keeps_product && !self.producer.is_expensive()))
    }
}

/// The variables of the last index of a store.
fn last_index(stmt: &Stmt, ranges: &Ranges) -> BTreeSet<Name> {
    let mut names = BTreeSet::new();
    if let StmtKind::Store { indices, .. } = &stmt.kind
        && let Some(dim) = indices.last().and_then(|index| ranges.dim(index))
    {
        dim.visit_vars(&mut |name| _ = names.insert(name.clone()));
    }
    names
}
