//! What is launched, with the threads that a workgroup has, and memory of the device beside the parameters.

use crate::access::constant_count;
use relax_semantics::tir::walk::visit_statements;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, ScalarId, Stmt, StmtKind, TExpr};
use relax_tir::barriers::has_barrier;
use relax_tir::launches::{Launch, by_one_thread, launches, thread_axis};

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
    pub(crate) launch: Launch<'p>,
    /// The threads of a workgroup.
    pub(crate) size: [i64; 3],
}

impl Plan<'_> {
    /// Loops over blocks, x first.
    pub(crate) fn blocks(&self) -> [Option<(TExpr, TExpr)>; 3] {
        let mut found = [None, None, None];
        for (axis, item) in &self.launch.blocks {
            found[*axis] = Some((item.start.clone(), item.stop.clone()));
        }
        found
    }

    /// The scalars that are bound before it.
    pub(crate) fn bound(&self) -> Vec<(ScalarId, TExpr)> {
        self.launch.values().map(|(var, value)| (var, value.clone())).collect()
    }
}

/// Splits a program.
pub(crate) fn stages<'p>(
    program: &TensorProgram,
    body: &'p [Stmt],
    way: Way,
) -> Result<Stages<'p>, String> {
    let found = match way {
        Way::Launched => launches(body),
        Way::Alone => by_one_thread(body),
    };
    let mut scratch = found.memory;
    let mut stages = Vec::new();
    for launch in found.launches {
        if !launch.has_threads {
            launch.body.iter().for_each(|stmt| keep_large(program, stmt, &mut scratch));
        }
        let size = if launch.has_threads { size(&launch.body)? } else { [1; 3] };
        stages.push(Plan { launch, size });
    }
    Ok(Stages { stages, scratch })
}

/// What one thread allocates and cannot keep for itself.
fn keep_large(program: &TensorProgram, stmt: &Stmt, scratch: &mut Vec<BufferId>) {
    visit_statements(std::slice::from_ref(stmt), &mut |inner| {
        if let StmtKind::Alloc(buffer) = inner.kind {
            let count = constant_count(&program.buffer(buffer).shape);
            if count.is_none_or(|count| count > KEPT) {
                scratch.push(buffer);
            }
        }
    });
}

/// The threads of a workgroup: as many as the largest loop over them has iterations. More are taken in turns.
fn size(body: &[&Stmt]) -> Result<[i64; 3], String> {
    let mut size = [1_i64; 3];
    let mut error = None;
    for stmt in body {
        visit_statements(std::slice::from_ref(*stmt), &mut |inner| {
            let StmtKind::For { loops, kind, .. } = &inner.kind else { return };
            let Some(axis) = thread_axis(kind) else { return };
            let [item] = loops.as_slice() else {
                error = Some("several loops are bound to one axis".to_owned());
                return;
            };
            let extent = match (&item.start, &item.stop) {
                (TExpr::Int(start), TExpr::Int(stop)) => stop.saturating_sub(*start).max(1),
                _ if axis == 0 => USUAL,
                _ => 1,
            };
            size[axis] = size[axis].max(extent);
        });
    }
    let others = size[1].saturating_mul(size[2]);
    if others.saturating_mul(size[0]) > INVOCATIONS || size[2] > 64 {
        if body.iter().any(|stmt| has_barrier(std::slice::from_ref(*stmt))) {
            return Err(format!("a block of threads has more than {INVOCATIONS} of them"));
        }
        size = [size[0].min(INVOCATIONS), 1, 1];
    }
    error.map_or(Ok(size), Err)
}
