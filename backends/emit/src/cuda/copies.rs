//! Asynchronous copies (`cp.async`): vectors that a thread stores in shared memory as they lie in global memory, or zeros, so that it
//! goes on before they are there.
//!
//! They are there once the thread has waited for them, which it does before each barrier. So nobody may load such an element before:
//! that holds of memory that only products of warps load ([`WarpProduct`]). One thread stores an element, several of a warp load it,
//! and where no barrier stands between that is a race in the text already.

use super::cores::Warp;
use super::vectors::Lanes;
use super::{ALIGNED, Place};
use crate::printer::Printer;
use relax_semantics::tir::walk::{visit, visit_own};
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Scope, Stmt, StmtKind, TExpr};
use relax_tir::index_bounds::assume;
use relax_tir::warps::WarpProduct;
use std::collections::BTreeSet;

/// Waits until what a thread copies is there.
pub(super) const WAIT: &str = "rx_copied();";

/// Memory that only products of a warp load.
pub(super) fn loaded_by_warps(
    program: &TensorProgram,
    body: &[Stmt],
    warp: Option<&Warp>,
) -> BTreeSet<BufferId> {
    let Some(warp) = warp else { return BTreeSet::new() };
    let (mut tiles, mut others) = (BTreeSet::new(), BTreeSet::new());
    collect(program, body, warp, (&mut tiles, &mut others));
    tiles.difference(&others).copied().collect()
}

fn collect(
    program: &TensorProgram,
    body: &[Stmt],
    warp: &Warp,
    (tiles, others): (&mut BTreeSet<BufferId>, &mut BTreeSet<BufferId>),
) {
    for stmt in body {
        if let Some(product) = WarpProduct::of(program, stmt).filter(|found| warp.forms(found)) {
            tiles.extend(product.tiles);
            continue;
        }
        visit_own(stmt, &mut |expr| {
            visit(expr, &mut |part| {
                if let TExpr::Load { buffer, .. } = part {
                    others.insert(*buffer);
                }
            });
        });
        let inner: [&[Stmt]; 2] = match &stmt.kind {
            StmtKind::Store { buffer, update: Some(_), .. } => {
                others.insert(*buffer);
                [&[], &[]]
            }
            StmtKind::For { body, .. } => [body, &[]],
            StmtKind::Block { init, body, .. } => [init, body],
            StmtKind::If { then, otherwise, .. } => [then, otherwise],
            _ => [&[], &[]],
        };
        inner.into_iter().for_each(|body| collect(program, body, warp, (tiles, others)));
    }
}

/// `T[…, e] = select(condition, X[…, v * 8 + e], 0)` for each `e`.
struct Copy<'s> {
    to: BufferId,
    place: Vec<TExpr>,
    condition: &'s TExpr,
    from: (BufferId, &'s [TExpr]),
}

impl<'s> Copy<'s> {
    fn of(program: &TensorProgram, lanes: &Lanes<'s>) -> Option<Self> {
        let (store, lets) = lanes.body.split_last()?;
        let StmtKind::Store { buffer: to, indices, update: None, value } = &store.kind else {
            return None;
        };
        let TExpr::Select(parts) = value else { return None };
        let (condition, TExpr::Load { buffer: from, indices: source }, TExpr::Float(nothing)) =
            parts.as_ref()
        else {
            return None;
        };
        let [info, of] = [*to, *from].map(|buffer| program.buffer(buffer));
        let (last, before) = indices.split_last()?;
        let bytes = i64::try_from(info.dtype.size()).ok()?.checked_mul(lanes.width)?;
        let fits = lets.iter().all(|stmt| matches!(stmt.kind, StmtKind::Let { .. }))
            && *last == TExpr::Scalar(lanes.item.var)
            && info.shape.last() == Some(&relax_syntax::dim::Dim::Int(lanes.width))
            && !before.iter().chain([condition]).any(|part| lanes.varies(part))
            && (info.scope, info.dtype) == (Scope::Shared, of.dtype)
            && (bytes, nothing.to_bits()) == (ALIGNED, 0);
        let place = before.iter().cloned().chain([TExpr::Int(0)]).collect();
        fits.then_some(Self { to: *to, place, condition, from: (*from, source) })
    }
}

impl Printer<'_, '_> {
    /// A copy; false where the loop is none, or not everything is known that it takes.
    pub(super) fn copy(&mut self, lanes: &Lanes<'_>) -> bool {
        let Some(copy) = Copy::of(self.program, lanes) else { return false };
        let Some(vector) = lanes.of_access(copy.from) else { return false };
        if !self.is_copied(copy.to) || self.notes_elements(copy.to) {
            return false;
        }
        let line = self.attempt_inline(|printer| {
            let condition = printer.expr(copy.condition, DType::Bool);
            let values = printer.indices(&copy.place);
            let to = printer.element(copy.to, &copy.place, values);
            assume(&printer.ranges, printer.facts, copy.condition);
            printer.are_side_by_side(lanes, &vector).then_some(())?;
            let values = printer.indices(&vector.first);
            let from = printer.element(vector.buffer, &vector.first, values);
            let [tile, source] = [copy.to, vector.buffer].map(|id| printer.buffers[&id].clone());
            Some(format!("rx_copy(&{tile}[{to}], &{source}[{from}], {condition});"))
        });
        line.inspect(|line| self.line(line)).is_some()
    }

    /// Whether copies to a buffer may be under way.
    pub(crate) fn is_copied(&self, buffer: BufferId) -> bool {
        self.cuda.as_ref().is_some_and(|cuda| {
            cuda.place == Place::Thread && cuda.copies.contains(&buffer) && cuda.is_shared(buffer)
        })
    }

    /// Waits for copies that may be under way.
    pub(crate) fn wait_for_copies(&mut self) {
        if self.cuda.as_ref().is_some_and(|cuda| !cuda.copies.is_empty()) {
            self.line(WAIT);
        }
    }
}
