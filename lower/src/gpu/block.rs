//! A kernel for rows that the threads of a block share: each goes through some of a row's elements, and what they come to is
//! combined by a tree in shared memory. A block has one row, or several: rows of a warp each, or columns side by side.
//!
//! The last block may have places that no row is left for. Their threads come to every barrier, and shared memory holds something
//! for them as well, so that what is read after a barrier was stored by all before it; they touch no other memory.
//!
//! A step waits at a barrier exactly where it reads what another thread wrote since the last one, or writes what another
//! read: without that barrier there is a race.

use super::Limits;
use super::bind::{count, rows_grid, rows_together_grid, taken_apart};
use super::expressions::{add, extent};
use super::rows::{Group, Renamed};
use super::scope_promotion::Nearer;
use super::steps::{Reduction, Role, Step, reduction};
use super::tiles::nothing;
use crate::writer::Writer;
use relax_semantics::tir::walk::{loaded, mentions, statements, stored};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::{Class, DType};
use relax_syntax::ir::tensor::{
    BinOp, BufferId, BufferInfo, Loop, ScalarId, Scope, Stmt, StmtKind, TExpr,
};
use relax_syntax::span::Span;
use relax_tir::warps::LANES;
use std::collections::{BTreeMap, BTreeSet};

/// Rows that a block has together.
struct Together {
    /// Which of them is a thread's, and of how many.
    place: ScalarId,
    width: i64,
    /// Whether neighbouring threads have neighbouring rows; else they share one.
    is_across: bool,
    /// The number of the row, and how many there are.
    row: ScalarId,
    count: TExpr,
    /// The loops over them.
    loops: Vec<Loop>,
}

impl Together {
    /// The last block may have places that no row is left for.
    fn is_there(&self) -> TExpr {
        TExpr::binary(BinOp::Less, TExpr::Scalar(self.row), self.count.clone())
    }
}

/// A kernel as it is written.
pub(super) struct Kernel<'w> {
    pub(super) writer: &'w mut Writer,
    /// Which thread of a row.
    pub(super) thread: ScalarId,
    /// Of how many; a power of 2.
    pub(super) threads: i64,
    /// Which piece of a row the block has, and of how many, where it has no whole one.
    pub(super) piece: Option<(ScalarId, i64)>,
    together: Option<Together>,
    /// By which the number of blocks is multiplied: 0 or 1.
    times: Option<TExpr>,
    limits: Limits,
    pub(super) span: Span,
    /// What the host evaluates before.
    pub(super) outside: Vec<Stmt>,
    shared: Vec<Stmt>,
    body: Vec<Stmt>,
    /// Partial results, by their dtype.
    parts: BTreeMap<&'static str, BufferId>,
    /// Shared memory that holds something for each place of the block, also where no row is left for it.
    begun: BTreeSet<BufferId>,
    /// Since the last barrier: what some thread wrote, and read.
    wrote: BTreeSet<BufferId>,
    read: BTreeSet<BufferId>,
    /// What only the first thread wrote since.
    first_wrote: BTreeSet<BufferId>,
    /// What is read after it is stored: it has to be told of that all of it is.
    kept: BTreeSet<BufferId>,
}

/// Of 2 to the power of this many threads of a block one combines what they have.
const BLOCK_BITS: u32 = 4;

/// Threads of a block that rows share: how many have a row together, which of the two indices of a thread tells rows apart, and how
/// many rows there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// All threads have one row.
    Block,
    /// Neighbouring threads have a row together, as many as a warp has.
    Warp,
    /// Neighbouring threads have neighbouring columns, and some have each together: 8 have each of 32, where there are 256.
    Columns,
}

impl Sharing {
    /// The threads of a row, and the rows of a block; none where a block has too few threads.
    fn sizes(self, limits: Limits) -> Option<(i64, i64)> {
        let bits = limits.threads.max(1).ilog2();
        let own = match self {
            Self::Block => bits,
            Self::Warp => bits.checked_sub(1)?.min(LANES.ilog2()),
            Self::Columns => (bits * 3).div_ceil(8),
        };
        Some((1 << own, 1 << (bits - own)))
    }

