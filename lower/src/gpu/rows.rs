//! Nests that follow each other over the same rows, as one kernel with a block for each row (stitching: BladeDISC §4.2): the threads
//! of the block share a row, reduce it by a tree in shared memory, and hand on there what the row comes to. So softmax and the
//! normalizations are one kernel.
//!
//! A tree combines in another order: floats only where [`Order::Free`] allows it. What is combined of integers is the same in any
//! order. A step waits at a barrier exactly where it reads what another thread wrote since the last one, or writes what another
//! read: without that barrier there is a race. Nothing of it may stop the program, since rows and steps change places.

use super::bind::{indexed, is_of_host, named, rows_grid};
use super::expressions::{add, binary, ceil_divide, extent, multiply};
use super::handed::{Nearer, own_elements};
use super::own::apart;
use super::program::Writer;
use super::steps::{Reduction, Role, Step, reduction, runs_along, steps, unwrapped};
use super::{Limits, Order};
use crate::passes::fuse_loops::never_stops;
use relax_rewrite::walk::{Rewrite, loaded, statements, stored};
use relax_syntax::dtype::{Class, DType};
use relax_syntax::facts::Facts;
use relax_syntax::ir::tensor::{
    BinOp, BufferId, BufferInfo, Loop, LoopKind, ScalarId, Scope, Stmt, StmtKind, TExpr,
};
use relax_syntax::span::Span;
use std::collections::{BTreeMap, BTreeSet};

/// Rows that are known to be shorter are not worth a block.
const SHORT: i64 = 32;

/// Nests over the same rows.
struct Group {
    rows: Vec<Loop>,
    steps: Vec<Step>,
    /// How many statements of the program they are.
    length: usize,
    /// Memory that is allocated between them.
    allocated: Vec<Stmt>,
    span: Span,
}

/// The kernel of the nests that `rest` begins with, and how many statements it stands for.
pub(super) fn stitch(
    writer: &mut Writer,
    (before, rest): (&[Stmt], &[Stmt]),
    host: &BTreeSet<ScalarId>,
    facts: &mut dyn Facts,
    (limits, order): (Limits, Order),
) -> Option<(usize, Vec<Stmt>)> {
    let mut group = group(writer, rest, host, facts, order)?;
    let outside = [before, &rest[group.length..]].concat();
    let cells = own_elements(writer, &group.rows, &statements_of(&group), &outside);
    let shared = share(writer, &mut group, &cells);
    let done = Kernel::new(writer, &group, limits).write(&group, shared);
    Some((group.length, done))
}

fn group(
    writer: &Writer,
    rest: &[Stmt],
    host: &BTreeSet<ScalarId>,
    facts: &mut dyn Facts,
    order: Order,
) -> Option<Group> {
    let first = rest.first()?;
    let (rows, body) = unwrapped(first);
    let all = steps(&[], &body)?;
    let is_first = all.iter().any(|step| step.role == Role::Reduce);
    let mut group = Group { rows, steps: all, length: 1, allocated: Vec::new(), span: first.span };
    let starts =
        is_first && fits(writer, &group, host, order) && never_stops(&writer.program, first, facts);
    starts.then_some(())?;
    if group.rows.is_empty() {
        // One block: what follows is for the whole grid.
        return Some(group);
    }
    let mut allocated = Vec::new();
    for (at, stmt) in rest.iter().enumerate().skip(1) {
        if let StmtKind::Alloc(buffer) = &stmt.kind {
            if !super::storage::is_host_shape(writer.program.buffer(*buffer)) {
                break;
            }
            allocated.push(stmt.clone());
            continue;
        }
        let Some(longer) = with(&group, stmt) else { break };
        if !fits(writer, &longer, host, order) || !never_stops(&writer.program, stmt, facts) {
            break;
        }
        group = Group { length: at + 1, ..longer };
        group.allocated.append(&mut allocated);
    }
    Some(group)
}

/// The group with one more nest.
fn with(group: &Group, stmt: &Stmt) -> Option<Group> {
    let (loops, body) = unwrapped(stmt);
    let count = group.rows.len();
    let same = |(a, b): (&Loop, &Loop)| a.start == b.start && a.stop == b.stop;
    let fits = loops.len() >= count && group.rows.iter().zip(&loops).all(same);
    fits.then_some(())?;
    let names = loops.iter().zip(&group.rows).map(|(old, new)| (old.var, new.var)).collect();
    let mut renamed = Renamed { names };
    let body = statements(&body, &mut renamed);
    let more = steps(&loops[count..], &body)?;
    let steps = [group.steps.clone(), more].concat();
    Some(Group { steps, rows: group.rows.clone(), allocated: group.allocated.clone(), ..*group })
}

struct Renamed {
    names: BTreeMap<ScalarId, ScalarId>,
}

impl Rewrite for Renamed {
    fn scalar(&mut self, id: ScalarId) -> ScalarId {
        self.names.get(&id).copied().unwrap_or(id)
    }
}

