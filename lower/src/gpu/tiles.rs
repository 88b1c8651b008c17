//! Sums of products as blocks of threads that compute a tile of the result: what they need of both factors is loaded once into
//! shared memory, a tile of it at a time.
//!
//! Each thread owns an element, or a square of them ([`super::register_tiles`]), and adds its products in the order of the text: the same
//! bits; but for products of f16 and bf16 that tensor cores may form ([`super::warps`]). At the edges threads without an element
//! load what others need, and wait with them. There tiles hold 0, so that every element of them is written. Which of two kernels it
//! is the host decides by the extents: the other one has no blocks.

use super::bind::{Grid, bind_times, indexed, is_of_host, named};
use super::choice::{Version, versions};
use super::expressions::{add, ceil_divide, extent, multiply, thread_loop};
use super::scope_promotion::{Nearer, own_elements};
use super::steps::{Reduction, Role, Step, reduction, steps, unwrapped};
use super::warps::{self, Warps};
use super::{Choices, Limits, register_tiles, split_terms};
use crate::passes::fuse_loops::never_stops;
use crate::writer::Writer;
use relax_rewrite::classes::Class::{Cores, Elements, Split, Squares, Tiles};
use relax_semantics::tir::Typing;
use relax_semantics::tir::walk::{Place, Rewrite, expr, mentions, stored, visit};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::{Class, DType};
use relax_syntax::facts::Facts;
use relax_syntax::ir::tensor::{
    BinOp, BufferId, BufferInfo, Loop, LoopKind, ScalarId, Scope, Stmt, StmtKind, TExpr,
};
use relax_syntax::span::Span;
use relax_tir::analysis::dependence::loops::independent_loops;
use std::collections::BTreeSet;

/// Extents that are known to be less are not worth a tile.
const SHORT: i64 = 8;

/// A nest that sums products.
#[derive(Clone)]
pub(super) struct Product {
    /// Loops around those of the tile.
    pub(super) batch: Vec<Loop>,
    pub(super) i: Loop,
    pub(super) j: Loop,
    pub(super) k: Loop,
    pub(super) first: Stmt,
    pub(super) sum: Reduction,
    /// That which depends on `i`, then that which depends on `j`.
    pub(super) factors: [Factor; 2],
    /// Whether they are multiplied the other way around.
    pub(super) swapped: bool,
    pub(super) last: Vec<Stmt>,
    pub(super) all: Vec<Stmt>,
    pub(super) span: Span,
}

impl Product {
    /// Whether sums begin with a positive 0: then terms that are 0 change no bit of them.
    pub(super) fn begins_with_zero(&self) -> bool {
        let is_zero = |value: &TExpr| match value {
            TExpr::Float(value) => value.to_bits() == 0,
            value => *value == TExpr::Int(0),
        };
        matches!(&self.first.kind, StmtKind::Store { value, .. } if is_zero(value))
    }
}

/// A factor: what is loaded, and the conversions of it.
#[derive(Clone)]
pub(super) struct Factor {
    pub(super) core: TExpr,
    pub(super) casts: Vec<DType>,
    pub(super) dtype: DType,
}

impl Factor {
    fn of(value: &TExpr, typing: &Typing) -> Self {
        let (mut core, mut casts) = (value, Vec::new());
        while let TExpr::Cast(dtype, inner) = core {
            casts.push(*dtype);
            core = inner;
        }
        Self { core: core.clone(), casts, dtype: typing.dtype(core) }
    }

    /// What a tile holds beyond the edge.
    pub(super) fn nothing(&self) -> TExpr {
        nothing(self.dtype)
    }

    /// Its value, from the tile.
    pub(super) fn in_tile(&self, buffer: BufferId, indices: Vec<TExpr>) -> TExpr {
        let load = TExpr::Load { buffer, indices };
        self.casts.iter().rev().fold(load, |value, dtype| TExpr::Cast(*dtype, Box::new(value)))
    }
}

/// The 0 of a dtype.
pub(super) fn nothing(dtype: DType) -> TExpr {
    match dtype.class() {
        Class::Float => TExpr::Float(0.0),
        Class::Bool => TExpr::Bool(false),
        Class::Signed | Class::Unsigned => TExpr::Int(0),
    }
}

