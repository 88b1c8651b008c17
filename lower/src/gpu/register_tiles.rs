//! Register tiles (register blocking): in sums of products each thread owns a small square of elements: of each row of it and each column it loads one number from
//! shared memory for as many products as the square is wide.
//!
//! The elements of a thread lie as far apart as the block has threads, so that neighbouring threads meet neighbouring elements.
//! Beyond the edges tiles hold 0, and what comes of it is not stored. Every sum is formed in the order of the text: the same bits.

use super::Limits;
use super::expressions::{add, ceil_divide, extent, multiply};
use super::scope_promotion::Nearer;
use super::tiles::{Factor, Product, Tiled, over_blocks};
use crate::writer::Writer;
use relax_semantics::tir::walk::{Place, Rewrite, expr, mentions, statements};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{
    BinOp, BufferId, BufferInfo, Loop, LoopKind, ScalarId, Scope, Stmt, StmtKind, TExpr,
};
use std::collections::{BTreeMap, BTreeSet};

/// Rows and columns of the square of a thread.
const PER: i64 = 4;

/// Elements that are wider take more shared memory than every device has.
const WIDEST: usize = 4;

/// Rows and columns of the tile of a block.
pub(super) fn width(size: i64) -> i64 {
    size * PER
}

/// Whether threads can own squares.
pub(super) fn is_possible(product: &Product) -> bool {
    let vars: BTreeSet<ScalarId> =
        product.batch.iter().chain([&product.i, &product.j]).map(|item| item.var).collect();
    let begins =
        matches!(&product.first.kind, StmtKind::Store { value, .. } if !mentions(value, &vars));
    begins && product.factors.iter().all(|factor| factor.dtype.size() <= WIDEST)
}

/// 1 where both extents have a whole tile, else 0: the host chooses by it. None where one has not, or two would have to be asked.
pub(super) fn chosen(product: &Product, size: i64) -> Option<TExpr> {
    let reach = |item: &Loop| match extent(item) {
        TExpr::Int(count) => TExpr::Int(i64::from(count >= width(size))),
        count => {
            let whole = TExpr::binary(BinOp::FloorDiv, count, TExpr::Int(width(size)));
            TExpr::binary(BinOp::Min, whole, TExpr::Int(1))
        }
    };
    // One choice at the host is enough: with two, every index is a sum of four cases, and what is proved of a kernel takes
    // twenty times as long.
    match (reach(&product.i), reach(&product.j)) {
        (TExpr::Int(0), _) | (_, TExpr::Int(0)) => None,
        (TExpr::Int(_), other) | (other, TExpr::Int(_)) => Some(other),
        _ => None,
    }
}

/// Scalars and buffers of the kernel.
struct Square<'p> {
    product: &'p Product,
    size: i64,
    threads: [ScalarId; 2],
    /// The numbers of the tile.
    blocks: [ScalarId; 2],
    /// The first row and the first column of the thread.
    firsts: [ScalarId; 2],
    tiles: [BufferId; 2],
    /// What a thread holds of a row of products: of its rows, and of its columns.
    held: [BufferId; 2],
    sums: Nearer,
}

/// The kernel, with as many rows of tiles as `times` says.
pub(super) fn written(
    writer: &mut Writer,
    product: &Product,
    (size, is_own): (i64, bool),
    times: &TExpr,
    limits: Limits,
) -> Vec<Stmt> {
    let product = &product.renamed(writer);
    let span = product.span;
    let [tx, ty, ti, tj] =
        ["tx", "ty", "ti", "tj"].map(|base| writer.scalar(base, Some(DType::I64), span));
    let firsts = ["i", "j"].map(|base| writer.scalar(base, None, span));
    let mut array = |shape: &[i64], dtype: DType, scope: Scope, name: &str| {
        let shape = shape.iter().map(|extent| Dim::Int(*extent)).collect();
        writer.buffer(name, BufferInfo { name: name.into(), shape, dtype, scope, span })
    };
    let [a, b] = product.factors.each_ref().map(|factor| factor.dtype);
    let tiles = [
        array(&[width(size), size], a, Scope::Shared, "tile"),
        array(&[size, width(size)], b, Scope::Shared, "tile"),
    ];
    let held = [a, b].map(|dtype| array(&[PER], dtype, Scope::Local, "held"));
    let sums = Nearer::array(writer, product.sum.buffer, &[PER, PER]);
    let threads = [ty, tx];
    let mut square = Square { product, size, threads, blocks: [ti, tj], firsts, tiles, held, sums };
    let body = square.body(writer, is_own);
    let tiles = |item: &Loop, var: ScalarId, times: &TExpr| {
        let stop = multiply(ceil_divide(extent(item), width(size)), times.clone());
        Loop { var, start: TExpr::Int(0), stop }
    };
    let over = vec![tiles(&product.i, ti, times), tiles(&product.j, tj, &TExpr::Int(1))];
    let blocks = [product.batch.clone(), over].concat();
    let tiled =
        Tiled { shared: square.tiles.to_vec(), threads: threads.map(|var| (var, size)), span };
    over_blocks(writer, &blocks, &tiled, body, limits)
}

