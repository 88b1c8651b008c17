//! Sums of products of f16 or bf16 in f32, as tensor cores form them: a block of threads computes a tile of the result, each of its
//! warps a part of that, in blocks of 16 rows and 8 columns ([`WarpProduct`]).
//!
//! The block loads 32 terms of both factors into shared memory, where they lie as the warps read them; beyond the edges there is 0.
//! There are two tiles of each: while it multiplies those in the one, its threads load what comes next into the other one. Each thread
//! adds to the elements that tensor cores would give it, in a plain nest: so the text is a tensor program like any other, and only a
//! printer that knows of tensor cores makes something else of the nest.
//!
//! A factor is loaded along its last index, eight elements at a time where its rows are of whole vectors.
//!
//! Tensor cores take 16 rows at once. The host chooses this kernel where there are as many, else threads that own an element each.

use super::Limits;
use super::expressions::{add, ceil_divide, extent, multiply, reaches};
use super::register_tiles::Names;
use super::tiles::{Product, Tiled, over_blocks};
use crate::writer::Writer;
use relax_semantics::tir::walk::{Place, Rewrite, expr, mentions, statements, stored};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{
    BinOp, BufferId, BufferInfo, Loop, LoopKind, ScalarId, Scope, Stmt, StmtKind, TExpr,
};
use relax_tir::dims::as_expr;
use relax_tir::warps::{COLUMNS, LANES, ROWS, SEGMENT, WarpProduct};
use std::collections::{BTreeMap, BTreeSet};

/// Blocks of a warp along columns.
const COLUMN_BLOCKS: i64 = 4;
/// Terms that are loaded at once.
const DEPTH: i64 = 32;
/// Tiles of a factor: what is multiplied, and what is loaded meanwhile.
const SLOTS: usize = 2;
/// Places across which a warp loads segments.
const PLACES: i64 = 8;
/// More would have more of a tile than shared memory holds.
const MOST_WARPS: i64 = 8;

/// The warps of a block of threads, along rows and along columns.
#[derive(Clone, Copy)]
pub(super) struct Warps([i64; 2]);

impl Warps {
    /// None where a block has too few threads.
    pub(super) fn of(limits: Limits) -> Option<Self> {
        let all = (limits.threads / LANES).checked_ilog2()?.min(MOST_WARPS.ilog2());
        Some(Self([1 << (all / 2), 1 << all.div_ceil(2)]))
    }

    fn count(self) -> i64 {
        self.0[0] * self.0[1]
    }

    /// Blocks of a warp along rows, and along columns: fewer where few warps would have to load them.
    fn blocks(self) -> [i64; 2] {
        [if self.count() < MOST_WARPS { 2 } else { 4 }, COLUMN_BLOCKS]
    }

    /// Rows and columns of the tile of a block.
    fn tile(self) -> [i64; 2] {
        let [rows, columns] = self.blocks();
        [self.0[0] * rows * ROWS, self.0[1] * columns * COLUMNS]
    }
}

/// Whether tensor cores can form the sums.
pub(super) fn is_possible(writer: &Writer, product: &Product) -> bool {
    let is_wide = |dtype: DType| matches!(dtype, DType::F32 | DType::F64);
    let [a, b] = &product.factors;
    let is_half = a.dtype == b.dtype && matches!(a.dtype, DType::F16 | DType::BF16);
    let is_widened = [a, b]
        .iter()
        .all(|factor| !factor.casts.is_empty() && factor.casts.iter().all(|dtype| is_wide(*dtype)));
    let is_summed = is_wide(writer.program.buffer(product.sum.buffer).dtype)
        && !stored(&product.last).contains(&product.sum.buffer);
    product.begins_with_zero() && is_half && is_widened && is_summed
}

