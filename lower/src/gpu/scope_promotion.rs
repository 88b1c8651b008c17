//! Scope promotion (scalar replacement): a buffer with an element for each iteration that nothing else sees becomes one element of
//! a nearer memory scope.

use crate::writer::Writer;
use relax_semantics::tir::walk::{
    Place, Rewrite, loaded, statements, stored, visit, visit_own, visit_statements,
};
use relax_syntax::dim::Dim;
use relax_syntax::ir::tensor::{BufferId, BufferInfo, Loop, Scope, Stmt, StmtKind, TExpr};
use relax_syntax::span::Span;
use relax_tir::workspaces::is_forgotten;
use std::collections::{BTreeMap, BTreeSet};

/// Buffers with an element for each iteration of `loops` that nothing sees but `all`, the statements of an iteration.
pub(super) fn own_elements(
    writer: &Writer,
    loops: &[Loop],
    all: &[Stmt],
    outside: &[Stmt],
) -> BTreeSet<BufferId> {
    let (read, written) = (loaded(outside), stored(outside));
    let own = stored(all).into_iter().filter(|buffer| {
        is_forgotten(&writer.program, *buffer)
            && !read.contains(buffer)
            && !written.contains(buffer)
            && is_at_iteration(loops, *buffer, all)
    });
    own.collect()
}

/// Whether each access is at the place of the iteration, the same everywhere, and no statement allocates it.
pub(super) fn is_at_iteration(loops: &[Loop], buffer: BufferId, all: &[Stmt]) -> bool {
    let vars: Vec<TExpr> = loops.iter().map(|item| TExpr::Scalar(item.var)).collect();
    let is_place = |indices: &[TExpr]| {
        indices.iter().all(|index| vars.contains(index) || *index == TExpr::Int(0))
            && vars.iter().all(|var| indices.contains(var))
    };
    let mut places: BTreeSet<String> = BTreeSet::new();
    let mut fits = true;
    let mut see = |other: BufferId, indices: &[TExpr]| {
        if other == buffer {
            fits &= is_place(indices);
            places.insert(format!("{indices:?}"));
        }
    };
    visit_statements(all, &mut |stmt| match &stmt.kind {
        StmtKind::Store { buffer, indices, .. } => see(*buffer, indices),
        StmtKind::Alloc(other) if *other == buffer => see(*other, &[TExpr::Bool(false)]),
        _ => {}
    });
    visit_statements(all, &mut |stmt| {
        visit_own(stmt, &mut |expr| {
            visit(expr, &mut |part| {
                if let TExpr::Load { buffer, indices } = part {
                    see(*buffer, indices);
                }
            });
        });
    });
    fits && places.len() == 1
}

/// Single elements in the place of buffers, or one of an array for each of them.
pub(super) struct Nearer {
    of: BTreeMap<BufferId, BufferId>,
    /// Which one.
    indices: Vec<TExpr>,
}

impl Nearer {
    pub(super) fn new(writer: &mut Writer, buffers: &BTreeSet<BufferId>, scope: Scope) -> Self {
        let suffix = if scope == Scope::Shared { "row" } else { "own" };
        let mut of = BTreeMap::new();
        for buffer in buffers {
            let info = writer.program.buffer(*buffer).clone();
            let name = format!("{}_{suffix}", info.name);
            let info = BufferInfo { shape: Vec::new(), scope, ..info };
            of.insert(*buffer, writer.buffer(&name, info));
        }
        Self { of, indices: Vec::new() }
    }

    /// An array of a thread in the place of a buffer.
    pub(super) fn array(writer: &mut Writer, buffer: BufferId, shape: &[i64]) -> Self {
        Self::arrays(writer, &BTreeSet::from([buffer]), (Scope::Local, shape), Vec::new())
    }

    /// Arrays in the place of buffers, and which element of them is meant.
    pub(super) fn arrays(
        writer: &mut Writer,
        buffers: &BTreeSet<BufferId>,
        (scope, shape): (Scope, &[i64]),
        indices: Vec<TExpr>,
    ) -> Self {
        let mut nearer = Self::new(writer, buffers, scope);
        nearer.indices = indices;
        for own in nearer.of.values_mut() {
            let info = &mut writer.program.buffers[own.0 as usize];
            info.shape = shape.iter().map(|extent| Dim::Int(*extent)).collect();
        }
        nearer
    }

    /// From now on this element of the array stands for the buffer.
    pub(super) fn at(&mut self, indices: Vec<TExpr>) {
        self.indices = indices;
    }

    /// Where the elements are allocated.
    pub(super) fn allocations(&self, span: Span) -> Vec<Stmt> {
        self.of.values().map(|own| Stmt { kind: StmtKind::Alloc(*own), span }).collect()
    }

    /// What stands for a buffer.
    pub(super) fn element(&self, buffer: BufferId) -> Option<BufferId> {
        self.of.get(&buffer).copied()
    }

    pub(super) fn statements(&mut self, body: &[Stmt]) -> Vec<Stmt> {
        let loads = statements(body, self);
        self.stores(loads)
    }

    fn stores(&self, mut body: Vec<Stmt>) -> Vec<Stmt> {
        for stmt in &mut body {
            match &mut stmt.kind {
                StmtKind::Store { buffer, indices, .. } => {
                    if let Some(own) = self.of.get(buffer) {
                        *buffer = *own;
                        indices.clone_from(&self.indices);
                    }
                }
                StmtKind::For { body, .. } => *body = self.stores(std::mem::take(body)),
                StmtKind::Block { init, body, .. } => {
                    *init = self.stores(std::mem::take(init));
                    *body = self.stores(std::mem::take(body));
                }
                StmtKind::If { then, otherwise, .. } => {
                    *then = self.stores(std::mem::take(then));
                    *otherwise = self.stores(std::mem::take(otherwise));
                }
                _ => {}
            }
        }
        body
    }
}

impl Rewrite for Nearer {
    fn replace(&mut self, part: &TExpr, _place: Place) -> Option<TExpr> {
        let TExpr::Load { buffer, .. } = part else { return None };
        let buffer = *self.of.get(buffer)?;
        Some(TExpr::Load { buffer, indices: self.indices.clone() })
    }
}
