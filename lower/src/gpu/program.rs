//! A tensor program as kernels, memory between them, and what the host evaluates, in the order of its text.

use super::bind::bind;
use super::expressions::thread_loop;
use super::rows::stitch;
use super::storage::{is_host_shape, keep_with_thread};
use super::tiles::tile;
use super::transpose_tiles::turn;
use super::{Choices, Limits, Order};
use relax_semantics::tir::walk::{Rewrite, loaded, statements, stored, visit_statements};
use relax_syntax::Name;
use relax_syntax::dtype::DType;
use relax_syntax::facts::Facts;
use relax_syntax::ir::tensor::{
    BufferId, BufferInfo, ScalarId, ScalarInfo, Scope, Stmt, StmtKind, TExpr,
};
use relax_syntax::ir::{Definition, Module, TensorProgram};
use relax_syntax::span::Span;
use relax_tir::launches::{has_threads, reads};
use relax_tir::renumber::renumber_program;
use std::collections::{BTreeMap, BTreeSet};

/// The program with every statement bound to threads, the same bits; `None` where there is nothing to bind: see
/// [`schedule_in`].
pub fn schedule(
    program: &TensorProgram,
    facts: &mut dyn Facts,
    limits: Limits,
) -> Option<TensorProgram> {
    schedule_in(program, facts, limits, Order::Kept)
}

/// The program with every statement bound to threads, where sums may be in another order if `order` says so: see
/// [`schedule_by`].
pub fn schedule_in(
    program: &TensorProgram,
    facts: &mut dyn Facts,
    limits: Limits,
    order: Order,
) -> Option<TensorProgram> {
    schedule_by(program, facts, &Choices { limits, order, products: None })
}

/// The program with every statement bound to threads as `choices` say. `None` also for one that is a single block as it is
/// written: its shared memory stands beside its threads.
pub fn schedule_by(
    program: &TensorProgram,
    facts: &mut dyn Facts,
    choices: &Choices<'_>,
) -> Option<TensorProgram> {
    let body = program.body.as_ref()?;
    let is_shared = |stmt: &Stmt| matches!(stmt.kind, StmtKind::Alloc(id) if program.buffer(id).scope == Scope::Shared);
    if body.iter().any(is_shared) {
        return None;
    }
    let mut writer = Writer::of(program);
    let body = arrange(&mut writer, body, facts, choices);
    let body = without_unused(&writer, body);
    let mut result = TensorProgram { body: Some(body), ..writer.program };
    renumber_program(&mut result);
    Some(result)
}

/// The module with all its tensor programs bound as `choices` say, and how many were.
#[must_use]
pub fn schedule_module(
    module: &Module,
    facts: &mut dyn Facts,
    choices: &Choices<'_>,
) -> (Module, usize) {
    let (mut result, mut done) = (module.clone(), 0);
    for definition in &mut result.definitions {
        if let Definition::Tensor(program) = definition
            && let Some(bound) = schedule_by(program, facts, choices)
        {
            done += 1;
            *program = bound;
        }
    }
    (result, done)
}

/// A program that gets more scalars and buffers.
pub(super) struct Writer {
    pub(super) program: TensorProgram,
    taken: BTreeSet<Name>,
}

impl Writer {
    pub(super) fn of(program: &TensorProgram) -> Self {
        let scalars = program.scalars.iter().map(|info| info.name.clone());
        let buffers = program.buffers.iter().map(|info| info.name.clone());
        let dims = program.dims.iter().map(|dim| dim.name.clone());
        let taken = scalars.chain(buffers).chain(dims).collect();
        Self { program: program.clone(), taken }
    }

    fn name(&mut self, base: &str) -> Name {
        let numbered = (1..).map(|number| Name::new(format!("{base}_{number}")));
        let mut names = std::iter::once(Name::new(base)).chain(numbered);
        let name = names.find(|name| !self.taken.contains(name));
        let name = name.expect("invariant: there are more numbers than names");
        self.taken.insert(name.clone());
        name
    }

    /// A scalar of the program that has no other use yet; a loop's has a dtype, one of a binding none.
    pub(super) fn scalar(&mut self, base: &str, dtype: Option<DType>, span: Span) -> ScalarId {
        let info = ScalarInfo { name: self.name(base), dtype, span };
        let id = ScalarId(u32::try_from(self.program.scalars.len()).unwrap_or(u32::MAX));
        self.program.scalars.push(info);
        id
    }

    /// A buffer of the program that has no other use yet.
    pub(super) fn buffer(&mut self, base: &str, info: BufferInfo) -> BufferId {
        let name = self.name(base);
        let id = BufferId(u32::try_from(self.program.buffers.len()).unwrap_or(u32::MAX));
        self.program.buffers.push(BufferInfo { name, ..info });
        id
    }