/// 1 where tensor cores have enough to do, else 0: the host chooses by it. None where they never have.
pub(super) fn chosen(product: &Product) -> Option<TExpr> {
    // By one extent, as squares are chosen.
    match (reaches(extent(&product.i), ROWS), reaches(extent(&product.j), COLUMNS)) {
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
    /// Those of both factors, for each slot.
    tiles: [[BufferId; 2]; SLOTS],
    /// Of which factor lines lie side by side, and not terms.
    is_turned: [bool; 2],
    sums: BufferId,
}

/// Whether a factor is loaded with a loop variable as its last index.
fn ends_with(product: &Product, at: usize, var: ScalarId) -> bool {
    matches!(&product.factors[at].core, TExpr::Load { indices, .. }
        if indices.last() == Some(&TExpr::Scalar(var)))
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
    let is_turned = [0, 1].map(|at| !ends_with(product, at, product.k.var));
    let tiles = [(); SLOTS].map(|()| {
        [0, 1].map(|at: usize| {
            let [segments, lines] = match is_turned[at] {
                true => [warps.tile()[at] / SEGMENT, DEPTH],
                false => [DEPTH / SEGMENT, warps.tile()[at]],
            };
            let dtype = product.factors[at].dtype;
            array(&[segments, lines, SEGMENT], dtype, Scope::Shared, "tile")
        })
    });
    let [high, wide] = warps.blocks();
    let sums = array(&[high, wide, 2, 2], DType::F32, Scope::Local, "sums");
    let blocks = [ti, tj];
    let cores = Cores { product, warps, lane, warp, blocks, tiles, is_turned, sums };
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
    let tiled = Tiled { shared: tiles.concat(), threads, span };
    over_blocks(writer, &blocks, &tiled, body, limits)
}

/// The sum in the place of the element that it was.
struct Summed(BufferId, TExpr);

impl Rewrite for Summed {
    fn replace(&mut self, part: &TExpr, _place: Place) -> Option<TExpr> {
        matches!(part, TExpr::Load { buffer, .. } if *buffer == self.0).then(|| self.1.clone())
    }
}

/// A segment that a thread loads.
struct Segment {
    /// The slot, and which factor.
    tile: (usize, usize),
    /// Where it lies in the tile.
    indices: [TExpr; 2],
    /// Its number along the factor's rows, and the row.
    vector: ScalarId,
    other: ScalarId,
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
    fn part(&self, writer: &mut Writer, slot: usize) -> WarpProduct {
        let [m, n, r, c, p] = ["bi", "bj", "r", "c", "p"].map(|base| self.scalar(writer, base));
        let warp = || TExpr::Scalar(self.warp);
        let [row, column] = match self.warps.0 {
            [_, 1] => [warp(), TExpr::Int(0)],
            [_, columns] => [BinOp::FloorDiv, BinOp::Mod]
                .map(|op| TExpr::binary(op, warp(), TExpr::Int(columns))),
        };
        let first = |part: TExpr, at: usize, block: ScalarId| {
            let width = [ROWS, COLUMNS][at];
            let before = multiply(part, TExpr::Int(self.warps.blocks()[at] * width));
            add(before, multiply(TExpr::Scalar(block), TExpr::Int(width)))
        };
        let firsts = [first(row, 0, m), first(column, 1, n)];
        let [high, wide] = self.warps.blocks();
        let blocks = [(m, high), (n, wide)];
        let (sums, tiles, lane) = (self.sums, self.tiles[slot], self.lane);
        let (turned, along) = (self.is_turned, (p, DEPTH));
        WarpProduct { sums, tiles, turned, firsts, blocks, own: [r, c], along, lane }
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
        let zeroed = self.part(writer, 0);
        let (indices, value) = (zeroed.indices(), TExpr::Float(0.0));
        let store = StmtKind::Store { buffer: self.sums, indices, update: None, value };
        let mut body = vec![self.stmt(StmtKind::Alloc(self.sums))];
        body.extend(self.elements(&zeroed, vec![self.stmt(store)]));
        body.extend(self.load(writer, 0, &TExpr::Int(0)));
        body.push(self.sum(writer));
        body.extend(self.results(writer, is_own));
        body
    }

    /// Tile by tile along the sum: while one is multiplied, the next one is loaded.
    fn sum(&self, writer: &mut Writer) -> Stmt {
        let step = self.scalar(writer, "step");
        let slots = SLOTS as i64;
        let mut body = Vec::new();
        for slot in 0..SLOTS {
            let next = multiply(TExpr::Scalar(step), TExpr::Int(slots));
            let next = add(next, TExpr::Int(slot as i64 + 1));
            body.push(self.stmt(StmtKind::Barrier));
            body.extend(self.load(writer, (slot + 1) % SLOTS, &next));
            body.push(self.part(writer, slot).written(self.product.span));
        }
        let stop = ceil_divide(extent(&self.product.k), DEPTH * slots);
        let loops = vec![Loop { var: step, start: TExpr::Int(0), stop }];
        self.stmt(StmtKind::For { loops, kind: LoopKind::Serial, body })
    }

    /// The thread's part of both tiles of a slot.
    fn load(&self, writer: &mut Writer, slot: usize, step: &TExpr) -> [Stmt; 2] {
        [0, 1].map(|at| self.tile(writer, (slot, at), step))
    }

    /// That of a factor: by vectors where rows are of whole ones, else element by element.
    fn tile(&self, writer: &mut Writer, tile: (usize, usize), step: &TExpr) -> Stmt {
        let (_, at) = tile;
        let turn = self.scalar(writer, "u");
        let [segment, across, of_factor, place] = self.segment(at, turn, step);
        let base = if self.is_turned[at] { "k" } else { ["i", "j"][at] };
        let [vector, other] =
            ["vector", base].map(|base| writer.scalar(base, None, self.product.span));
        let place_of = Segment { tile, indices: [segment, across], vector, other };
        let mut body = vec![self.bind(other, place), self.bind(vector, of_factor)];
        let left = |row: &TExpr| TExpr::binary(BinOp::Mod, row.clone(), TExpr::Int(SEGMENT));
        let vectors = |row: TExpr| Some(TExpr::binary(BinOp::FloorDiv, row, TExpr::Int(SEGMENT)));
        body.push(match self.row(writer, at) {
            Some(TExpr::Int(count)) if count % SEGMENT == 0 => {
                self.elements_of(writer, &place_of, vectors(TExpr::Int(count)))
            }
            None | Some(TExpr::Int(_)) => self.elements_of(writer, &place_of, None),
            Some(row) => {
                let condition = TExpr::binary(BinOp::Equal, left(&row), TExpr::Int(0));
                let then = vec![self.elements_of(writer, &place_of, vectors(row))];
                let otherwise = vec![self.elements_of(writer, &place_of, None)];
                self.stmt(StmtKind::If { condition, then, otherwise })
            }
        });
        self.over(&[(turn, self.turns(at))], LoopKind::Unroll, body)
    }

    /// The extent of the rows of a factor that is loaded as it is, row by row.
    fn row(&self, writer: &Writer, at: usize) -> Option<TExpr> {
        let TExpr::Load { buffer, indices } = &self.product.factors[at].core else { return None };
        let (last, before) = indices.split_last()?;
        let item = self.along(at);
        let is_of_row = *last == TExpr::Scalar(item.var)
            && !before.iter().any(|index| mentions(index, &BTreeSet::from([item.var])));
        let end = writer.program.buffer(*buffer).shape.last().map(as_expr);
        (is_of_row && end.as_ref() == Some(&item.stop)).then_some(item.stop.clone())
    }

    /// The loop along segments.
    fn along(&self, at: usize) -> &Loop {
        let lines = [&self.product.i, &self.product.j][at];
        if self.is_turned[at] { lines } else { &self.product.k }
    }

    /// The segment that a thread loads in a turn, its number in the tile and in the factor, and its place across in both. A warp loads
    /// four segments side by side in eight places: each of those is read at once, and eight threads store to different banks.
    fn segment(&self, at: usize, turn: ScalarId, step: &TExpr) -> [TExpr; 4] {
        let width = self.warps.tile()[at];
        let segments = if self.is_turned[at] { width } else { DEPTH } / SEGMENT;
        let by = |op: BinOp, a: TExpr, b: i64| match (op, b) {
            (BinOp::FloorDiv, 1) => a,
            (_, 1) => TExpr::Int(0),
            _ => TExpr::binary(op, a, TExpr::Int(b)),
        };
        let lane = |op: BinOp| by(op, TExpr::Scalar(self.lane), PLACES);
        let turns = multiply(TExpr::Scalar(turn), TExpr::Int(self.warps.count()));
        let group = add(turns, TExpr::Scalar(self.warp));
        let groups = segments / (LANES / PLACES);
        let number = |op: BinOp| by(op, group.clone(), groups);
        let segment =
            add(multiply(number(BinOp::Mod), TExpr::Int(LANES / PLACES)), lane(BinOp::FloorDiv));
        let across = add(multiply(number(BinOp::FloorDiv), TExpr::Int(PLACES)), lane(BinOp::Mod));
        let terms = |part: TExpr, each: i64| add(multiply(step.clone(), TExpr::Int(each)), part);
        let lines = |part: TExpr, each: i64| {
            add(multiply(TExpr::Scalar(self.blocks[at]), TExpr::Int(each)), part)
        };
        let (of_factor, place) = match self.is_turned[at] {
            true => (lines(segment.clone(), segments), terms(across.clone(), DEPTH)),
            false => (terms(segment.clone(), segments), lines(across.clone(), width)),
        };
        [segment, across, of_factor, place]
    }

    fn turns(&self, at: usize) -> i64 {
        self.warps.tile()[at] * DEPTH / SEGMENT / (self.warps.count() * LANES)
    }

    /// Eight elements at a time, of rows with so many vectors; else one element after the other.
    fn elements_of(&self, writer: &mut Writer, segment: &Segment, vectors: Option<TExpr>) -> Stmt {
        let (product, (slot, at)) = (self.product, segment.tile);
        let own = [&product.i, &product.j][at];
        let e = self.scalar(writer, "e");
        let base = if self.is_turned[at] { ["i", "j"][at] } else { "k" };
        let along = writer.scalar(base, None, product.span);
        let (vector, other) = (segment.vector, segment.other);
        let ([row, k], limit, end) = match self.is_turned[at] {
            true => ([along, other], &own.stop, &product.k.stop),
            false => ([other, along], &product.k.stop, &own.stop),
        };
        let element = add(multiply(TExpr::Scalar(vector), TExpr::Int(SEGMENT)), TExpr::Scalar(e));
        let less = |var: ScalarId, stop: &TExpr| {
            TExpr::binary(BinOp::Less, TExpr::Scalar(var), stop.clone())
        };
        let mut names = Names(BTreeMap::from([(own.var, row), (product.k.var, k)]));
        let value = expr(&product.factors[at].core, &mut names, Place::Value);
        let [across, place] = segment.indices.clone();
        let indices = vec![across, place, TExpr::Scalar(e)];
        let is_there = match &vectors {
            Some(vectors) => less(vector, vectors),
            None => less(along, limit),
        };
        let is_there = TExpr::binary(BinOp::And, less(other, end), is_there);
        let value = TExpr::Select(Box::new((is_there, value, product.factors[at].nothing())));
        let store = StmtKind::Store { buffer: self.tiles[slot][at], indices, update: None, value };
        let kind = if vectors.is_some() { LoopKind::Vectorized } else { LoopKind::Unroll };
        self.over(&[(e, SEGMENT)], kind, vec![self.bind(along, element), self.stmt(store)])
    }

    /// The elements that are there, and what is done with them.
    fn results(&self, writer: &mut Writer, is_own: bool) -> Vec<Stmt> {
        let product = self.product;
        let part = self.part(writer, 0);
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
