//! A kernel for rows that the threads of a block share: each goes through some of a row's elements, and what they come to is
//! combined by a tree in shared memory. A block has one row, or several that lie side by side.
//!
//! A step waits at a barrier exactly where it reads what another thread wrote since the last one, or writes what another
//! read: without that barrier there is a race.

use super::Limits;
use super::bind::{columns_grid, indexed, named, rows_grid};
use super::expressions::{add, binary, ceil_divide, extent, multiply};
use super::handed::Nearer;
use super::program::Writer;
use super::rows::Group;
use super::steps::{Reduction, Role, Step, reduction};
use relax_rewrite::walk::{loaded, stored};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::{Class, DType};
use relax_syntax::ir::tensor::{
    BinOp, BufferId, BufferInfo, Loop, LoopKind, ScalarId, Scope, Stmt, StmtKind, TExpr,
};
use relax_syntax::span::Span;
use std::collections::{BTreeMap, BTreeSet};

/// Rows that lie side by side in a block.
struct Lanes {
    /// Which of them.
    tx: ScalarId,
    width: i64,
    /// The number of the row, and how many there are.
    row: ScalarId,
    count: TExpr,
}

impl Lanes {
    /// The last block may have more lanes than there are rows left.
    fn is_there(&self) -> TExpr {
        binary(BinOp::Less, TExpr::Scalar(self.row), self.count.clone())
    }
}

/// A kernel as it is written.
pub(super) struct Kernel<'w> {
    writer: &'w mut Writer,
    /// Which thread of a row.
    thread: ScalarId,
    /// Of how many; a power of 2.
    threads: i64,
    lanes: Option<Lanes>,
    limits: Limits,
    span: Span,
    /// What the host evaluates before.
    outside: Vec<Stmt>,
    shared: Vec<Stmt>,
    body: Vec<Stmt>,
    /// Partial results, by their dtype.
    parts: BTreeMap<&'static str, BufferId>,
    /// Since the last barrier: what some thread wrote, and read.
    wrote: BTreeSet<BufferId>,
    read: BTreeSet<BufferId>,
    /// What only the first thread wrote since.
    first_wrote: BTreeSet<BufferId>,
}

impl<'w> Kernel<'w> {
    /// All threads of a block for one row.
    pub(super) fn of_rows(writer: &'w mut Writer, span: Span, limits: Limits) -> Self {
        let thread = writer.scalar("tx", Some(DType::I64), span);
        Self::new(writer, (thread, 1 << limits.threads.max(1).ilog2()), limits, span)
    }

    /// Of the threads of a block some for each of neighbouring columns: 8 for each of 32, where there are 256. With `times` there
    /// are none where it is 0.
    pub(super) fn of_columns(
        writer: &'w mut Writer,
        group: &Group,
        times: Option<&TExpr>,
        limits: Limits,
    ) -> Self {
        let span = group.span;
        let bits = limits.threads.max(1).ilog2();
        let high = (bits * 3).div_ceil(8);
        let [thread, tx] = ["ty", "tx"].map(|base| writer.scalar(base, Some(DType::I64), span));
        let row = writer.scalar("column", None, span);
        let extents = group.rows.iter().map(extent).chain(times.cloned()).reduce(multiply);
        let extents = extents.unwrap_or(TExpr::Int(1));
        let (count, outside) = named(writer, extents, span);
        let mut kernel = Self::new(writer, (thread, 1 << high), limits, span);
        kernel.lanes = Some(Lanes { tx, width: 1 << (bits - high), row, count });
        kernel.outside = outside;
        kernel
    }

    fn new(
        writer: &'w mut Writer,
        (thread, threads): (ScalarId, i64),
        limits: Limits,
        span: Span,
    ) -> Self {
        Self {
            writer,
            thread,
            threads,
            lanes: None,
            limits,
            span,
            outside: Vec::new(),
            shared: Vec::new(),
            body: Vec::new(),
            parts: BTreeMap::new(),
            wrote: BTreeSet::new(),
            read: BTreeSet::new(),
            first_wrote: BTreeSet::new(),
        }
    }

    /// What the rows of a block keep in shared memory in the place of buffers with an element for each row.
    pub(super) fn cells(&mut self, cells: &BTreeSet<BufferId>) -> Nearer {
        match &self.lanes {
            None => Nearer::new(self.writer, cells, Scope::Shared),
            Some(lanes) => {
                let (tx, width) = (TExpr::Scalar(lanes.tx), lanes.width);
                Nearer::arrays(self.writer, cells, (Scope::Shared, &[width]), vec![tx])
            }
        }
    }

