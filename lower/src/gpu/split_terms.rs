//! Products of few elements: the threads of a block share the terms of a sum too (split-K within a block).
//!
//! A tile is as small as keeps many blocks busy. Each group of threads has all of it in registers, for some of the terms; at the end they add
//! up what they have, part by part through shared memory. So sums are formed in another order, and the exactness must allow that.

use super::choice::elements;
use super::expressions::{add, extent, multiply, reaches};
use super::register_tiles::{Layout, Square};
use super::scope_promotion::Nearer;
use super::tiles::Product;
use super::{Choices, Limits};
use crate::writer::Writer;
use relax_rewrite::pass::Exactness;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{
    BinOp, BufferId, BufferInfo, ScalarId, Scope, Stmt, StmtKind, TExpr,
};
use relax_tir::warps::LANES;
use std::collections::BTreeSet;

/// Rows and columns of the square of a thread.
const PER: [i64; 2] = [4, 8];
/// Most groups of threads: each has a share of the 32 sums of a thread at once.
const MOST_SLICES: i64 = 8;
/// Terms of a tile for each group, where shared memory has room for them, and where it has not.
const TERMS: [i64; 2] = [4, 2];
/// Shared memory that has room for the former.
const ROOM: i64 = 32 << 10;
/// Sums that are known to have fewer terms are not worth being split.
const SHORT: i64 = 64;
/// Elements that are wider take more shared memory than every device has.
const WIDEST: usize = 4;

/// How threads share a tile; none where a block has too few of them.
pub(super) fn layout(limits: Limits) -> Option<Layout> {
    let bits = limits.threads.checked_ilog2()?;
    let lanes = bits.checked_sub(1)?.min(LANES.ilog2());
    let slices = (1 << (bits - lanes)).min(MOST_SLICES);
    let across = [1 << lanes.div_ceil(2), 1 << (lanes / 2)];
    let terms = TERMS[usize::from(limits.shared < ROOM)];
    Some(Layout { across, per: PER, slices, depth: terms * slices })
}

/// Whether sums of a product may be split. They begin with 0: terms beyond the edge, which are 0, change nothing.
pub(super) fn is_possible(writer: &Writer, product: &Product, choices: &Choices<'_>) -> bool {
    let is_short = matches!(extent(&product.k), TExpr::Int(..SHORT));
    let is_narrow = |dtype: DType| dtype.size() <= WIDEST;
    choices.exactness != Exactness::Exact
        && layout(choices.limits).is_some()
        && product.begins_with_zero()
        && !is_short
        && is_narrow(writer.program.buffer(product.sum.buffer).dtype)
        && product.factors.iter().all(|factor| is_narrow(factor.dtype))
}

/// 1 where larger tiles keep a device busy, of `width` elements each, else 0.
pub(super) fn larger(product: &Product, width: i64, limits: Limits) -> TExpr {
    reaches(elements(product), width.saturating_mul(limits.busy))
}

/// How a group's share of the sums of a thread is taken apart: rows and columns of it.
fn share(slices: i64) -> [i64; 2] {
    let columns = slices.min(2);
    [slices / columns, columns]
}