/// What the steps do, without their loops.
fn statements_of(group: &Group) -> Vec<Stmt> {
    group.steps.iter().flat_map(|step| step.body.clone()).collect()
}

/// Whether each reduction combines with what the group stored before: without that an empty row would read what may be nothing.
fn all_begin(steps: &[Step]) -> bool {
    let mut begun = BTreeSet::new();
    steps.iter().all(|step| {
        let cells = stored(&step.body);
        match step.role {
            Role::Cell => begun.extend(cells),
            Role::Reduce => return cells.is_subset(&begun),
            Role::Elements => {}
        }
        true
    })
}

/// Whether rows touch what is their own, and all steps can be shared.
fn fits(writer: &Writer, group: &Group, host: &BTreeSet<ScalarId>, order: Order) -> bool {
    let known =
        |item: &Loop| is_of_host(&item.start, writer, host) && is_of_host(&item.stop, writer, host);
    let are_apart =
        |loops: &[Loop], body: &[Stmt]| apart(loops, body).into_iter().all(|apart| apart);
    all_begin(&group.steps)
        && group.rows.iter().all(known)
        && are_apart(&group.rows, &statements_of(group))
        && group.steps.iter().all(|step| {
            step.loops.iter().all(known)
                && match step.role {
                    Role::Cell => true,
                    Role::Elements => are_apart(&step.loops, &step.body),
                    Role::Reduce => {
                        let is_float = stored(&step.body)
                            .iter()
                            .any(|id| writer.program.buffer(*id).dtype.class() == Class::Float);
                        (order == Order::Free || !is_float)
                            && is_long(&step.loops)
                            && runs_along(step)
                    }
                }
        })
}

fn is_long(loops: &[Loop]) -> bool {
    let extents = loops.iter().map(extent).reduce(multiply);
    !matches!(extents, Some(TExpr::Int(..SHORT)))
}

/// The cells as shared memory, and the steps that use it.
fn share(writer: &mut Writer, group: &mut Group, cells: &BTreeSet<BufferId>) -> Vec<Stmt> {
    let mut shared = Nearer::new(writer, cells, Scope::Shared);
    for step in &mut group.steps {
        step.body = shared.statements(&step.body);
    }
    group.allocated.retain(|stmt| !matches!(&stmt.kind, StmtKind::Alloc(id) if cells.contains(id)));
    shared.allocations(group.span)
}

/// A kernel as it is written.
struct Kernel<'w> {
    writer: &'w mut Writer,
    tx: ScalarId,
    /// A power of 2.
    threads: i64,
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
    fn new(writer: &'w mut Writer, group: &Group, limits: Limits) -> Self {
        let tx = writer.scalar("tx", Some(DType::I64), group.span);
        let threads = 1 << limits.threads.max(1).ilog2();
        Self {
            writer,
            tx,
            threads,
            limits,
            span: group.span,
            outside: Vec::new(),
            shared: Vec::new(),
            body: Vec::new(),
            parts: BTreeMap::new(),
            wrote: BTreeSet::new(),
            read: BTreeSet::new(),
            first_wrote: BTreeSet::new(),
        }
    }

    fn write(mut self, group: &Group, shared: Vec<Stmt>) -> Vec<Stmt> {
        group.steps.iter().for_each(|step| self.step(step));
        let shared = [shared, self.shared].concat();
        let threads = (self.tx, self.threads);
        let grid = rows_grid(self.writer, &group.rows, threads, (shared, self.body), self.limits);
        [group.allocated.clone(), self.outside, grid].concat()
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
        let is_first = binary(BinOp::Equal, TExpr::Scalar(self.tx), TExpr::Int(0));
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
        let at = add(at, TExpr::Scalar(self.tx));
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
        let own = || vec![TExpr::Scalar(self.tx)];
        let begins = kept(part, own(), self.begins(op, dtype, (buffer, &indices)), self.span);
        let next = combined(op, part, own(), value, self.span);
        let body = [lets, std::slice::from_ref(&next)].concat();
        let mut reads = loaded(&[std::slice::from_ref(&begins), &body].concat());
        reads.remove(&part);
        self.wait_for(&reads, &BTreeSet::from([part]), false);
        self.body.push(begins);
        let nest = self.strided(&step.loops, body);
        self.body.extend(nest);
        self.tree(op, part);
        // All threads are past what they read; the first goes on with its own element.
        self.read = BTreeSet::from([part]);
        self.wrote.clear();
        self.first_wrote.clear();
        let result = TExpr::Load { buffer: part, indices: vec![TExpr::Int(0)] };
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
        let shape = vec![relax_syntax::dim::Dim::Int(self.threads)];
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
        let tx = TExpr::Scalar(self.tx);
        let other = binary(BinOp::Add, tx.clone(), apart.clone());
        let other = TExpr::Load { buffer: part, indices: vec![other] };
        let then = vec![combined(op, part, vec![tx.clone()], other, self.span)];
        let condition = binary(BinOp::Less, tx, apart);
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