    pub(super) fn write(mut self, group: &Group, shared: Vec<Stmt>) -> Vec<Stmt> {
        group.steps.iter().for_each(|step| self.step(step));
        let shared = [shared, std::mem::take(&mut self.shared)].concat();
        let body = std::mem::take(&mut self.body);
        let outside = std::mem::take(&mut self.outside);
        let grid = match &self.lanes {
            None => {
                let threads = (self.thread, self.threads);
                rows_grid(self.writer, &group.rows, threads, (shared, body), self.limits)
            }
            Some(lanes) => {
                let threads = [(self.thread, self.threads), (lanes.tx, lanes.width)];
                let row = (lanes.row, lanes.count.clone());
                columns_grid(self.writer, &group.rows, threads, row, (shared, body), self.limits)
            }
        };
        [group.allocated.clone(), outside, grid].concat()
    }

    /// The element of a thread, or of one of its row.
    fn element(&self, number: TExpr) -> Vec<TExpr> {
        let lane = self.lanes.as_ref().map(|lanes| TExpr::Scalar(lanes.tx));
        std::iter::once(number).chain(lane).collect()
    }

    /// A condition where there is a row.
    fn there(&self, condition: TExpr) -> TExpr {
        match &self.lanes {
            None => condition,
            Some(lanes) => binary(BinOp::And, lanes.is_there(), condition),
        }
    }

    /// Statements of all threads that have a row.
    fn emit_all(&mut self, body: Vec<Stmt>) {
        match &self.lanes {
            None => self.body.extend(body),
            Some(lanes) => {
                let condition = lanes.is_there();
                self.emit(StmtKind::If { condition, then: body, otherwise: Vec::new() });
            }
        }
    }

    fn emit_shared(&mut self, buffer: BufferId) {
        self.shared.push(Stmt { kind: StmtKind::Alloc(buffer), span: self.span });
    }

    fn emit(&mut self, kind: StmtKind) {
        self.body.push(Stmt { kind, span: self.span });
    }

    /// Ends a phase where a step meets what others did.
    fn wait_for(
        &mut self,
        reads: &BTreeSet<BufferId>,
        writes: &BTreeSet<BufferId>,
        is_first: bool,
    ) {
        let meets =
            |a: &BTreeSet<BufferId>, b: &BTreeSet<BufferId>| a.intersection(b).next().is_some();
        let first =
            !is_first && (meets(reads, &self.first_wrote) || meets(writes, &self.first_wrote));
        let others =
            meets(reads, &self.wrote) || meets(writes, &self.wrote) || meets(writes, &self.read);
        if first || others {
            self.barrier();
        }
    }

    fn barrier(&mut self) {
        self.emit(StmtKind::Barrier);
        self.wrote.clear();
        self.read.clear();
        self.first_wrote.clear();
    }

    fn step(&mut self, step: &Step) {
        match step.role {
            Role::Cell => self.first(step.body.clone()),
            Role::Elements => {
                let (reads, writes) = (loaded(&step.body), stored(&step.body));
                self.wait_for(&reads, &writes, false);
                let nest = self.strided(&step.loops, step.body.clone());
                self.emit_all(nest);
                self.read.extend(reads);
                self.wrote.extend(writes);
            }
            Role::Reduce => self.reduce(step),
        }
    }

    /// Statements of the first thread.
    fn first(&mut self, body: Vec<Stmt>) {
        let mut reads = loaded(&body);
        let writes = stored(&body);
        let updates =
            body.iter().any(|stmt| matches!(stmt.kind, StmtKind::Store { update: Some(_), .. }));
        if updates {
            reads.extend(&writes);
        }
        self.wait_for(&reads, &writes, true);
        self.first_wrote.extend(&writes);
        let is_first = binary(BinOp::Equal, TExpr::Scalar(self.thread), TExpr::Int(0));
        let is_first = self.there(is_first);
        if let Some(Stmt { kind: StmtKind::If { condition, then, .. }, .. }) = self.body.last_mut()
            && *condition == is_first
        {
            then.extend(body);
            return;
        }
        self.emit(StmtKind::If { condition: is_first, then: body, otherwise: Vec::new() });
    }

    /// Iterations of inner loops, a thread's apart by the number of threads.
    fn strided(&mut self, loops: &[Loop], body: Vec<Stmt>) -> Vec<Stmt> {
        let extents: Vec<TExpr> = loops.iter().map(extent).collect();
        let product = extents.iter().cloned().reduce(multiply).unwrap_or(TExpr::Int(1));
        let (width, outside) = named(self.writer, product, self.span);
        self.outside.extend(outside);
        let step = self.writer.scalar("step", Some(DType::I64), self.span);
        let at = multiply(TExpr::Scalar(step), TExpr::Int(self.threads));
        let at = add(at, TExpr::Scalar(self.thread));
        let loops: Vec<&Loop> = loops.iter().collect();
        let body = indexed(self.writer, &loops, (at, Some(&width), &extents), body, self.span);
        let stop = ceil_divide(width, self.threads);
        let loops = vec![Loop { var: step, start: TExpr::Int(0), stop }];
        vec![Stmt { kind: StmtKind::For { loops, kind: LoopKind::Serial, body }, span: self.span }]
    }