/// The kernels of a sum of products, of which the host chooses one. None also where threads that own an element each are enough.
pub(super) fn tile(
    writer: &mut Writer,
    stmt: &Stmt,
    outside: &[Stmt],
    host: &BTreeSet<ScalarId>,
    facts: &mut dyn Facts,
    choices: &Choices<'_>,
) -> Option<Vec<Stmt>> {
    let limits = choices.limits;
    let product = product(writer, stmt, host)?;
    never_stops(&writer.program, stmt, facts).then_some(())?;
    let size = 1_i64 << (limits.threads.max(1).ilog2() / 2);
    let loops = [product.batch.clone(), vec![product.i.clone(), product.j.clone()]].concat();
    let is_own = own_elements(writer, &loops, &product.all, outside).contains(&product.sum.buffer);
    let versions = versions(writer, &product, size, choices);
    if versions.iter().all(|version| version.class == Elements) {
        return None;
    }
    // What the other kernels bind has other kinds of names then.
    let has_alone = versions.iter().any(|version| version.class == Elements);
    let alone = has_alone.then(|| writer.renamed(stmt));
    let mut done = Vec::new();
    for Version { class, times } in versions {
        done.extend(match class {
            Cores => {
                let warps = Warps::of(limits).expect("invariant: the version is possible");
                warps::written(writer, &product, (warps, is_own), &times, limits)
            }
            Squares => register_tiles::written(writer, &product, (size, is_own), &times, limits),
            Split => {
                let layout = split_terms::layout(limits).expect("invariant: it is possible");
                register_tiles::in_layout(writer, &product, (layout, is_own), &times, limits)
            }
            Tiles => written(writer, &product, (size, is_own), &times, limits),
            Elements => {
                let alone = alone.as_ref().expect("invariant: it was made for this");
                bind_times(writer, (alone, Some(times)), outside, host, facts, limits)?
            }
        });
    }
    Some(done)
}

fn product(writer: &Writer, stmt: &Stmt, host: &BTreeSet<ScalarId>) -> Option<Product> {
    let (mut loops, all) = unwrapped(stmt);
    let found = steps(&[], &all)?;
    let [Step { role: Role::Cell, body: first, .. }, reduce, last @ ..] = found.as_slice() else {
        return None;
    };
    let ([first], [sum], [k]) = (first.as_slice(), reduce.body.as_slice(), reduce.loops.as_slice())
    else {
        return None;
    };
    let sum = reduction(sum).filter(|sum| sum.op == BinOp::Add && reduce.role == Role::Reduce)?;
    let known =
        |item: &Loop| is_of_host(&item.start, writer, host) && is_of_host(&item.stop, writer, host);
    let is_long =
        |item: &&Loop| item.start == TExpr::Int(0) && !matches!(extent(item), TExpr::Int(..SHORT));
    let is_cell = last.iter().all(|step| step.role == Role::Cell);
    let are_apart = independent_loops(&loops, &all).into_iter().all(|apart| apart);
    let TExpr::Binary(BinOp::Mul, both) = &sum.value else { return None };
    let depends = |value: &TExpr, item: &Loop| mentions(value, &BTreeSet::from([item.var]));
    let [i, j] = axes(&loops, &|item| [depends(&both.0, item), depends(&both.1, item)])?;
    let swapped = depends(&both.0, &loops[j]);
    let [i, j] = [i, j].map(|at| loops[at].clone());
    loops.retain(|item| ![i.var, j.var].contains(&item.var));
    let fits = is_cell
        && are_apart
        && [&i, &j, k].iter().all(|item| known(item) && is_long(item))
        && loops.iter().all(known)
        && begins_alike(first, &sum)
        && depends(&both.0, k)
        && depends(&both.1, k);
    fits.then_some(())?;
    let typing = Typing::new(&writer.program).ok()?;
    let (a, b) = if swapped { (&both.1, &both.0) } else { (&both.0, &both.1) };
    let written = stored(&all);
    let reads_own = reads(&sum.value).intersection(&written).next().is_some();
    (!reads_own).then_some(())?;
    let factors = [Factor::of(a, &typing), Factor::of(b, &typing)];
    let (batch, k, first) = (loops, k.clone(), first.clone());
    let last = last.iter().flat_map(|step| step.body.clone()).collect();
    Some(Product { batch, i, j, k, first, sum, factors, swapped, last, all, span: stmt.span })
}

/// The loops over rows and over columns: the innermost ones of which one factor each depends on one, and on no other of the two. All
/// others are around them, as where heads of attention stand between.
fn axes(loops: &[Loop], depends: &dyn Fn(&Loop) -> [bool; 2]) -> Option<[usize; 2]> {
    let of: Vec<[bool; 2]> = loops.iter().map(depends).collect();
    let of_one = |at: &usize| of[*at][0] != of[*at][1];
    let all = || (0..of.len()).rev().filter(of_one);
    all().find_map(|j| Some([all().find(|i| of[*i] != of[j])?, j]))
}

/// Whether a loop is worth being cut into tiles.
pub(super) fn is_long(item: &Loop) -> bool {
    item.start == TExpr::Int(0) && !matches!(extent(item), TExpr::Int(..SHORT))
}

