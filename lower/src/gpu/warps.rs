//! Sums of products of f16 or bf16 in f32, as tensor cores form them: a block of threads computes a tile of the result, each of its
//! warps a part of that, in blocks of 16 rows and 8 columns ([`WarpProduct`]).
//!
//! The block loads 32 terms of both factors into shared memory, where they lie as the warps read them; beyond the edges there is 0.
//! Each thread adds to the elements that tensor cores would give it, in a plain nest: so the text is a tensor program like any other,
//! and only a printer that knows of tensor cores makes something else of the nest.
//!
//! Tensor cores take 16 rows at once. The host chooses this kernel where there are as many, else threads that own an element each.

use super::Limits;
use super::expressions::{add, ceil_divide, extent, multiply};
use super::register_tiles::Names;
use super::tiles::{Product, Tiled, over_blocks};
use crate::writer::Writer;
use relax_semantics::tir::walk::{Place, Rewrite, expr, statements, stored};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{
    BinOp, BufferId, BufferInfo, Loop, LoopKind, ScalarId, Scope, Stmt, StmtKind, TExpr,
};
use relax_tir::warps::{COLUMNS, LANES, ROWS, SEGMENT, WarpProduct};
use std::collections::BTreeMap;

/// Blocks of a warp along rows, and along columns.
const BLOCKS: [i64; 2] = [2, 4];
/// Terms that are loaded at once: each lane of a warp loads one of a row.
const DEPTH: i64 = LANES;
/// Each warp loads a term at least.
const MOST_WARPS: i64 = DEPTH;

/// The warps of a block of threads, along rows and along columns.
#[derive(Clone, Copy)]
pub(super) struct Warps([i64; 2]);

impl Warps {
    /// None where a block has too few threads.
    pub(super) fn of(limits: Limits) -> Option<Self> {
        let all = (limits.threads / LANES).checked_ilog2()?.min(MOST_WARPS.ilog2());
        Some(Self([1 << all.div_ceil(2), 1 << (all / 2)]))
    }

    fn count(self) -> i64 {
        self.0[0] * self.0[1]
    }

    /// Rows and columns of the tile of a block.
    fn tile(self) -> [i64; 2] {
        [self.0[0] * BLOCKS[0] * ROWS, self.0[1] * BLOCKS[1] * COLUMNS]
    }
}

/// Whether tensor cores can form the sums.
pub(super) fn is_possible(writer: &Writer, product: &Product) -> bool {
    let is_zero = |value: &TExpr| match value {
        TExpr::Float(value) => value.to_bits() == 0,
        value => *value == TExpr::Int(0),
    };
    let begins = matches!(&product.first.kind, StmtKind::Store { value, .. } if is_zero(value));
    let is_wide = |dtype: DType| matches!(dtype, DType::F32 | DType::F64);
    let [a, b] = &product.factors;
    let is_half = a.dtype == b.dtype && matches!(a.dtype, DType::F16 | DType::BF16);
    let is_widened = [a, b]
        .iter()
        .all(|factor| !factor.casts.is_empty() && factor.casts.iter().all(|dtype| is_wide(*dtype)));
    let is_summed = is_wide(writer.program.buffer(product.sum.buffer).dtype)
        && !stored(&product.last).contains(&product.sum.buffer);
    begins && is_half && is_widened && is_summed
}

/// 1 where tensor cores have enough to do, else 0: the host chooses by it. None where they never have.
pub(super) fn chosen(product: &Product) -> Option<TExpr> {
    let reach = |item: &Loop, least: i64| match extent(item) {
        TExpr::Int(count) => TExpr::Int(i64::from(count >= least)),
        count => {
            let whole = TExpr::binary(BinOp::FloorDiv, count, TExpr::Int(least));
            TExpr::binary(BinOp::Min, whole, TExpr::Int(1))
        }
    };
    // By one extent, as squares are chosen.
    match (reach(&product.i, ROWS), reach(&product.j, COLUMNS)) {
        (TExpr::Int(0), _) | (_, TExpr::Int(0)) => None,
        (TExpr::Int(_), chosen) | (chosen, _) => Some(chosen),
    }
}

/// Scalars and buffers of the kernel.
struct Cores<'p> {
    product: &'p Product,
    warps: Warps,
    lane: ScalarId,
    warp: ScalarId,
    /// The numbers of the tile.
    blocks: [ScalarId; 2],
    tiles: [BufferId; 2],
    sums: BufferId,
}