    fn reduce(&mut self, step: &Step) {
        let (last, lets) = step.body.split_last().expect("invariant: a step has a store");
        let found = reduction(last).expect("invariant: the step was told to reduce");
        let Reduction { op, buffer, indices, value } = found;
        let dtype = self.writer.program.buffer(buffer).dtype;
        let part = self.part(dtype);
        let own = self.element(TExpr::Scalar(self.thread));
        let begins = self.begins(op, dtype, (buffer, &indices));
        let begins = kept(part, own.clone(), begins, self.span);
        let next = combined(op, part, own, value, self.span);
        let body = [lets, std::slice::from_ref(&next)].concat();
        let mut reads = loaded(&[std::slice::from_ref(&begins), &body].concat());
        reads.remove(&part);
        self.wait_for(&reads, &BTreeSet::from([part]), false);
        let nest = self.strided(&step.loops, body);
        self.emit_all([vec![begins], nest].concat());
        self.tree(op, part);
        // All threads are past what they read; the first goes on with its own element.
        self.read = BTreeSet::from([part]);
        self.wrote.clear();
        self.first_wrote.clear();
        let result = TExpr::Load { buffer: part, indices: self.element(TExpr::Int(0)) };
        self.first(vec![combined(op, buffer, indices, result, self.span)]);
    }

    /// What the threads begin with: what changes nothing. For a maximum that is what is in the cell already.
    fn begins(&self, op: BinOp, dtype: DType, (buffer, indices): (BufferId, &[TExpr])) -> TExpr {
        let number = |value: i64| match dtype.class() {
            Class::Float => TExpr::Float(value as f64),
            _ => TExpr::Int(value),
        };
        match op {
            BinOp::Add => number(0),
            BinOp::Mul => number(1),
            _ => TExpr::Load { buffer, indices: indices.to_vec() },
        }
    }

    fn part(&mut self, dtype: DType) -> BufferId {
        if let Some(part) = self.parts.get(dtype.name()) {
            return *part;
        }
        let width = self.lanes.as_ref().map(|lanes| lanes.width);
        let shape = std::iter::once(self.threads).chain(width).map(Dim::Int).collect();
        let (scope, span) = (Scope::Shared, self.span);
        let info = BufferInfo { name: "part".into(), shape, dtype, scope, span };
        let part = self.writer.buffer("part", info);
        self.parts.insert(dtype.name(), part);
        self.emit_shared(part);
        part
    }

    /// Halves, quarters, …: after it the first element is the whole.
    fn tree(&mut self, op: BinOp, part: BufferId) {
        if self.threads == 1 {
            return;
        }
        let level = self.writer.scalar("level", Some(DType::I64), self.span);
        let half = TExpr::Int(self.threads / 2);
        let apart = binary(BinOp::ShiftRight, half, TExpr::Scalar(level));
        let thread = TExpr::Scalar(self.thread);
        let other = self.element(binary(BinOp::Add, thread.clone(), apart.clone()));
        let other = TExpr::Load { buffer: part, indices: other };
        let own = self.element(thread.clone());
        let then = vec![combined(op, part, own, other, self.span)];
        let condition = self.there(binary(BinOp::Less, thread, apart));
        let joins = StmtKind::If { condition, then, otherwise: Vec::new() };
        let barrier = Stmt { kind: StmtKind::Barrier, span: self.span };
        let body = vec![barrier, Stmt { kind: joins, span: self.span }];
        let stop = TExpr::Int(i64::from(self.threads.ilog2()));
        let loops = vec![Loop { var: level, start: TExpr::Int(0), stop }];
        self.emit(StmtKind::For { loops, kind: LoopKind::Serial, body });
    }
}

fn kept(buffer: BufferId, indices: Vec<TExpr>, value: TExpr, span: Span) -> Stmt {
    Stmt { kind: StmtKind::Store { buffer, indices, update: None, value }, span }
}

/// `B[i] op= value`
fn combined(op: BinOp, buffer: BufferId, indices: Vec<TExpr>, value: TExpr, span: Span) -> Stmt {
    let kind = match op {
        BinOp::Add | BinOp::Mul => StmtKind::Store { buffer, indices, update: Some(op), value },
        _ => {
            let cell = TExpr::Load { buffer, indices: indices.clone() };
            StmtKind::Store { buffer, indices, update: None, value: binary(op, cell, value) }
        }
    };
    Stmt { kind, span }
}