    /// Whether a block has threads for it.
    pub(super) fn is_possible(self, limits: Limits) -> bool {
        self.sizes(limits).is_some()
    }
}

impl<'w> Kernel<'w> {
    /// With `times` there are no blocks where it is 0. What is `kept` is read after it is stored.
    pub(super) fn new(
        writer: &'w mut Writer,
        (rows, sharing): (&[Loop], Sharing),
        times: Option<&TExpr>,
        (limits, span): (Limits, Span),
        kept: BTreeSet<BufferId>,
    ) -> Self {
        let (threads, width) = sharing.sizes(limits).expect("invariant: it is possible");
        let is_across = sharing == Sharing::Columns;
        let mut index = |base: &str| writer.scalar(base, Some(DType::I64), span);
        let (thread, place) = match sharing {
            Sharing::Block => (index("tx"), None),
            Sharing::Warp => (index("tx"), Some(index("ty"))),
            Sharing::Columns => (index("ty"), Some(index("tx"))),
        };
        let mut outside = Vec::new();
        let together = place.map(|place| {
            let row = writer.scalar(if is_across { "column" } else { "row" }, None, span);
            let (count, bound) = count(writer, rows, times, span);
            outside = bound;
            Together { place, width, is_across, row, count, loops: rows.to_vec() }
        });
        Self {
            writer,
            thread,
            threads,
            piece: None,
            together,
            times: times.cloned(),
            limits,
            span,
            outside,
            shared: Vec::new(),
            body: Vec::new(),
            parts: BTreeMap::new(),
            begun: BTreeSet::new(),
            wrote: BTreeSet::new(),
            read: BTreeSet::new(),
            first_wrote: BTreeSet::new(),
            kept,
        }
    }

    /// The same for pieces of rows, of which this is the number.
    pub(super) fn of_pieces(self, piece: ScalarId, count: i64) -> Self {
        Self { piece: Some((piece, count)), ..self }
    }

    /// What the rows of a block keep in shared memory in the place of buffers with an element for each row.
    pub(super) fn cells(&mut self, cells: &BTreeSet<BufferId>) -> Nearer {
        match &self.together {
            None => Nearer::new(self.writer, cells, Scope::Shared),
            Some(together) => {
                let (place, width) = (TExpr::Scalar(together.place), together.width);
                Nearer::arrays(self.writer, cells, (Scope::Shared, &[width]), vec![place])
            }
        }
    }

    /// The steps as a kernel, with `shared` memory.
    pub(super) fn write(mut self, group: &Group, shared: Vec<Stmt>) -> Vec<Stmt> {
        group.steps.iter().for_each(|step| self.step(step));
        let inside = ([shared, self.shared].concat(), self.body);
        let (writer, limits) = (self.writer, self.limits);
        let thread = (self.thread, self.threads);
        let grid = match self.together {
            None => rows_grid(writer, (&group.rows, self.times.as_ref()), thread, inside, limits),
            Some(Together { place, width, is_across, row, count, .. }) => {
                let mut threads = [(place, width), thread];
                if is_across {
                    threads.reverse();
                }
                rows_together_grid(writer, threads, (place, width), (row, count), inside, limits)
            }
        };
        [self.outside, grid].concat()
    }

    /// The element of a thread, or of one of its row.
    fn element(&self, number: TExpr) -> Vec<TExpr> {
        match &self.together {
            None => vec![number],
            Some(Together { place, is_across: true, .. }) => vec![number, TExpr::Scalar(*place)],
            Some(Together { place, .. }) => vec![TExpr::Scalar(*place), number],
        }
    }

    /// Statements that each thread comes to, of which those that need a row are run where there is one; in shared memory the others
    /// find something in the place of what those store.
    fn for_all(&mut self, body: Vec<Stmt>) -> Vec<Stmt> {
        if self.together.is_none() {
            return body;
        }
        let (mut done, mut of_row) = (Vec::new(), Vec::new());
        for stmt in body {
            if let Some(begins) = self.begins_for_all(&stmt) {
                done.extend(self.where_there(std::mem::take(&mut of_row)));
                done.push(begins);
            }
            if self.needs_row(&stmt) {
                of_row.push(stmt);
            } else {
                done.extend(self.where_there(std::mem::take(&mut of_row)));
                done.push(stmt);
            }
        }
        done.extend(self.where_there(of_row));
        done
    }

