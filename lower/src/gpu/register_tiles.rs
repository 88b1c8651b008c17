//! Register tiles (register blocking): in sums of products each thread owns a small square of elements: of each row of it and each column it loads one number from
//! shared memory for as many products as the square is wide.
//!
//! Rows and columns of a thread lie side by side in groups, which it loads at once. While a block multiplies a tile its threads load
//! the next one into registers. Beyond the edges tiles hold 0, and what comes of it is not stored. Every sum is formed in the order
//! of the text: the same bits.

use super::Limits;
use super::expressions::{add, ceil_divide, extent, multiply, reaches};
use super::scope_promotion::Nearer;
use super::tiles::{Factor, Product, Tiled, over_blocks};
use crate::writer::Writer;
use relax_semantics::tir::walk::{Place, Rewrite, expr, statements};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{
    BinOp, BufferId, BufferInfo, Loop, LoopKind, ScalarId, Scope, Stmt, StmtKind, TExpr,
};
use relax_syntax::span::Span;
use std::collections::BTreeMap;

/// Rows and columns of the square of a thread, where its sums fit into registers: 64 of 32 bits.
const PER: i64 = 8;
/// The same where sums are wider, or there are not so many.
const FEW: i64 = 4;
/// Rows and columns of a square that lie side by side: a thread loads 16 bytes of f32 at once.
const GROUP: i64 = 4;
/// Terms of a tile.
const DEPTH: i64 = 8;
/// Elements that a row of a tile has more of: threads that store terms of neighbouring lines meet different banks.
const PADDING: i64 = 4;

/// Elements that are wider take more shared memory than every device has.
const WIDEST: usize = 4;

/// Rows and columns of the square of a thread; fewer where the extent has no more.
fn per(writer: &Writer, product: &Product, size: i64) -> [i64; 2] {
    let is_wide = writer.program.buffer(product.sum.buffer).dtype.size() > WIDEST;
    [&product.i, &product.j].map(|item| match extent(item) {
        TExpr::Int(count) if count < size * PER => FEW,
        _ if is_wide => FEW,
        _ => PER,
    })
}

/// Elements of the tile of a block.
pub(super) fn width(writer: &Writer, product: &Product, size: i64) -> i64 {
    per(writer, product, size).into_iter().map(|per| size * per).product()
}

/// Whether threads can own squares. Sums begin with 0: terms beyond the edge, which are 0, change no bit of them.
pub(super) fn is_possible(writer: &Writer, product: &Product, size: i64) -> bool {
    let has_turns = |per: i64| size <= per * DEPTH && per * DEPTH % size == 0;
    product.begins_with_zero()
        && per(writer, product, size).into_iter().all(has_turns)
        && product.factors.iter().all(|factor| factor.dtype.size() <= WIDEST)
}

/// 1 where both extents have a whole tile, else 0: the host chooses by it. None where one never has, or the host does not find out.
pub(super) fn chosen(writer: &Writer, product: &Product, size: i64) -> Option<TExpr> {
    let width = per(writer, product, size).map(|per| size * per);
    let (least, width) = match [&product.i, &product.j].map(extent) {
        [TExpr::Int(count), _] if count < width[0] => return None,
        [_, TExpr::Int(count)] if count < width[1] => return None,
        [TExpr::Int(_), TExpr::Int(_)] => return Some(TExpr::Int(1)),
        [TExpr::Int(_), other] => (other, width[1]),
        [other, TExpr::Int(_)] => (other, width[0]),
        [rows, columns] if rows == columns => (rows, width[0]),
        // One choice at the host is enough: with two, every index is a sum of four cases, and what is proved of a kernel takes
        // twenty times as long. Of a batch even the lesser of two is too much for the prover, and indices would be checked.
        _ if !product.batch.is_empty() => return None,
        [rows, columns] => (TExpr::binary(BinOp::Min, rows, columns), width[0]),
    };
    Some(reaches(least, width))
}

/// How the threads of a block share its tile.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// Threads along rows, and along columns.
    pub(super) across: [i64; 2],
    /// Rows and columns of the square of a thread.
    pub(super) per: [i64; 2],
    /// Groups of threads, each of which has the whole tile, for some of the terms.
    pub(super) slices: i64,
    /// Terms of a tile.
    pub(super) depth: i64,
}

