//! What is launched: each nest over threads for itself, and what stands between them for one thread.

use crate::access::constant_count;
use relax_rewrite::patterns::visit;
use relax_rewrite::walk::visit_statements;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Loop, LoopKind, ScalarId, Stmt, StmtKind, TExpr};

/// Elements of an array that a thread keeps for itself.
const KEPT: i64 = 256;
/// Invocations of a workgroup that every device has.
const INVOCATIONS: i64 = 256;
/// Threads for a loop whose extent is not known.
const USUAL: i64 = 64;

/// How threads are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// As they are launched.
    Launched,
    /// All by one thread, in the order of the text.
    Alone,
}

/// What a program is launched as.
pub(crate) struct Stages<'p> {
    pub(crate) stages: Vec<Plan<'p>>,
    /// Buffers of the program's own in memory of the device.
    pub(crate) scratch: Vec<BufferId>,
}

/// One launch.
pub(crate) struct Plan<'p> {
    pub(crate) statements: Vec<&'p Stmt>,
    /// Whether they are one nest over threads.
    pub(crate) threads: Option<Shape<'p>>,
    /// Scalars that are bound before it.
    pub(crate) bound: Vec<(ScalarId, TExpr)>,
}

/// The loops over blocks and the size of a block.
#[derive(Clone, Debug)]
pub(crate) struct Shape<'p> {
    pub(crate) blocks: [Option<&'p Loop>; 3],
    pub(crate) size: [i64; 3],
}

impl Plan<'_> {
    pub(crate) fn blocks(&self) -> [Option<(TExpr, TExpr)>; 3] {
        let none = || [None, None, None];
        let shape = self.threads.as_ref();
        shape.map_or_else(none, |shape| {
            shape.blocks.map(|item| item.map(|item| (item.start.clone(), item.stop.clone())))
        })
    }
}

/// The axis of `threadIdx`.
pub(crate) fn thread_axis(name: &str) -> Option<usize> {
    axis(name.strip_prefix("threadIdx.")?)
}

/// The axis of `blockIdx`.
pub(crate) fn block_axis(name: &str) -> Option<usize> {
    axis(name.strip_prefix("blockIdx.")?)
}

fn axis(name: &str) -> Option<usize> {
    ["x", "y", "z"].iter().position(|&known| known == name)
}

/// Whether a loop over blocks or threads stands among statements, at any depth.
pub(crate) fn has_threads(statements: &[Stmt]) -> bool {
    let mut found = false;
    visit_statements(statements, &mut |stmt| found |= is_thread_loop(stmt));
    found
}

pub(crate) fn is_thread_loop(stmt: &Stmt) -> bool {
    matches!(&stmt.kind, StmtKind::For { kind: LoopKind::Thread(name), .. }
        if thread_axis(name).is_some() || block_axis(name).is_some())
}

/// Splits a program.
pub(crate) fn stages<'p>(
    program: &'p TensorProgram,
    body: &'p [Stmt],
    way: Way,
) -> Result<Stages<'p>, String> {
    let mut found = Stages { stages: Vec::new(), scratch: Vec::new() };
    let mut bound = Vec::new();
    for stmt in body {
        match &stmt.kind {
            _ if way == Way::Alone => found.serial(program, stmt, &[]),
            StmtKind::Alloc(buffer) => found.scratch.push(*buffer),
            StmtKind::Let { var, value } => {
                if reads(value) {
                    return Err("a scalar comes from memory before threads start".to_owned());
                }
                bound.push((*var, value.clone()));
            }
            _ if is_thread_loop(stmt) => {
                let threads = Some(shape(stmt)?);
                let bound = bound.clone();
                found.stages.push(Plan { statements: vec![stmt], threads, bound });
            }
            _ if has_threads(std::slice::from_ref(stmt)) => {
                return Err("a nest over threads stands within another statement".to_owned());
            }
            _ => found.serial(program, stmt, &bound),
        }
    }
    Ok(found)
}

impl<'p> Stages<'p> {
    /// Adds a statement for one thread.
    fn serial(&mut self, program: &'p TensorProgram, stmt: &'p Stmt, bound: &[(ScalarId, TExpr)]) {
        visit_statements(std::slice::from_ref(stmt), &mut |inner| {
            if let StmtKind::Alloc(buffer) = inner.kind {
                let count = constant_count(&program.buffer(buffer).shape);
                if count.is_none_or(|count| count > KEPT) {
                    self.scratch.push(buffer);
                }
            }
        });
        match self.stages.last_mut() {
            Some(last) if last.threads.is_none() && last.bound == bound => {
                last.statements.push(stmt);
            }
            _ => {
                let (statements, bound) = (vec![stmt], bound.to_vec());
                self.stages.push(Plan { statements, threads: None, bound });
            }
        }
    }
}

/// Whether an expression reads memory.
pub(crate) fn reads(expr: &TExpr) -> bool {
    let mut found = false;
    visit(expr, &mut |part| found |= matches!(part, TExpr::Load { .. }));
    found
}

fn shape<'p>(stmt: &'p Stmt) -> Result<Shape<'p>, String> {
    let mut shape = Shape { blocks: [None; 3], size: [1; 3] };
    let mut error = None;
    let mut seen = [0; 3];
    visit_statements(std::slice::from_ref(stmt), &mut |inner| {
        let StmtKind::For { loops, kind: LoopKind::Thread(name), .. } = &inner.kind else { return };
        let [item] = loops.as_slice() else {
            error = Some("several loops are bound to one axis".to_owned());
            return;
        };
        if let Some(axis) = block_axis(name) {
            seen[axis] += 1;
            shape.blocks[axis] = Some(item);
        } else if let Some(axis) = thread_axis(name) {
            let extent = match (&item.start, &item.stop) {
                (TExpr::Int(start), TExpr::Int(stop)) => stop.saturating_sub(*start).max(1),
                _ if axis == 0 => USUAL,
                _ => 1,
            };
            shape.size[axis] = shape.size[axis].max(extent);
        }
    });
    if seen.iter().any(|&count| count > 1) {
        error = Some("two loops over blocks have one axis".to_owned());
    }
    let others = shape.size[1].saturating_mul(shape.size[2]);
    if others.saturating_mul(shape.size[0]) > INVOCATIONS || shape.size[2] > 64 {
        if crate::threads::has_barrier(std::slice::from_ref(stmt)) {
            return Err(format!("a block of threads has more than {INVOCATIONS} of them"));
        }
        shape.size = [shape.size[0].min(INVOCATIONS), 1, 1];
    }
    error.map_or(Ok(shape), Err)
}