    /// Statements of threads that have a row, with names for it.
    fn where_there(&mut self, body: Vec<Stmt>) -> Option<Stmt> {
        let together = self.together.as_ref().filter(|_| !body.is_empty())?;
        let (condition, row) = (together.is_there(), together.row);
        let (loops, mut names) = (together.loops.clone(), BTreeMap::new());
        let own = loops.into_iter().map(|item| {
            let base = self.writer.program.scalar(item.var).name.clone();
            let var = self.writer.scalar(base.as_str(), None, self.span);
            names.insert(item.var, var);
            Loop { var, ..item }
        });
        let own: Vec<Loop> = own.collect();
        let extents: Vec<TExpr> = own.iter().map(extent).collect();
        let own: Vec<&Loop> = own.iter().collect();
        let mut then = taken_apart(self.writer, &own, row, &extents, self.span);
        then.extend(statements(&body, &mut Renamed { names }));
        let kind = StmtKind::If { condition, then, otherwise: Vec::new() };
        Some(Stmt { kind, span: self.span })
    }

    /// Whether a statement is only for threads that have a row; the others may store in the shared memory of their place what they
    /// find there, or what no row decides.
    fn needs_row(&self, stmt: &Stmt) -> bool {
        let (Some(together), StmtKind::Store { buffer, indices, value, .. }) =
            (&self.together, &stmt.kind)
        else {
            return true;
        };
        let rows = together.loops.iter().map(|item| item.var).collect();
        !self.begun.contains(buffer)
            || !loaded(std::slice::from_ref(stmt)).is_subset(&self.begun)
            || indices.iter().chain([value]).any(|part| mentions(part, &rows))
    }

    /// Notes that shared memory holds something once a statement has run, and gives what stores it before where the statement needs a
    /// row.
    fn begins_for_all(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let StmtKind::Store { buffer, indices, update: None, .. } = &stmt.kind else { return None };
        let info = self.writer.program.buffer(*buffer);
        let reads = loaded(std::slice::from_ref(stmt));
        if info.scope == Scope::Global || self.begun.contains(buffer) || reads.contains(buffer) {
            return None;
        }
        let something = kept(*buffer, indices.clone(), nothing(info.dtype), self.span);
        self.begun.insert(*buffer);
        self.needs_row(stmt).then_some(something)
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
                let nest = match writes.is_disjoint(&self.kept) {
                    true => self.strided(&step.loops, &step.body),
                    false => self.in_turns(&step.loops, step.body.clone()),
                };
                let nest = self.for_all(nest);
                self.body.extend(nest);
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
        let body = self.for_all(body);
        let is_first = TExpr::binary(BinOp::Equal, TExpr::Scalar(self.thread), TExpr::Int(0));
        if let Some(Stmt { kind: StmtKind::If { condition, then, .. }, .. }) = self.body.last_mut()
            && *condition == is_first
        {
            then.extend(body);
            return;
        }
        self.emit(StmtKind::If { condition: is_first, then: body, otherwise: Vec::new() });
    }

    fn reduce(&mut self, step: &Step) {
        let (last, lets) = step.body.split_last().expect("invariant: a step has a store");
        let found = reduction(last).expect("invariant: the step was told to reduce");
        let Reduction { op, buffer, indices, value } = found;
        let dtype = self.writer.program.buffer(buffer).dtype;
        let part = self.part(dtype);
        let own = self.own(dtype);
        let begins = self.begins(op, dtype, (buffer, &indices));
        let begins = kept(own, Vec::new(), begins, self.span);
        let next = combined(op, own, Vec::new(), value, self.span);
        let body = [lets, std::slice::from_ref(&next)].concat();
        let mut reads = loaded(&[std::slice::from_ref(&begins), &body].concat());
        reads.remove(&own);
        self.wait_for(&reads, &BTreeSet::from([part]), false);
        let nest = self.strided(&step.loops, &body);
        let value = TExpr::Load { buffer: own, indices: Vec::new() };
        let shown = kept(part, self.element(TExpr::Scalar(self.thread)), value, self.span);
        let nest = self.for_all([vec![begins], nest, vec![shown]].concat());
        self.body.extend(nest);
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
        let cell = || TExpr::Load { buffer, indices: indices.to_vec() };
        neutral(op, dtype).unwrap_or_else(cell)
    }