impl Product {
    /// The same with loop variables of its own.
    pub(super) fn renamed(&self, writer: &mut Writer) -> Self {
        let mut names = Names(BTreeMap::new());
        let mut fresh = |item: &Loop| {
            let info = writer.program.scalar(item.var).clone();
            let var = writer.scalar(info.name.as_str(), info.dtype, info.span);
            names.0.insert(item.var, var);
            Loop { var, ..item.clone() }
        };
        let batch = self.batch.iter().map(&mut fresh).collect();
        let [i, j, k] = [&self.i, &self.j, &self.k].map(&mut fresh);
        let each = |value: &TExpr, names: &mut Names| expr(value, names, Place::Value);
        let mut sum = self.sum.clone();
        sum.indices =
            sum.indices.iter().map(|index| expr(index, &mut names, Place::Index)).collect();
        sum.value = each(&sum.value, &mut names);
        let factors = self
            .factors
            .each_ref()
            .map(|factor| Factor { core: each(&factor.core, &mut names), ..factor.clone() });
        let first = statements(std::slice::from_ref(&self.first), &mut names).remove(0);
        let last = statements(&self.last, &mut names);
        Self { batch, i, j, k, first, sum, factors, last, ..self.clone() }
    }
}

impl Square<'_> {
    fn stmt(&self, kind: StmtKind) -> Stmt {
        Stmt { kind, span: self.product.span }
    }

    fn bind(&self, var: ScalarId, value: TExpr) -> Stmt {
        self.stmt(StmtKind::Let { var, value })
    }

    fn store(&self, buffer: BufferId, indices: Vec<TExpr>, value: TExpr) -> Stmt {
        self.stmt(StmtKind::Store { buffer, indices, update: None, value })
    }

    /// `for` loops of as many iterations as the square has rows; the text has one for each variable but for a grid.
    fn over(&self, vars: &[ScalarId], kind: LoopKind, body: Vec<Stmt>) -> Stmt {
        let of = |var: &ScalarId| Loop { var: *var, start: TExpr::Int(0), stop: TExpr::Int(PER) };
        match vars {
            [first, rest @ ..] if !rest.is_empty() && kind != LoopKind::Grid => {
                let body = vec![self.over(rest, kind.clone(), body)];
                self.stmt(StmtKind::For { loops: vec![of(first)], kind, body })
            }
            _ => self.stmt(StmtKind::For { loops: vars.iter().map(of).collect(), kind, body }),
        }
    }

    /// A row or a column of the square: of the whole result, or of the tile.
    fn apart(&self, first: ScalarId, number: TExpr) -> TExpr {
        add(TExpr::Scalar(first), multiply(number, TExpr::Int(self.size)))
    }

    fn body(&mut self, writer: &mut Writer, is_own: bool) -> Vec<Stmt> {
        let mut body = Vec::new();
        for at in 0..2 {
            let before = multiply(TExpr::Scalar(self.blocks[at]), TExpr::Int(width(self.size)));
            body.push(self.bind(self.firsts[at], add(before, TExpr::Scalar(self.threads[at]))));
        }
        body.extend(self.sums.allocations(self.product.span));
        body.extend(self.held.map(|buffer| self.stmt(StmtKind::Alloc(buffer))));
        let vars = self.pair(writer);
        self.sums.at(vars.map(TExpr::Scalar).to_vec());
        let first = self.sums.statements(std::slice::from_ref(&self.product.first));
        body.push(self.over(&vars, LoopKind::Grid, first));
        body.push(self.sum(writer));
        body.push(self.results(writer, is_own));
        body
    }

    fn pair(&self, writer: &mut Writer) -> [ScalarId; 2] {
        ["r", "c"].map(|base| writer.scalar(base, Some(DType::I64), self.product.span))
    }

    /// Tile by tile along the sum: both are loaded, then multiplied.
    fn sum(&mut self, writer: &mut Writer) -> Stmt {
        let step = writer.scalar("step", Some(DType::I64), self.product.span);
        let before = multiply(TExpr::Scalar(step), TExpr::Int(self.size));
        let mut body = self.load(writer, 0, &before);
        body.extend(self.load(writer, 1, &before));
        body.push(self.stmt(StmtKind::Barrier));
        body.push(self.products(writer, before));
        body.push(self.stmt(StmtKind::Barrier));
        let stop = ceil_divide(extent(&self.product.k), self.size);
        let loops = vec![Loop { var: step, start: TExpr::Int(0), stop }];
        self.stmt(StmtKind::For { loops, kind: LoopKind::Serial, body })
    }

    /// The thread's part of the tile of a factor; neighbouring threads load along what its last index runs along.
    fn load(&self, writer: &mut Writer, at: usize, before: &TExpr) -> Vec<Stmt> {
        let (product, span) = (self.product, self.product.span);
        let own = [&product.i, &product.j][at];
        let core = &product.factors[at].core;
        let k_is_last = matches!(core, TExpr::Load { indices, .. }
            if indices.last() == Some(&TExpr::Scalar(product.k.var)));
        let [ty, tx] = self.threads;
        let (along, across) = if k_is_last { (tx, ty) } else { (ty, tx) };
        let k = writer.scalar("k", None, span);
        let mut body = vec![self.bind(k, add(before.clone(), TExpr::Scalar(along)))];
        let before_tile = multiply(TExpr::Scalar(self.blocks[at]), TExpr::Int(width(self.size)));
        for number in 0..PER {
            let place = add(TExpr::Scalar(across), TExpr::Int(number * self.size));
            let row = writer.scalar(["i", "j"][at], None, span);
            body.push(self.bind(row, add(before_tile.clone(), place.clone())));
            let less = |var: ScalarId, item: &Loop| {
                TExpr::binary(BinOp::Less, TExpr::Scalar(var), item.stop.clone())
            };
            let is_there = TExpr::binary(BinOp::And, less(row, own), less(k, &product.k));
            let mut names = Names(BTreeMap::from([(own.var, row), (product.k.var, k)]));
            let value = expr(core, &mut names, Place::Value);
            let value = TExpr::Select(Box::new((is_there, value, product.factors[at].nothing())));
            let indices = match at {
                0 => vec![place, TExpr::Scalar(along)],
                _ => vec![TExpr::Scalar(along), place],
            };
            body.push(self.store(self.tiles[at], indices, value));
        }
        body
    }

    /// What a tile adds to the square, in order.
    fn products(&mut self, writer: &mut Writer, before: TExpr) -> Stmt {
        let span = self.product.span;
        let index = |writer: &mut Writer, base: &str| writer.scalar(base, Some(DType::I64), span);
        let [p, r, c] = ["p", "r", "c"].map(|base| index(writer, base));
        let [ty, tx] = self.threads;
        let load = |buffer: BufferId, indices: Vec<TExpr>| TExpr::Load { buffer, indices };
        let row = vec![self.apart(ty, TExpr::Scalar(r)), TExpr::Scalar(p)];
        let column = vec![TExpr::Scalar(p), self.apart(tx, TExpr::Scalar(c))];
        let mut body = Vec::new();
        for (at, (var, from)) in [(r, row), (c, column)].into_iter().enumerate() {
            let value = load(self.tiles[at], from);
            let kept = self.store(self.held[at], vec![TExpr::Scalar(var)], value);
            body.push(self.over(&[var], LoopKind::Unroll, vec![kept]));
        }
        let vars = self.pair(writer);
        let [a, b] = [0, 1].map(|at: usize| {
            self.product.factors[at].in_tile(self.held[at], vec![TExpr::Scalar(vars[at])])
        });
        let value = match self.product.swapped {
            true => TExpr::binary(BinOp::Mul, b, a),
            false => TExpr::binary(BinOp::Mul, a, b),
        };
        let buffer = self.sums.element(self.product.sum.buffer);
        let buffer = buffer.expect("invariant: it was asked for");
        let (indices, update) = (vars.map(TExpr::Scalar).to_vec(), Some(BinOp::Add));
        let adds = self.stmt(StmtKind::Store { buffer, indices, update, value });
        body.push(self.over(&vars, LoopKind::Unroll, vec![adds]));
        let left = TExpr::binary(BinOp::Sub, self.product.k.stop.clone(), before);
        let stop = TExpr::binary(BinOp::Min, left, TExpr::Int(self.size));
        let loops = vec![Loop { var: p, start: TExpr::Int(0), stop }];
        self.stmt(StmtKind::For { loops, kind: LoopKind::Serial, body })
    }

    /// The elements that are there, and what is done with them.
    fn results(&mut self, writer: &mut Writer, is_own: bool) -> Stmt {
        let product = self.product;
        let vars = self.pair(writer);
        self.sums.at(vars.map(TExpr::Scalar).to_vec());
        let mut last = self.sums.statements(&product.last);
        if !is_own {
            let indices = product.sum.indices.clone();
            let buffer = self.sums.element(product.sum.buffer);
            let buffer = buffer.expect("invariant: it was asked for");
            let value = TExpr::Load { buffer, indices: vars.map(TExpr::Scalar).to_vec() };
            last = [vec![self.store(product.sum.buffer, indices, value)], product.last.clone()]
                .concat();
        }
        let mut body = Vec::new();
        let mut conditions = Vec::new();
        for (at, item) in [&product.i, &product.j].into_iter().enumerate() {
            writer.is_bound(item.var);
            body.push(self.bind(item.var, self.apart(self.firsts[at], TExpr::Scalar(vars[at]))));
            conditions.push(TExpr::binary(BinOp::Less, TExpr::Scalar(item.var), item.stop.clone()));
        }
        let condition = conditions.into_iter().reduce(|a, b| TExpr::binary(BinOp::And, a, b));
        let condition = condition.expect("invariant: there are two of them");
        body.push(self.stmt(StmtKind::If { condition, then: last, otherwise: Vec::new() }));
        self.over(&vars, LoopKind::Grid, body)
    }
}

/// Loop variables with other names.
pub(super) struct Names(pub(super) BTreeMap<ScalarId, ScalarId>);

impl Rewrite for Names {
    fn scalar(&mut self, id: ScalarId) -> ScalarId {
        self.0.get(&id).copied().unwrap_or(id)
    }
}