    /// A statement for the second time in the program: what it binds has names of its own.
    pub(super) fn renamed(&mut self, stmt: &Stmt) -> Stmt {
        let mut bound = Vec::new();
        let stmt = std::slice::from_ref(stmt);
        visit_statements(stmt, &mut |stmt| match &stmt.kind {
            StmtKind::For { loops, .. } => bound.extend(loops.iter().map(|item| item.var)),
            StmtKind::Block { axes, .. } => bound.extend(axes.iter().map(|axis| axis.var)),
            StmtKind::Let { var, .. } => bound.push(*var),
            _ => {}
        });
        let names = bound.into_iter().map(|var| {
            let info = self.program.scalar(var).clone();
            (var, self.scalar(info.name.as_str(), info.dtype, info.span))
        });
        let mut names = Renamed(names.collect());
        statements(stmt, &mut names).remove(0)
    }

    /// A loop variable becomes the name of a value.
    pub(super) fn is_bound(&mut self, var: ScalarId) {
        self.program.scalars[var.0 as usize].dtype = None;
    }
}

struct Renamed(BTreeMap<ScalarId, ScalarId>);

impl Rewrite for Renamed {
    fn scalar(&mut self, id: ScalarId) -> ScalarId {
        self.0.get(&id).copied().unwrap_or(id)
    }
}

/// Statements at the top, one after the other; those of which nothing is told wait in `serial`.
fn arrange(
    writer: &mut Writer,
    body: &[Stmt],
    facts: &mut dyn Facts,
    choices: &Choices<'_>,
) -> Vec<Stmt> {
    let (limits, order) = (choices.limits, choices.order);
    let (mut done, mut serial) = (Vec::new(), Vec::new());
    let mut host = BTreeSet::new();
    let mut next = 0;
    for (at, stmt) in body.iter().enumerate() {
        if at < next {
            continue;
        }
        let outside = [&body[..at], &body[at + 1..]].concat();
        let parts = (&body[..at], &body[at..]);
        let kernel = tile(writer, stmt, &outside, &host, facts, choices)
            .or_else(|| turn(writer, stmt, &host, facts, limits))
            .map(|kernel| (1, kernel))
            .or_else(|| stitch(writer, parts, &host, facts, (limits, order)));
        if let Some((length, kernel)) = kernel {
            flush(writer, &mut serial, &mut done);
            done.extend(kernel);
            next = at + length;
            continue;
        }
        match &stmt.kind {
            StmtKind::Let { value, .. } if reads(value) => {
                serial.extend(body[at..].iter().cloned());
                break;
            }
            StmtKind::Let { var, .. } => {
                flush(writer, &mut serial, &mut done);
                host.insert(*var);
                done.push(stmt.clone());
            }
            StmtKind::Alloc(buffer) => {
                // One that always succeeds may come earlier.
                if !is_host_shape(writer.program.buffer(*buffer)) {
                    flush(writer, &mut serial, &mut done);
                }
                if !is_shared_by_threads(writer, *buffer, &body[at + 1..]) {
                    writer.program.buffers[buffer.0 as usize].scope = Scope::Global;
                }
                done.push(stmt.clone());
            }
            _ if has_threads(std::slice::from_ref(stmt)) => {
                flush(writer, &mut serial, &mut done);
                done.push(stmt.clone());
            }
            _ => match bind(writer, stmt, &outside, &host, facts, limits) {
                Some(bound) => {
                    flush(writer, &mut serial, &mut done);
                    done.extend(bound);
                }
                None => serial.push(stmt.clone()),
            },
        }
    }
    flush(writer, &mut serial, &mut done);
    done
}

/// Without memory that only shared memory was left of.
fn without_unused(writer: &Writer, mut body: Vec<Stmt>) -> Vec<Stmt> {
    let used: BTreeSet<BufferId> = loaded(&body).union(&stored(&body)).copied().collect();
    body.retain(|stmt| match &stmt.kind {
        StmtKind::Alloc(id) => used.contains(id) || !is_host_shape(writer.program.buffer(*id)),
        _ => true,
    });
    body
}

/// What waits becomes a kernel of one thread.
fn flush(writer: &mut Writer, serial: &mut Vec<Stmt>, done: &mut Vec<Stmt>) {
    let Some(span) = serial.first().map(|stmt| stmt.span) else { return };
    let body = std::mem::take(serial);
    if has_threads(&body) {
        // Threads within loops of the host: printers refuse them.
        done.extend(body);
        return;
    }
    keep_with_thread(writer, &body);
    let tx = writer.scalar("tx", Some(DType::I64), span);
    let bx = writer.scalar("bx", Some(DType::I64), span);
    let threads = thread_loop((tx, TExpr::Int(1)), "threadIdx.x", body, span);
    done.push(thread_loop((bx, TExpr::Int(1)), "blockIdx.x", vec![threads], span));
}

/// Whether memory that is no global one is for threads that the program itself has, and for nothing else.
fn is_shared_by_threads(writer: &Writer, buffer: BufferId, rest: &[Stmt]) -> bool {
    let touches = |stmt: &&Stmt| {
        let body = std::slice::from_ref(*stmt);
        loaded(body).contains(&buffer) || stored(body).contains(&buffer)
    };
    writer.program.buffer(buffer).scope != Scope::Global
        && rest.iter().filter(touches).all(|stmt| has_threads(std::slice::from_ref(stmt)))
}
