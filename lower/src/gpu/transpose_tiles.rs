//! Tiled transposition: stores that run along one loop and read along another. A block of threads reads a tile along the one
//! and writes it along the other through shared memory, so that both accesses are coalesced.

use super::Limits;
use super::bind::is_of_host;
use super::expressions::{add, ceil_divide, extent, multiply};
use super::steps::unwrapped;
use super::tiles::{Tiled, is_long, nothing, over_blocks};
use crate::passes::fuse_loops::never_stops;
use crate::writer::Writer;
use relax_semantics::tir::Typing;
use relax_semantics::tir::walk::{Place, Rewrite, expr, mentions, visit};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::Facts;
use relax_syntax::ir::tensor::{
    BinOp, BufferInfo, Loop, LoopKind, ScalarId, Scope, Stmt, StmtKind, TExpr,
};
use relax_syntax::span::Span;
use relax_tir::analysis::dependence::loops::independent_loops;
use std::collections::{BTreeMap, BTreeSet};

/// A store that is turned.
struct Turned {
    batch: Vec<Loop>,
    /// Along which the load runs, and along which the store does.
    read: Loop,
    write: Loop,
    load: TExpr,
    dtype: DType,
    store: Stmt,
    span: Span,
}

/// The kernel of a nest that reads along one loop and writes along another.
pub(super) fn turn(
    writer: &mut Writer,
    stmt: &Stmt,
    host: &BTreeSet<ScalarId>,
    facts: &mut dyn Facts,
    limits: Limits,
) -> Option<Vec<Stmt>> {
    let turned = turned(writer, stmt, host)?;
    never_stops(&writer.program, stmt, facts).then_some(())?;
    Some(written(writer, &turned, limits))
}

fn turned(writer: &Writer, stmt: &Stmt, host: &BTreeSet<ScalarId>) -> Option<Turned> {
    let (mut loops, body) = unwrapped(stmt);
    let [store] = body.as_slice() else { return None };
    let StmtKind::Store { buffer, indices, update: None, value } = &store.kind else { return None };
    let known =
        |item: &Loop| is_of_host(&item.start, writer, host) && is_of_host(&item.stop, writer, host);
    let fits =
        loops.iter().all(known) && independent_loops(&loops, &body).into_iter().all(|apart| apart);
    let TExpr::Scalar(along) = indices.last()? else { return None };
    let write = loops.iter().position(|item| item.var == *along).filter(|_| fits)?;
    let write = loops.remove(write);
    let (mut found, mut again) = (Vec::new(), false);
    visit(value, &mut |part| {
        if let TExpr::Load { buffer: other, indices } = part {
            again |= other == buffer;
            let last = indices.last();
            let read = loops.iter().find(|item| last == Some(&TExpr::Scalar(item.var)));
            let crosses = indices.iter().any(|index| mentions(index, &BTreeSet::from([write.var])));
            found.extend(read.filter(|_| crosses).map(|read| (read.clone(), part.clone())));
        }
    });
    let (read, load) = found.pop()?;
    let alone = !again && found.is_empty() && is_plain(&load);
    (alone && is_long(&read) && is_long(&write)).then_some(())?;
    loops.retain(|item| item.var != read.var);
    let dtype = Typing::new(&writer.program).ok()?.dtype(&load);
    let (store, span) = (store.clone(), stmt.span);
    Some(Turned { batch: loops, read, write, load, dtype, store, span })
}

/// Whether an element is loaded at indices that are no elements themselves.
fn is_plain(load: &TExpr) -> bool {
    let mut loads = 0;
    visit(load, &mut |part| loads += usize::from(matches!(part, TExpr::Load { .. })));
    loads == 1
}

struct Renamed(BTreeMap<ScalarId, ScalarId>);

impl Rewrite for Renamed {
    fn scalar(&mut self, id: ScalarId) -> ScalarId {
        self.0.get(&id).copied().unwrap_or(id)
    }
}

struct FromTile<'t> {
    load: &'t TExpr,
    tile: TExpr,
}

impl Rewrite for FromTile<'_> {
    fn replace(&mut self, part: &TExpr, _place: Place) -> Option<TExpr> {
        (part == self.load).then(|| self.tile.clone())
    }
}

/// Threads of a block along both axes, and the elements of each: four where there are threads enough, so that several loads are under
/// way at once.
fn sizes(limits: Limits) -> ([i64; 2], i64) {
    let side = 1_i64 << (limits.threads.max(1).ilog2() / 2);
    match side {
        1 => ([1, 1], 1),
        _ => ([side / 2, side * 2], 4),
    }
}

