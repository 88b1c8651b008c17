//! A tensor program as kernels, memory between them, and what the host evaluates, in the order of its text.

use super::bind::bind;
use super::expressions::thread_loop;
use super::rows::stitch;
use super::storage::{is_host_shape, keep_with_thread};
use super::tiles::tile;
use super::transpose_tiles::turn;
use super::{Choices, Limits};
use crate::writer::Writer;
use relax_rewrite::pass::Exactness;
use relax_semantics::tir::walk::{loaded, stored};
use relax_syntax::dtype::DType;
use relax_syntax::facts::Facts;
use relax_syntax::ir::tensor::{BufferId, Scope, Stmt, StmtKind, TExpr};
use relax_syntax::ir::{Definition, Module, TensorProgram};
use relax_tir::launches::{has_threads, reads};
use relax_tir::renumber::renumber_program;
use std::collections::BTreeSet;

/// The program with every statement bound to threads, the same bits; `None` where there is nothing to bind: see
/// [`schedule_in`].
pub fn schedule(
    program: &TensorProgram,
    facts: &mut dyn Facts,
    limits: Limits,
) -> Option<TensorProgram> {
    schedule_in(program, facts, limits, Exactness::Exact)
}

/// The program with every statement bound to threads, where sums may be in another order if `exactness` says so: see
/// [`schedule_by`].
pub fn schedule_in(
    program: &TensorProgram,
    facts: &mut dyn Facts,
    limits: Limits,
    exactness: Exactness,
) -> Option<TensorProgram> {
    schedule_by(program, facts, &Choices { limits, exactness, products: None })
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

/// Statements at the top, one after the other; those of which nothing is told wait in `serial`.
fn arrange(
    writer: &mut Writer,
    body: &[Stmt],
    facts: &mut dyn Facts,
    choices: &Choices<'_>,
) -> Vec<Stmt> {
    let (limits, exactness) = (choices.limits, choices.exactness);
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
            .or_else(|| stitch(writer, parts, &host, facts, (limits, exactness)));
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