/// The kernel, with as many rows of tiles as `times` says.
pub(super) fn written(
    writer: &mut Writer,
    product: &Product,
    (warps, is_own): (Warps, bool),
    times: &TExpr,
    limits: Limits,
) -> Vec<Stmt> {
    let product = &product.renamed(writer);
    let span = product.span;
    let [lane, warp, ti, tj] =
        ["tx", "ty", "ti", "tj"].map(|base| writer.scalar(base, Some(DType::I64), span));
    let mut array = |shape: &[i64], dtype: DType, scope: Scope, name: &str| {
        let shape = shape.iter().map(|extent| Dim::Int(*extent)).collect();
        writer.buffer(name, BufferInfo { name: name.into(), shape, dtype, scope, span })
    };
    let tiles = [0, 1].map(|at: usize| {
        let shape = [DEPTH / SEGMENT, warps.tile()[at], SEGMENT];
        array(&shape, product.factors[at].dtype, Scope::Shared, "tile")
    });
    let sums = array(&[BLOCKS[0], BLOCKS[1], 2, 2], DType::F32, Scope::Local, "sums");
    let cores = Cores { product, warps, lane, warp, blocks: [ti, tj], tiles, sums };
    let body = cores.body(writer, is_own);
    let over = |item: &Loop, (var, width): (ScalarId, i64), times: &TExpr| {
        let stop = multiply(ceil_divide(extent(item), width), times.clone());
        Loop { var, start: TExpr::Int(0), stop }
    };
    let [high, wide] = warps.tile();
    let rows = over(&product.i, (ti, high), times);
    let columns = over(&product.j, (tj, wide), &TExpr::Int(1));
    let blocks = [product.batch.clone(), vec![rows, columns]].concat();
    let threads = [(warp, warps.count()), (lane, LANES)];
    let tiled = Tiled { shared: tiles.to_vec(), threads, span };
    over_blocks(writer, &blocks, &tiled, body, limits)
}

/// The sum in the place of the element that it was.
struct Summed(BufferId, TExpr);

impl Rewrite for Summed {
    fn replace(&mut self, part: &TExpr, _place: Place) -> Option<TExpr> {
        matches!(part, TExpr::Load { buffer, .. } if *buffer == self.0).then(|| self.1.clone())
    }
}

