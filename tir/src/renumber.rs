//! Canonical numbering: buffers and scalars are numbered in the order in which the text of a program declares them: a program
//! with the same text is then an equal value. What nothing mentions is forgotten.

use relax_semantics::tir::walk::{Rewrite, statements, visit_statements};
use relax_syntax::Name;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Param, ScalarId, Stmt, StmtKind};
use std::collections::{BTreeMap, BTreeSet};

/// The numbering of the text.
pub fn renumber_program(program: &mut TensorProgram) {
    let body = program.body.take().unwrap_or_default();
    let (buffers, scalars) = order(&program.params, &body);
    let mut numbers = Numbers { buffers: positions(&buffers), scalars: positions(&scalars) };
    program.buffers = buffers.iter().map(|id| program.buffers[id.0 as usize].clone()).collect();
    program.scalars = scalars.iter().map(|id| program.scalars[id.0 as usize].clone()).collect();
    for param in &mut program.params {
        match param {
            Param::Buffer(id) => *id = numbers.buffer(*id),
            Param::Scalar(id) => *id = numbers.scalar(*id),
            Param::Dim(_) => {}
        }
    }
    program.body = Some(statements(&body, &mut numbers));
    order_dims(program);
}

type Order = (Vec<BufferId>, Vec<ScalarId>);

fn order(params: &[Param], body: &[Stmt]) -> Order {
    let (mut buffers, mut scalars) = (Vec::new(), Vec::new());
    for param in params {
        match param {
            Param::Buffer(id) => buffers.push(*id),
            Param::Scalar(id) => scalars.push(*id),
            Param::Dim(_) => {}
        }
    }
    visit_statements(body, &mut |stmt| match &stmt.kind {
        StmtKind::For { loops, .. } => scalars.extend(loops.iter().map(|item| item.var)),
        StmtKind::Block { axes, .. } => scalars.extend(axes.iter().map(|axis| axis.var)),
        StmtKind::Let { var, .. } => scalars.push(*var),
        StmtKind::Alloc(id) => buffers.push(*id),
        StmtKind::Store { .. } | StmtKind::If { .. } | StmtKind::Barrier | StmtKind::Check(_) => {}
    });
    (buffers, scalars)
}

struct Numbers {
    buffers: BTreeMap<BufferId, u32>,
    scalars: BTreeMap<ScalarId, u32>,
}

fn positions<Id: Copy + Ord>(ids: &[Id]) -> BTreeMap<Id, u32> {
    ids.iter().copied().zip(0..).collect()
}

impl Rewrite for Numbers {
    fn buffer(&mut self, id: BufferId) -> BufferId {
        BufferId(*self.buffers.get(&id).expect("invariant: a buffer is declared before its use"))
    }

    fn scalar(&mut self, id: ScalarId) -> ScalarId {
        ScalarId(*self.scalars.get(&id).expect("invariant: a scalar is bound before its use"))
    }
}

/// Symbolic variables: those of the buffers that are parameters, in their order, then all others.
fn order_dims(program: &mut TensorProgram) {
    let mut seen: Vec<Name> = Vec::new();
    let mut within = BTreeSet::new();
    for param in &program.params {
        let Param::Buffer(id) = param else { continue };
        for dim in &program.buffers[id.0 as usize].shape {
            dim.visit_vars(&mut |name| {
                if within.insert(name.clone()) {
                    seen.push(name.clone());
                }
            });
        }
    }
    let place = |name: &Name| seen.iter().position(|other| other == name).unwrap_or(seen.len());
    program.dims.iter_mut().for_each(|dim| dim.in_signature = within.contains(&dim.name));
    program.dims.sort_by_key(|dim| place(&dim.name));
}
