//! Memory that a nest allocates: a small one of known size is the thread's own, others become an element for each iteration
//! of what the host allocates.

use crate::writer::Writer;
use relax_semantics::tir::walk::{Place, Rewrite, statements, visit_statements};
use relax_syntax::dim::Dim;
use relax_syntax::ir::tensor::{BufferId, BufferInfo, Loop, Scope, Stmt, StmtKind, TExpr};
use relax_tir::dims::as_dim;
use std::collections::BTreeMap;

/// Elements of memory that is a thread's own.
const OWN: i64 = 256;

/// Whether the host can allocate it anywhere: no dim of it is computed.
pub(super) fn is_host_shape(info: &BufferInfo) -> bool {
    info.shape.iter().all(|dim| matches!(dim, Dim::Var(_) | Dim::Int(0..)))
}

fn is_small(info: &BufferInfo) -> bool {
    let elements = info.shape.iter().try_fold(1_i64, |count, dim| match dim {
        Dim::Int(extent @ 0..) => count.checked_mul(*extent),
        _ => None,
    });
    elements.is_some_and(|count| count <= OWN)
}

fn allocated(body: &[Stmt]) -> Vec<BufferId> {
    let mut found = Vec::new();
    visit_statements(body, &mut |stmt| {
        if let StmtKind::Alloc(buffer) = stmt.kind {
            found.push(buffer);
        }
    });
    found
}

/// Scopes of what the statements of one thread allocate.
pub(super) fn keep_with_thread(writer: &mut Writer, body: &[Stmt]) {
    for buffer in allocated(body) {
        let info = &mut writer.program.buffers[buffer.0 as usize];
        info.scope = if is_small(info) { Scope::Local } else { Scope::Global };
    }
}

/// What is allocated outside of the kernel, and what is left of the nest's body.
pub(super) struct Spread {
    pub(super) outside: Vec<Stmt>,
    pub(super) body: Vec<Stmt>,
}

/// The body of a nest whose loops `bound` are threads; `None` where it allocates what cannot be spread.
pub(super) fn spread(writer: &mut Writer, bound: &[&Loop], body: &[Stmt]) -> Option<Spread> {
    let all = allocated(body);
    let small = |buffer: &BufferId| is_small(writer.program.buffer(*buffer));
    let (own, large): (Vec<_>, Vec<_>) = all.into_iter().partition(small);
    let top = |buffer: &BufferId| {
        let mut stands = false;
        at_top(body, &mut |stmt| stands |= stmt.kind == StmtKind::Alloc(*buffer));
        stands && is_host_shape(writer.program.buffer(*buffer))
    };
    let extents: Option<Vec<Dim>> = bound
        .iter()
        .map(|item| as_dim(&item.stop).filter(|_| item.start == TExpr::Int(0)))
        .collect();
    let extents = match large.is_empty() {
        true => Vec::new(),
        false => extents.filter(|dims| dims.iter().all(is_plain) && large.iter().all(top))?,
    };
    let mut spread = Elements { of: BTreeMap::new() };
    let vars: Vec<TExpr> = bound.iter().map(|item| TExpr::Scalar(item.var)).collect();
    let mut outside = Vec::new();
    for buffer in own {
        writer.program.buffers[buffer.0 as usize].scope = Scope::Local;
    }
    for buffer in large {
        let info = &mut writer.program.buffers[buffer.0 as usize];
        info.scope = Scope::Global;
        info.shape = [extents.clone(), std::mem::take(&mut info.shape)].concat();
        outside.push(Stmt { kind: StmtKind::Alloc(buffer), span: info.span });
        spread.of.insert(buffer, vars.clone());
    }
    Some(Spread { body: spread.body(body), outside })
}

fn is_plain(dim: &Dim) -> bool {
    matches!(dim, Dim::Var(_) | Dim::Int(0..))
}

/// The statements that run once in each iteration of the nest.
fn at_top(body: &[Stmt], seen: &mut dyn FnMut(&Stmt)) {
    for stmt in body {
        seen(stmt);
        if let StmtKind::Block { axes, init, body, .. } = &stmt.kind
            && axes.is_empty()
            && init.is_empty()
        {
            at_top(body, seen);
        }
    }
}

/// Accesses that get indices in front.
struct Elements {
    of: BTreeMap<BufferId, Vec<TExpr>>,
}

impl Elements {
    fn body(&mut self, body: &[Stmt]) -> Vec<Stmt> {
        if self.of.is_empty() {
            return body.to_vec();
        }
        let loads = statements(body, self);
        self.stores(loads)
    }

    /// Loads are rewritten as expressions; this is for stores, and the allocations go.
    fn stores(&self, body: Vec<Stmt>) -> Vec<Stmt> {
        let mut result = Vec::with_capacity(body.len());
        for mut stmt in body {
            match &mut stmt.kind {
                StmtKind::Alloc(buffer) if self.of.contains_key(buffer) => continue,
                StmtKind::Store { buffer, indices, .. } => {
                    if let Some(first) = self.of.get(buffer) {
                        *indices = [first.clone(), std::mem::take(indices)].concat();
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
            result.push(stmt);
        }
        result
    }
}

impl Rewrite for Elements {
    fn replace(&mut self, expr: &TExpr, _place: Place) -> Option<TExpr> {
        let TExpr::Load { buffer, indices } = expr else { return None };
        let first = self.of.get(buffer)?.clone();
        let rest =
            indices.iter().map(|index| relax_semantics::tir::walk::expr(index, self, Place::Index));
        let indices = first.into_iter().chain(rest).collect();
        Some(TExpr::Load { buffer: *buffer, indices })
    }
}