impl Cores<'_> {
    fn stmt(&self, kind: StmtKind) -> Stmt {
        Stmt { kind, span: self.product.span }
    }

    fn bind(&self, var: ScalarId, value: TExpr) -> Stmt {
        self.stmt(StmtKind::Let { var, value })
    }

    fn over(&self, loops: &[(ScalarId, i64)], kind: LoopKind, body: Vec<Stmt>) -> Stmt {
        let of = |(var, count): &(ScalarId, i64)| Loop {
            var: *var,
            start: TExpr::Int(0),
            stop: TExpr::Int(*count),
        };
        let loops = loops.iter().map(of).collect();
        self.stmt(StmtKind::For { loops, kind, body })
    }

    fn scalar(&self, writer: &mut Writer, base: &str) -> ScalarId {
        writer.scalar(base, Some(DType::I64), self.product.span)
    }

    /// The part of a warp, with loop variables of its own.
    fn part(&self, writer: &mut Writer) -> WarpProduct {
        let [m, n, r, c, p] = ["bi", "bj", "r", "c", "p"].map(|base| self.scalar(writer, base));
        let warp = || TExpr::Scalar(self.warp);
        let [row, column] = match self.warps.0 {
            [_, 1] => [warp(), TExpr::Int(0)],
            [_, columns] => [BinOp::FloorDiv, BinOp::Mod]
                .map(|op| TExpr::binary(op, warp(), TExpr::Int(columns))),
        };
        let first = |part: TExpr, at: usize, block: ScalarId| {
            let width = [ROWS, COLUMNS][at];
            let before = multiply(part, TExpr::Int(BLOCKS[at] * width));
            add(before, multiply(TExpr::Scalar(block), TExpr::Int(width)))
        };
        let firsts = [first(row, 0, m), first(column, 1, n)];
        let blocks = [(m, BLOCKS[0]), (n, BLOCKS[1])];
        let (sums, tiles, lane) = (self.sums, self.tiles, self.lane);
        WarpProduct { sums, tiles, firsts, blocks, own: [r, c], along: (p, DEPTH), lane }
    }

    /// Something for each element of a thread. Without jumps, so that sums stay in registers.
    fn elements(&self, part: &WarpProduct, body: Vec<Stmt>) -> Vec<Stmt> {
        let loops = [part.blocks, part.own.map(|var| (var, 2))].concat();
        let inwards = loops.iter().rev();
        inwards.fold(body, |body, item| {
            vec![self.over(std::slice::from_ref(item), LoopKind::Unroll, body)]
        })
    }

    fn body(&self, writer: &mut Writer, is_own: bool) -> Vec<Stmt> {
        let zeroed = self.part(writer);
        let (indices, value) = (zeroed.indices(), TExpr::Float(0.0));
        let store = StmtKind::Store { buffer: self.sums, indices, update: None, value };
        let mut body = vec![self.stmt(StmtKind::Alloc(self.sums))];
        body.extend(self.elements(&zeroed, vec![self.stmt(store)]));
        body.push(self.sum(writer));
        body.extend(self.results(writer, is_own));
        body
    }

    /// Tile by tile along the sum: both are loaded, then multiplied.
    fn sum(&self, writer: &mut Writer) -> Stmt {
        let step = self.scalar(writer, "step");
        let before = multiply(TExpr::Scalar(step), TExpr::Int(DEPTH));
        let loaded = [0, 1].map(|at| self.load(writer, at, &before));
        let product = self.part(writer).written(self.product.span);
        let barrier = || self.stmt(StmtKind::Barrier);
        let mut body = Vec::from(loaded);
        body.extend([barrier(), product, barrier()]);
        let stop = ceil_divide(extent(&self.product.k), DEPTH);
        let loops = vec![Loop { var: step, start: TExpr::Int(0), stop }];
        self.stmt(StmtKind::For { loops, kind: LoopKind::Serial, body })
    }

    /// The thread's part of the tile of a factor; neighbouring threads load along what its last index runs along.
    fn load(&self, writer: &mut Writer, at: usize, before: &TExpr) -> Stmt {
        let product = self.product;
        let own = [&product.i, &product.j][at];
        let factor = &product.factors[at];
        let k_is_last = matches!(&factor.core, TExpr::Load { indices, .. }
            if indices.last() == Some(&TExpr::Scalar(product.k.var)));
        let (width, warps) = (self.warps.tile()[at], self.warps.count());
        let [u, v] = ["u", "v"].map(|base| self.scalar(writer, base));
        let spread = |thread: ScalarId, turn: ScalarId, threads: i64| {
            add(TExpr::Scalar(thread), multiply(TExpr::Scalar(turn), TExpr::Int(threads)))
        };
        let (line, term, loops) = if k_is_last {
            let line = spread(self.warp, u, warps);
            (line, TExpr::Scalar(self.lane), vec![(u, width / warps)])
        } else {
            let (line, term) = (spread(self.lane, u, LANES), spread(self.warp, v, warps));
            (line, term, vec![(u, width / LANES), (v, DEPTH / warps)])
        };
        let [row, k] = [["i", "j"][at], "k"].map(|base| writer.scalar(base, None, product.span));
        let tile = multiply(TExpr::Scalar(self.blocks[at]), TExpr::Int(width));
        let less = |var: ScalarId, item: &Loop| {
            TExpr::binary(BinOp::Less, TExpr::Scalar(var), item.stop.clone())
        };
        let is_there = TExpr::binary(BinOp::And, less(row, own), less(k, &product.k));
        let mut names = Names(BTreeMap::from([(own.var, row), (product.k.var, k)]));
        let value = expr(&factor.core, &mut names, Place::Value);
        let value = TExpr::Select(Box::new((is_there, value, factor.nothing())));
        let of_term = |op: BinOp| TExpr::binary(op, term.clone(), TExpr::Int(SEGMENT));
        let indices = vec![of_term(BinOp::FloorDiv), line.clone(), of_term(BinOp::Mod)];
        let store = StmtKind::Store { buffer: self.tiles[at], indices, update: None, value };
        let body = vec![
            self.bind(row, add(tile, line)),
            self.bind(k, add(before.clone(), term)),
            self.stmt(store),
        ];
        self.over(&loops, LoopKind::Grid, body)
    }

    /// The elements that are there, and what is done with them.
    fn results(&self, writer: &mut Writer, is_own: bool) -> Vec<Stmt> {
        let product = self.product;
        let part = self.part(writer);
        let sum = TExpr::Load { buffer: self.sums, indices: part.indices() };
        let buffer = product.sum.buffer;
        let sum = match writer.program.buffer(buffer).dtype {
            DType::F32 => sum,
            dtype => TExpr::Cast(dtype, Box::new(sum)),
        };
        let last = if is_own {
            statements(&product.last, &mut Summed(buffer, sum))
        } else {
            let (indices, value) = (product.sum.indices.clone(), sum);
            let store = self.stmt(StmtKind::Store { buffer, indices, update: None, value });
            [vec![store], product.last.clone()].concat()
        };
        let (mut body, mut conditions) = (Vec::new(), Vec::new());
        for (at, (item, place)) in
            [&product.i, &product.j].into_iter().zip(part.element()).enumerate()
        {
            let width = self.warps.tile()[at];
            let tile = multiply(TExpr::Scalar(self.blocks[at]), TExpr::Int(width));
            writer.is_bound(item.var);
            body.push(self.bind(item.var, add(tile, place)));
            conditions.push(TExpr::binary(BinOp::Less, TExpr::Scalar(item.var), item.stop.clone()));
        }
        let condition = conditions.into_iter().reduce(|a, b| TExpr::binary(BinOp::And, a, b));
        let condition = condition.expect("invariant: there are two of them");
        body.push(self.stmt(StmtKind::If { condition, then: last, otherwise: Vec::new() }));
        self.elements(&part, body)
    }
}