/// Whether the first store sets the sum to what needs no memory.
fn begins_alike(first: &Stmt, sum: &Reduction) -> bool {
    let StmtKind::Store { buffer, indices, update: None, value } = &first.kind else {
        return false;
    };
    *buffer == sum.buffer && *indices == sum.indices && reads(value).is_empty()
}

fn reads(value: &TExpr) -> BTreeSet<BufferId> {
    let mut found = BTreeSet::new();
    visit(value, &mut |part| {
        if let TExpr::Load { buffer, .. } = part {
            found.insert(*buffer);
        }
    });
    found
}

struct InPlace(ScalarId, ScalarId);

impl Rewrite for InPlace {
    fn scalar(&mut self, id: ScalarId) -> ScalarId {
        if id == self.0 { self.1 } else { id }
    }
}

fn written(
    writer: &mut Writer,
    product: &Product,
    (size, is_own): (i64, bool),
    times: &TExpr,
    limits: Limits,
) -> Vec<Stmt> {
    let span = product.span;
    let mut nearer = Nearer::new(writer, &BTreeSet::from([product.sum.buffer]), Scope::Local);
    let own = nearer.element(product.sum.buffer).expect("invariant: it was asked for");
    let index = |writer: &mut Writer, base: &str| writer.scalar(base, Some(DType::I64), span);
    let [tx, ty, ti, tj] = ["tx", "ty", "ti", "tj"].map(|base| index(writer, base));
    let [a, b] = product.factors.each_ref().map(|factor| {
        let shape = vec![Dim::Int(size), Dim::Int(size)];
        let name = "tile".into();
        let info = BufferInfo { name, shape, dtype: factor.dtype, scope: Scope::Shared, span };
        writer.buffer("tile", info)
    });
    let (i, j) = (product.i.var, product.j.var);
    let place = |tile: ScalarId, thread: ScalarId| {
        add(multiply(TExpr::Scalar(tile), TExpr::Int(size)), TExpr::Scalar(thread))
    };
    let bind = |var: ScalarId, value: TExpr| Stmt { kind: StmtKind::Let { var, value }, span };
    let less =
        |var: ScalarId, stop: &TExpr| TExpr::binary(BinOp::Less, TExpr::Scalar(var), stop.clone());
    let both = |a, b| TExpr::binary(BinOp::And, a, b);
    let (has_i, has_j) = (less(i, &product.i.stop), less(j, &product.j.stop));
    let when = |condition: TExpr, then: Vec<Stmt>| Stmt {
        kind: StmtKind::If { condition, then, otherwise: Vec::new() },
        span,
    };
    let inner = Inner { own, tiles: [a, b], threads: [ty, tx], size, has: [&has_i, &has_j] };
    let mut body = vec![bind(i, place(ti, ty)), bind(j, place(tj, tx))];
    body.extend(nearer.allocations(span));
    body.extend(nearer.statements(std::slice::from_ref(&product.first)));
    body.push(inner.sum(writer, product));
    let mut last = Vec::new();
    if !is_own {
        let (buffer, indices) = (product.sum.buffer, product.sum.indices.clone());
        let value = TExpr::Load { buffer: own, indices: Vec::new() };
        last.push(Stmt { kind: StmtKind::Store { buffer, indices, update: None, value }, span });
        last.extend(product.last.iter().cloned());
    } else {
        last.extend(nearer.statements(&product.last));
    }
    body.push(when(both(has_i.clone(), has_j.clone()), last));
    writer.is_bound(i);
    writer.is_bound(j);
    let tiles = |item: &Loop, var: ScalarId, times: &TExpr| {
        let stop = multiply(ceil_divide(extent(item), size), times.clone());
        Loop { var, start: TExpr::Int(0), stop }
    };
    let over = vec![tiles(&product.i, ti, times), tiles(&product.j, tj, &TExpr::Int(1))];
    let blocks = [product.batch.clone(), over].concat();
    let tiled = Tiled { shared: vec![a, b], threads: [(ty, size), (tx, size)], span };
    over_blocks(writer, &blocks, &tiled, body, limits)
}

/// Blocks of threads that compute tiles.
pub(super) struct Tiled {
    pub(super) shared: Vec<BufferId>,
    /// `ty` and `tx`, with how many there are of each.
    pub(super) threads: [(ScalarId, i64); 2],
    pub(super) span: Span,
}