fn written(writer: &mut Writer, turned: &Turned, limits: Limits) -> Vec<Stmt> {
    let span = turned.span;
    let ([high, size], turns) = sizes(limits);
    let [tx, ty, tr, tw] =
        ["tx", "ty", "tr", "tw"].map(|base| writer.scalar(base, Some(DType::I64), span));
    // One more column: elements of a column lie in different banks.
    let (shape, dtype) = (vec![Dim::Int(size), Dim::Int(size + 1)], turned.dtype);
    let info = BufferInfo { name: "tile".into(), shape, dtype, scope: Scope::Shared, span };
    let tile = writer.buffer("tile", info);
    let turn = [(); 2].map(|()| writer.scalar("u", Some(DType::I64), span));
    // A row of the tile, and a place in it: neighbouring threads have neighbouring places.
    let row =
        |turn: ScalarId| add(multiply(TExpr::Scalar(turn), TExpr::Int(high)), TExpr::Scalar(ty));
    let column = TExpr::Scalar(tx);
    let over = |turn: ScalarId, body: Vec<Stmt>| {
        let loops = vec![Loop { var: turn, start: TExpr::Int(0), stop: TExpr::Int(turns) }];
        Stmt { kind: StmtKind::For { loops, kind: LoopKind::Unroll, body }, span }
    };
    let [r, w] = ["r", "w"].map(|base| writer.scalar(base, None, span));
    let mut names = Renamed(BTreeMap::from([(turned.read.var, r), (turned.write.var, w)]));
    let value = expr(&turned.load, &mut names, Place::Value);
    let extents = [&turned.read.stop, &turned.write.stop];
    // Beyond the edges there is 0, so that every element that a thread may read is there.
    let value = TExpr::Select(Box::new((are_there([r, w], extents), value, nothing(dtype))));
    let indices = vec![row(turn[0]), column.clone()];
    let loaded = StmtKind::Store { buffer: tile, indices, update: None, value };
    let from = TExpr::Load { buffer: tile, indices: vec![column.clone(), row(turn[1])] };
    let mut from = FromTile { load: &turned.load, tile: from };
    let then =
        relax_semantics::tir::walk::statements(std::slice::from_ref(&turned.store), &mut from);
    let tiles = [(tr, size), (tw, size)];
    let mut load = places([r, w], tiles, [column.clone(), row(turn[0])], span);
    load.push(Stmt { kind: loaded, span });
    let own = [turned.read.var, turned.write.var];
    let mut store = places(own, tiles, [row(turn[1]), column], span);
    let condition = are_there(own, extents);
    store.push(Stmt { kind: StmtKind::If { condition, then, otherwise: Vec::new() }, span });
    own.into_iter().for_each(|var| writer.is_bound(var));
    let barrier = Stmt { kind: StmtKind::Barrier, span };
    let body = vec![over(turn[0], load), barrier, over(turn[1], store)];
    let over = |item: &Loop, var: ScalarId| {
        let stop = ceil_divide(extent(item), size);
        Loop { var, start: TExpr::Int(0), stop }
    };
    let blocks = [over(&turned.read, tr), over(&turned.write, tw)];
    let blocks = [turned.batch.clone(), blocks.to_vec()].concat();
    let tiled = Tiled { shared: vec![tile], threads: [(ty, high), (tx, size)], span };
    over_blocks(writer, &blocks, &tiled, body, limits)
}

/// The places of a thread in a tile.
fn places(
    vars: [ScalarId; 2],
    tiles: [(ScalarId, i64); 2],
    threads: [TExpr; 2],
    span: Span,
) -> Vec<Stmt> {
    let places = vars.into_iter().zip(tiles).zip(threads).map(|((var, (tile, size)), thread)| {
        let first = multiply(TExpr::Scalar(tile), TExpr::Int(size));
        Stmt { kind: StmtKind::Let { var, value: add(first, thread) }, span }
    });
    places.collect()
}

/// Whether a thread has one.
fn are_there(vars: [ScalarId; 2], extents: [&TExpr; 2]) -> TExpr {
    let [a, b] = [0, 1]
        .map(|at: usize| TExpr::binary(BinOp::Less, TExpr::Scalar(vars[at]), extents[at].clone()));
    TExpr::binary(BinOp::And, a, b)
}
