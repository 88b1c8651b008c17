//! Which buffers a tensor program stores to.

use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Param, Stmt, StmtKind};
use std::collections::BTreeSet;

/// For each buffer among the parameters, in their order, whether the program may write to it.
pub(crate) fn written(program: &TensorProgram) -> Vec<bool> {
    let mut stored = BTreeSet::new();
    program.body.iter().for_each(|body| visit(body, &mut stored));
    let buffers = program.params.iter().filter_map(|param| match param {
        Param::Buffer(id) => Some(stored.contains(id)),
        Param::Scalar(_) | Param::Dim(_) => None,
    });
    buffers.collect()
}

fn visit(body: &[Stmt], stored: &mut BTreeSet<BufferId>) {
    for statement in body {
        match &statement.kind {
            StmtKind::Store { buffer, .. } => {
                stored.insert(*buffer);
            }
            StmtKind::For { body, .. } => visit(body, stored),
            StmtKind::Block { init, body, .. } => {
                visit(init, stored);
                visit(body, stored);
            }
            StmtKind::If { then, otherwise, .. } => {
                visit(then, stored);
                visit(otherwise, stored);
            }
            StmtKind::Let { .. } | StmtKind::Alloc(_) | StmtKind::Barrier | StmtKind::Check(_) => {}
        }
    }
}