/// A block for each iteration of `blocks`, whose last two count tiles.
pub(super) fn over_blocks(
    writer: &mut Writer,
    blocks: &[Loop],
    tiled: &Tiled,
    body: Vec<Stmt>,
    limits: Limits,
) -> Vec<Stmt> {
    let (count, span) = (blocks.len(), tiled.span);
    let mut extents: Vec<TExpr> = blocks[..count - 2].iter().map(extent).collect();
    let mut done = Vec::new();
    for item in &blocks[count - 2..] {
        let (extent, bound) = named(writer, item.stop.clone(), span);
        extents.push(extent);
        done.extend(bound);
    }
    let product = extents.iter().cloned().reduce(multiply).unwrap_or(TExpr::Int(1));
    let (all, bound) = named(writer, product, span);
    done.extend(bound);
    let rows = ceil_divide(all.clone(), limits.blocks);
    let grid = Grid::new(writer, all.clone(), rows, limits, span);
    let guard = grid.rows.is_some().then_some(&all);
    let loops: Vec<&Loop> = blocks.iter().collect();
    let body = indexed(writer, &loops, (grid.block.clone(), guard, &extents), body, span);
    let [(ty, high), (tx, wide)] = tiled.threads;
    let inner = thread_loop((tx, TExpr::Int(wide)), "threadIdx.x", body, span);
    let threads = thread_loop((ty, TExpr::Int(high)), "threadIdx.y", vec![inner], span);
    let shared = tiled.shared.iter().map(|tile| Stmt { kind: StmtKind::Alloc(*tile), span });
    let body = shared.chain([threads]).collect();
    done.push(grid.over(body, span));
    done
}

/// The sum of a thread.
struct Inner<'c> {
    own: BufferId,
    tiles: [BufferId; 2],
    /// `ty` and `tx`.
    threads: [ScalarId; 2],
    size: i64,
    /// Whether the thread has a row, and a column.
    has: [&'c TExpr; 2],
}

impl Inner<'_> {
    fn sum(&self, writer: &mut Writer, product: &Product) -> Stmt {
        let span = product.span;
        let stmt = |kind| Stmt { kind, span };
        let step = writer.scalar("step", Some(DType::I64), span);
        let width = &product.k.stop;
        let before = multiply(TExpr::Scalar(step), TExpr::Int(self.size));
        let mut body = Vec::new();
        let [ty, tx] = self.threads;
        for (number, thread) in [(0, tx), (1, ty)] {
            let k = writer.scalar("k", None, span);
            let value = add(before.clone(), TExpr::Scalar(thread));
            body.push(stmt(StmtKind::Let { var: k, value }));
            let is_there = TExpr::binary(BinOp::Less, TExpr::Scalar(k), width.clone());
            let condition = TExpr::binary(BinOp::And, self.has[number].clone(), is_there);
            let core = &product.factors[number].core;
            let value = expr(core, &mut InPlace(product.k.var, k), Place::Value);
            let indices = vec![TExpr::Scalar(ty), TExpr::Scalar(tx)];
            let buffer = self.tiles[number];
            let nothing = product.factors[number].nothing();
            let value = TExpr::Select(Box::new((condition, value, nothing)));
            body.push(stmt(StmtKind::Store { buffer, indices, update: None, value }));
        }
        body.push(stmt(StmtKind::Barrier));
        body.push(self.products(writer, product, before));
        body.push(stmt(StmtKind::Barrier));
        let stop = ceil_divide(extent(&product.k), self.size);
        let loops = vec![Loop { var: step, start: TExpr::Int(0), stop }];
        stmt(StmtKind::For { loops, kind: LoopKind::Serial, body })
    }

    /// What a tile adds, in order.
    fn products(&self, writer: &mut Writer, product: &Product, before: TExpr) -> Stmt {
        let span = product.span;
        let stmt = |kind| Stmt { kind, span };
        let p = writer.scalar("p", Some(DType::I64), span);
        let [ty, tx] = self.threads.map(TExpr::Scalar);
        let [a, b] = &product.factors;
        let a = a.in_tile(self.tiles[0], vec![ty, TExpr::Scalar(p)]);
        let b = b.in_tile(self.tiles[1], vec![TExpr::Scalar(p), tx]);
        let value = match product.swapped {
            true => TExpr::binary(BinOp::Mul, b, a),
            false => TExpr::binary(BinOp::Mul, a, b),
        };
        let (buffer, indices, update) = (self.own, Vec::new(), Some(BinOp::Add));
        let body = vec![stmt(StmtKind::Store { buffer, indices, update, value })];
        let left = TExpr::binary(BinOp::Sub, product.k.stop.clone(), before);
        let stop = TExpr::binary(BinOp::Min, left, TExpr::Int(self.size));
        let loops = vec![Loop { var: p, start: TExpr::Int(0), stop }];
        stmt(StmtKind::For { loops, kind: LoopKind::Serial, body })
    }
}