impl Layout {
    /// Rows or columns of the tile.
    pub(super) fn width(&self, at: usize) -> i64 {
        self.across[at] * self.per[at]
    }

    /// Threads that have the whole tile together.
    pub(super) fn lanes(&self) -> i64 {
        self.across[0] * self.across[1]
    }

    /// How often each thread loads an element of a factor's tile.
    fn turns(&self, at: usize) -> i64 {
        self.width(at) * self.depth / (self.lanes() * self.slices)
    }

    /// Threads along the two indices of a block.
    fn threads(&self) -> [i64; 2] {
        if self.slices == 1 { self.across } else { [self.slices, self.lanes()] }
    }
}

/// Scalars and buffers of the kernel.
pub(super) struct Square<'p> {
    pub(super) product: &'p Product,
    pub(super) layout: Layout,
    /// Those of a row and of a column; where there are several slices, the number of the slice and that of the thread in it.
    pub(super) threads: [ScalarId; 2],
    /// The numbers of the tile.
    blocks: [ScalarId; 2],
    /// By term and line.
    tiles: [BufferId; 2],
    /// What a thread loads of the tiles that come next.
    next: [BufferId; 2],
    /// What a thread holds of a row of products: of its rows, and of its columns.
    held: [BufferId; 2],
    pub(super) sums: Nearer,
}

/// The kernel, with as many rows of tiles as `times` says.
pub(super) fn written(
    writer: &mut Writer,
    product: &Product,
    (size, is_own): (i64, bool),
    times: &TExpr,
    limits: Limits,
) -> Vec<Stmt> {
    let per = per(writer, product, size);
    let layout = Layout { across: [size, size], per, slices: 1, depth: DEPTH };
    in_layout(writer, product, (layout, is_own), times, limits)
}