impl Square<'_> {
    /// The sums of all groups of threads, a part of the square at a time, and what is done with them. Each thread adds up one element
    /// of a part.
    pub(super) fn added_up(&mut self, writer: &mut Writer, is_own: bool) -> (BufferId, Vec<Stmt>) {
        let (product, slices, lanes) = (self.product, self.layout.slices, self.layout.lanes());
        let sum = product.sum.buffer;
        let dtype = writer.program.buffer(sum).dtype;
        let shape = [slices, slices, lanes].map(Dim::Int).to_vec();
        let (scope, span) = (Scope::Shared, product.span);
        let info = BufferInfo { name: "parts".into(), shape, dtype, scope, span };
        let parts = writer.buffer("parts", info);
        let [high, wide] = share(slices);
        let [top, group, left] = ["g", "h", "l"].map(|base| self.number(writer, base));
        let mut total = Nearer::new(writer, &BTreeSet::from([sum]), Scope::Local);
        let mut body = self.shared(writer, parts, [top, group, left]);
        body.push(self.stmt(StmtKind::Barrier));
        body.extend(total.statements(std::slice::from_ref(&product.first)));
        body.extend(self.total(writer, parts, &total));
        let slice = TExpr::Scalar(self.threads[0]);
        let part = |op: BinOp| TExpr::binary(op, slice.clone(), TExpr::Int(wide));
        let times = |var: ScalarId, by: i64| multiply(TExpr::Scalar(var), TExpr::Int(by));
        let sum_of = |parts: Vec<TExpr>| parts.into_iter().reduce(add);
        let row = vec![
            multiply(self.thread(0), TExpr::Int(PER[0])),
            self.top(top),
            part(BinOp::FloorDiv),
        ];
        let own = PER[1] / 2;
        let column = vec![
            times(group, self.layout.across[1] * own),
            multiply(self.thread(1), TExpr::Int(own)),
            times(left, wide),
            part(BinOp::Mod),
        ];
        let lines = [row, column].map(|parts| sum_of(parts).expect("invariant: there are some"));
        let last = total.of_product(product, (Vec::new(), is_own), span);
        body.extend(self.where_there(writer, lines, last));
        body.push(self.stmt(StmtKind::Barrier));
        let mut turns = vec![(top, PER[0] / high), (group, 2), (left, own / wide)];
        turns.retain(|(_, count)| *count > 1);
        let alone = total.allocations(span);
        (parts, [alone, self.over(&turns, body)].concat())
    }

    /// The first row of a part within the square. Parts of all its rows have no loop over them: write coverage needs weights that differ.
    fn top(&self, part: ScalarId) -> TExpr {
        match share(self.layout.slices)[0] {
            high if high < PER[0] => multiply(TExpr::Scalar(part), TExpr::Int(high)),
            _ => TExpr::Int(0),
        }
    }

    /// What a group of threads has of a part goes to shared memory.
    fn shared(
        &self,
        writer: &mut Writer,
        parts: BufferId,
        [top, group, left]: [ScalarId; 3],
    ) -> Vec<Stmt> {
        let [high, wide] = share(self.layout.slices);
        let [r, c] = ["r", "c"].map(|base| self.number(writer, base));
        let times = |var: ScalarId, by: i64| multiply(TExpr::Scalar(var), TExpr::Int(by));
        let own = [
            add(self.top(top), TExpr::Scalar(r)),
            add(add(times(group, PER[1] / 2), times(left, wide)), TExpr::Scalar(c)),
        ];
        let buffer = self.sums.element(self.product.sum.buffer);
        let buffer = buffer.expect("invariant: it was asked for");
        let value = TExpr::Load { buffer, indices: own.to_vec() };
        let [slice, lane] = self.threads.map(TExpr::Scalar);
        let at = add(times(r, wide), TExpr::Scalar(c));
        let stored = self.store(parts, vec![slice, at, lane], value);
        self.over(&[(r, high), (c, wide)], vec![stored])
    }

    /// The sum over all groups of the element that is the thread's.
    fn total(&self, writer: &mut Writer, parts: BufferId, total: &Nearer) -> Vec<Stmt> {
        let w = self.number(writer, "w");
        let [slice, lane] = self.threads.map(TExpr::Scalar);
        let value = TExpr::Load { buffer: parts, indices: vec![TExpr::Scalar(w), slice, lane] };
        let buffer = total.element(self.product.sum.buffer);
        let buffer = buffer.expect("invariant: it was asked for");
        let update = Some(BinOp::Add);
        let adds = StmtKind::Store { buffer, indices: Vec::new(), update, value };
        self.over(&[(w, self.layout.slices)], vec![self.stmt(adds)])
    }
}