    /// What a thread's elements come to: a register.
    fn own(&mut self, dtype: DType) -> BufferId {
        let (scope, span) = (Scope::Local, self.span);
        let info = BufferInfo { name: "own".into(), shape: Vec::new(), dtype, scope, span };
        let own = self.writer.buffer("own", info);
        self.emit(StmtKind::Alloc(own));
        own
    }

    fn part(&mut self, dtype: DType) -> BufferId {
        if let Some(part) = self.parts.get(dtype.name()) {
            return *part;
        }
        let shape = match &self.together {
            None => vec![self.threads],
            Some(Together { width, is_across: true, .. }) => vec![self.threads, *width],
            Some(Together { width, .. }) => vec![*width, self.threads],
        };
        let shape = shape.into_iter().map(Dim::Int).collect();
        let (scope, span) = (Scope::Shared, self.span);
        let info = BufferInfo { name: "part".into(), shape, dtype, scope, span };
        let part = self.writer.buffer("part", info);
        self.parts.insert(dtype.name(), part);
        self.emit_shared(part);
        part
    }

    /// Combines what threads have until the first element is the whole. Threads of a warp meet cheaply, and halve in each step; those of
    /// a block take more at once, since all of them wait at each barrier.
    fn tree(&mut self, op: BinOp, part: BufferId) {
        let at_once = if self.together.is_none() { BLOCK_BITS } else { 1 };
        let mut left = self.threads.ilog2();
        while left > 0 {
            let bits = left.min(at_once);
            left -= bits;
            let apart = 1_i64 << left;
            let thread = TExpr::Scalar(self.thread);
            let others = (1..1_i64 << bits).map(|number| {
                let other = add(thread.clone(), TExpr::Int(number * apart));
                TExpr::Load { buffer: part, indices: self.element(other) }
            });
            let others = others.reduce(|a, b| TExpr::binary(op, a, b));
            let others = others.expect("invariant: there are two or more");
            let own = self.element(thread.clone());
            let then = vec![combined(op, part, own, others, self.span)];
            let condition = TExpr::binary(BinOp::Less, thread, TExpr::Int(apart));
            self.emit(StmtKind::Barrier);
            self.emit(StmtKind::If { condition, then, otherwise: Vec::new() });
        }
    }
}

/// What changes no sum, or no product; a maximum has none in every dtype.
pub(super) fn neutral(op: BinOp, dtype: DType) -> Option<TExpr> {
    let value = match op {
        BinOp::Add => 0,
        BinOp::Mul => 1,
        _ => return None,
    };
    Some(match dtype.class() {
        Class::Float => TExpr::Float(f64::from(value)),
        _ => TExpr::Int(i64::from(value)),
    })
}

pub(super) fn kept(buffer: BufferId, indices: Vec<TExpr>, value: TExpr, span: Span) -> Stmt {
    Stmt { kind: StmtKind::Store { buffer, indices, update: None, value }, span }
}

/// `B[i] op= value`
pub(super) fn combined(
    op: BinOp,
    buffer: BufferId,
    indices: Vec<TExpr>,
    value: TExpr,
    span: Span,
) -> Stmt {
    let kind = match op {
        BinOp::Add | BinOp::Mul => StmtKind::Store { buffer, indices, update: Some(op), value },
        _ => {
            let cell = TExpr::Load { buffer, indices: indices.clone() };
            StmtKind::Store { buffer, indices, update: None, value: TExpr::binary(op, cell, value) }
        }
    };
    Stmt { kind, span }
}