/// The same in any layout.
pub(super) fn in_layout(
    writer: &mut Writer,
    product: &Product,
    (layout, is_own): (Layout, bool),
    times: &TExpr,
    limits: Limits,
) -> Vec<Stmt> {
    let product = &product.renamed(writer);
    let span = product.span;
    let [tx, ty, ti, tj] =
        ["tx", "ty", "ti", "tj"].map(|base| writer.scalar(base, Some(DType::I64), span));
    let mut array = |shape: &[i64], dtype: DType, scope: Scope, name: &str| {
        let shape = shape.iter().map(|extent| Dim::Int(*extent)).collect();
        writer.buffer(name, BufferInfo { name: name.into(), shape, dtype, scope, span })
    };
    let dtypes = product.factors.each_ref().map(|factor| factor.dtype);
    let mut both = |shape: &dyn Fn(usize) -> Vec<i64>, scope: Scope, name: &str| {
        [0, 1].map(|at: usize| array(&shape(at), dtypes[at], scope, name))
    };
    let tiles = both(&|at| vec![layout.depth, layout.width(at) + PADDING], Scope::Shared, "tile");
    let next = both(&|at| vec![layout.turns(at)], Scope::Local, "next");
    let held = both(&|at| vec![layout.per[at]], Scope::Local, "held");
    let sums = Nearer::array(writer, product.sum.buffer, &layout.per);
    let threads = [ty, tx];
    let blocks = [ti, tj];
    let mut square = Square { product, layout, threads, blocks, tiles, next, held, sums };
    let (more, body) = square.body(writer, is_own);
    let tiles = |at: usize, var: ScalarId, times: &TExpr| {
        let item = [&product.i, &product.j][at];
        let stop = multiply(ceil_divide(extent(item), layout.width(at)), times.clone());
        Loop { var, start: TExpr::Int(0), stop }
    };
    let over = vec![tiles(0, ti, times), tiles(1, tj, &TExpr::Int(1))];
    let blocks = [product.batch.clone(), over].concat();
    let shared = square.tiles.into_iter().chain(more).collect();
    let [high, wide] = layout.threads();
    let tiled = Tiled { shared, threads: [(ty, high), (tx, wide)], span };
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
    pub(super) fn stmt(&self, kind: StmtKind) -> Stmt {
        Stmt { kind, span: self.product.span }
    }

    pub(super) fn bind(&self, var: ScalarId, value: TExpr) -> Stmt {
        self.stmt(StmtKind::Let { var, value })
    }

    pub(super) fn store(&self, buffer: BufferId, indices: Vec<TExpr>, value: TExpr) -> Stmt {
        self.stmt(StmtKind::Store { buffer, indices, update: None, value })
    }

    /// Which thread of a row of threads, or of a column, this one is.
    pub(super) fn thread(&self, at: usize) -> TExpr {
        if self.layout.slices == 1 {
            return TExpr::Scalar(self.threads[at]);
        }
        let op = [BinOp::FloorDiv, BinOp::Mod][at];
        TExpr::binary(op, TExpr::Scalar(self.threads[1]), TExpr::Int(self.layout.across[1]))
    }

    /// Loops one in the other, without jumps, so that what they index stays in registers.
    pub(super) fn over(&self, vars: &[(ScalarId, i64)], body: Vec<Stmt>) -> Vec<Stmt> {
        vars.iter().rev().fold(body, |body, (var, count)| {
            let loops = vec![Loop { var: *var, start: TExpr::Int(0), stop: TExpr::Int(*count) }];
            vec![self.stmt(StmtKind::For { loops, kind: LoopKind::Unroll, body })]
        })
    }

    /// A line of the tile that is one of the square's.
    fn line(&self, at: usize, number: ScalarId) -> TExpr {
        let part = |op: BinOp| TExpr::binary(op, TExpr::Scalar(number), TExpr::Int(GROUP));
        let groups = TExpr::Int(self.layout.across[at] * GROUP);
        let before = multiply(part(BinOp::FloorDiv), groups);
        let group = multiply(self.thread(at), TExpr::Int(GROUP));
        add(add(before, group), part(BinOp::Mod))
    }

    /// Loops over the lines of a thread, the number of a line among them, and the line of the square: without quotients, so
    /// that it is proved that all threads together store all of a result.
    fn lines(&self, writer: &mut Writer, at: usize) -> (Vec<(ScalarId, i64)>, TExpr, TExpr) {
        let own = self.number(writer, ["r", "c"][at]);
        let begin = multiply(self.thread(at), TExpr::Int(GROUP));
        let line = add(begin, TExpr::Scalar(own));
        let Layout { across, per, .. } = self.layout;
        if per[at] == GROUP {
            return (vec![(own, GROUP)], TExpr::Scalar(own), line);
        }
        let group = self.number(writer, "g");
        let times = |count: i64| multiply(TExpr::Scalar(group), TExpr::Int(count));
        let number = add(times(GROUP), TExpr::Scalar(own));
        let line = add(times(across[at] * GROUP), line);
        (vec![(group, per[at] / GROUP), (own, GROUP)], number, line)
    }

    /// The line of the whole result.
    pub(super) fn place(&self, at: usize, line: TExpr) -> TExpr {
        add(multiply(TExpr::Scalar(self.blocks[at]), TExpr::Int(self.layout.width(at))), line)
    }

    /// What a block runs, and the shared memory that it needs beside the tiles.
    fn body(&mut self, writer: &mut Writer, is_own: bool) -> (Option<BufferId>, Vec<Stmt>) {
        let mut body = self.sums.allocations(self.product.span);
        let arrays = [self.next, self.held].concat();
        body.extend(arrays.into_iter().map(|buffer| self.stmt(StmtKind::Alloc(buffer))));
        let vars = self.pair(writer);
        self.sums.at(vars.map(|(var, _)| TExpr::Scalar(var)).to_vec());
        let first = self.sums.statements(std::slice::from_ref(&self.product.first));
        body.extend(self.over(&vars, first));
        for at in 0..2 {
            body.extend(self.load(writer, at, &TExpr::Int(0)));
        }
        body.push(self.sum(writer));
        if self.layout.slices == 1 {
            body.extend(self.results(writer, is_own));
            return (None, body);
        }
        let (parts, results) = self.added_up(writer, is_own);
        body.extend(results);
        (Some(parts), body)
    }

    fn pair(&self, writer: &mut Writer) -> [(ScalarId, i64); 2] {
        let [r, c] = ["r", "c"].map(|base| self.number(writer, base));
        [(r, self.layout.per[0]), (c, self.layout.per[1])]
    }

    pub(super) fn number(&self, writer: &mut Writer, base: &str) -> ScalarId {
        writer.scalar(base, Some(DType::I64), self.product.span)
    }

    /// Tile by tile along the sum: what was loaded of both is shared, and while it is multiplied the next ones are loaded.
    fn sum(&mut self, writer: &mut Writer) -> Stmt {
        let step = self.number(writer, "step");
        let after = add(TExpr::Scalar(step), TExpr::Int(1));
        let after = multiply(after, TExpr::Int(self.layout.depth));
        let mut body = Vec::new();
        for at in 0..2 {
            body.extend(self.share(writer, at));
        }
        body.push(self.stmt(StmtKind::Barrier));
        for at in 0..2 {
            body.extend(self.load(writer, at, &after));
        }
        body.extend(self.products(writer));
        let stop = ceil_divide(extent(&self.product.k), self.layout.depth);
        if !matches!(stop, TExpr::Int(..=1)) {
            body.push(self.stmt(StmtKind::Barrier));
        }
        let loops = vec![Loop { var: step, start: TExpr::Int(0), stop }];
        self.stmt(StmtKind::For { loops, kind: LoopKind::Serial, body })
    }

    /// The term and the line of an element of a tile that a thread loads; neighbouring threads load along what the last index of the
    /// factor runs along.
    fn element(&self, at: usize, turn: ScalarId) -> [TExpr; 2] {
        let [ty, tx] = self.threads.map(TExpr::Scalar);
        let Layout { depth, .. } = self.layout;
        let [high, wide] = self.layout.threads();
        let thread = add(multiply(ty, TExpr::Int(wide)), tx);
        let all = high * wide;
        let number = add(multiply(TExpr::Scalar(turn), TExpr::Int(all)), thread);
        let part = |op: BinOp, by: i64| TExpr::binary(op, number.clone(), TExpr::Int(by));
        let k = TExpr::Scalar(self.product.k.var);
        let k_is_last = matches!(&self.product.factors[at].core, TExpr::Load { indices, .. }
            if indices.last() == Some(&k));
        if k_is_last {
            return [part(BinOp::Mod, depth), part(BinOp::FloorDiv, depth)];
        }
        let width = self.layout.width(at);
        [part(BinOp::FloorDiv, width), part(BinOp::Mod, width)]
    }

    /// The thread's part of the tile of a factor, from the term `before` on.
    fn load(&self, writer: &mut Writer, at: usize, before: &TExpr) -> Vec<Stmt> {
        let (product, span) = (self.product, self.product.span);
        let own = [&product.i, &product.j][at];
        let turn = self.number(writer, "u");
        let [k, row] = ["k", ["i", "j"][at]].map(|base| writer.scalar(base, None, span));
        let [term, line] = self.element(at, turn);
        let less = |var: ScalarId, item: &Loop| {
            TExpr::binary(BinOp::Less, TExpr::Scalar(var), item.stop.clone())
        };
        let is_there = TExpr::binary(BinOp::And, less(row, own), less(k, &product.k));
        let mut names = Names(BTreeMap::from([(own.var, row), (product.k.var, k)]));
        let value = expr(&product.factors[at].core, &mut names, Place::Value);
        let value = TExpr::Select(Box::new((is_there, value, product.factors[at].nothing())));
        let body = vec![
            self.bind(k, add(before.clone(), term)),
            self.bind(row, self.place(at, line)),
            self.store(self.next[at], vec![TExpr::Scalar(turn)], value),
        ];
        self.over(&[(turn, self.layout.turns(at))], body)
    }

    /// What a thread loaded is there for others.
    fn share(&self, writer: &mut Writer, at: usize) -> Vec<Stmt> {
        let turn = self.number(writer, "u");
        let value = TExpr::Load { buffer: self.next[at], indices: vec![TExpr::Scalar(turn)] };
        let shared = self.store(self.tiles[at], self.element(at, turn).to_vec(), value);
        self.over(&[(turn, self.layout.turns(at))], vec![shared])
    }

    /// What a tile adds to the square, in order.
    fn products(&mut self, writer: &mut Writer) -> Vec<Stmt> {
        let [p, r, c] = ["p", "r", "c"].map(|base| self.number(writer, base));
        let mut body = Vec::new();
        let Layout { per, slices, depth, .. } = self.layout;
        let term = match slices {
            1 => TExpr::Scalar(p),
            _ => {
                let slice = TExpr::Scalar(self.threads[0]);
                add(multiply(slice, TExpr::Int(depth / slices)), TExpr::Scalar(p))
            }
        };
        for (at, var) in [r, c].into_iter().enumerate() {
            let indices = vec![term.clone(), self.line(at, var)];
            let value = TExpr::Load { buffer: self.tiles[at], indices };
            let kept = self.store(self.held[at], vec![TExpr::Scalar(var)], value);
            body.extend(self.over(&[(var, per[at])], vec![kept]));
        }
        let vars = self.pair(writer);
        let [a, b] = [0, 1].map(|at: usize| {
            self.product.factors[at].in_tile(self.held[at], vec![TExpr::Scalar(vars[at].0)])
        });
        let value = match self.product.swapped {
            true => TExpr::binary(BinOp::Mul, b, a),
            false => TExpr::binary(BinOp::Mul, a, b),
        };
        let buffer = self.sums.element(self.product.sum.buffer);
        let buffer = buffer.expect("invariant: it was asked for");
        let indices = vars.map(|(var, _)| TExpr::Scalar(var)).to_vec();
        let adds = StmtKind::Store { buffer, indices, update: Some(BinOp::Add), value };
        body.extend(self.over(&vars, vec![self.stmt(adds)]));
        self.over(&[(p, depth / slices)], body)
    }

    /// The elements that are there, and what is done with them.
    fn results(&mut self, writer: &mut Writer, is_own: bool) -> Vec<Stmt> {
        let [rows, columns] = [0, 1].map(|at| self.lines(writer, at));
        let own = vec![rows.1, columns.1];
        self.sums.at(own.clone());
        let last = self.sums.of_product(self.product, (own, is_own), self.product.span);
        let body = self.where_there(writer, [rows.2, columns.2], last);
        self.over(&[rows.0, columns.0].concat(), body)
    }

    /// What is done with the element of these lines of the tile, where there is one.
    pub(super) fn where_there(
        &self,
        writer: &mut Writer,
        [row, column]: [TExpr; 2],
        last: Vec<Stmt>,
    ) -> Vec<Stmt> {
        let product = self.product;
        let mut body = Vec::new();
        let mut conditions = Vec::new();
        for (at, (item, line)) in [(&product.i, row), (&product.j, column)].into_iter().enumerate()
        {
            writer.is_bound(item.var);
            body.push(self.bind(item.var, self.place(at, line)));
            conditions.push(TExpr::binary(BinOp::Less, TExpr::Scalar(item.var), item.stop.clone()));
        }
        let condition = conditions.into_iter().reduce(|a, b| TExpr::binary(BinOp::And, a, b));
        let condition = condition.expect("invariant: there are two of them");
        body.push(self.stmt(StmtKind::If { condition, then: last, otherwise: Vec::new() }));
        body
    }
}

impl Nearer {
    /// What is done with a sum that lies in an array at `own`: it is stored where others see it, else what comes after reads it here.
    pub(super) fn of_product(
        &mut self,
        product: &Product,
        (own, is_own): (Vec<TExpr>, bool),
        span: Span,
    ) -> Vec<Stmt> {
        if is_own {
            return self.statements(&product.last);
        }
        let (buffer, indices) = (product.sum.buffer, product.sum.indices.clone());
        let nearer = self.element(buffer).expect("invariant: it was asked for");
        let value = TExpr::Load { buffer: nearer, indices: own };
        let kind = StmtKind::Store { buffer, indices, update: None, value };
        [vec![Stmt { kind, span }], product.last.clone()].concat()
    }
}

/// Loop variables with other names.
pub(super) struct Names(pub(super) BTreeMap<ScalarId, ScalarId>);

impl Rewrite for Names {
    fn scalar(&mut self, id: ScalarId) -> ScalarId {
        self.0.get(&id).copied().unwrap_or(id)
    }
}
