//! Warp-level matrix products (`mma`): products of small matrices that the threads of a warp form together, as tensor cores do: the one form of loops that schedules
//! write and printers find.
//!
//! The text is a plain nest, in which each thread adds to elements of its own, so the interpreter runs it like any other. Which
//! elements those are is what makes it a product for tensor cores (PTX ISA, `mma.m16n8k16`): of a block of 16 rows and 8 columns
//! thread `t` of 32 has the rows `t // 4` and `t // 4 + 8`, and the columns `t % 4 * 2` and the next one. Both factors lie in shared
//! memory, in segments of eight terms of a line, or of a term of eight lines, whichever lie side by side where the factor comes from: a
//! segment is 16 bytes, and eight of them that follow each other are all banks.

use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{
    BinOp, BufferId, Loop, LoopKind, ScalarId, Scope, Stmt, StmtKind, TExpr,
};
use relax_syntax::span::Span;

/// Threads of a warp.
pub const LANES: i64 = 32;
/// Rows of a block.
pub const ROWS: i64 = 16;
/// Columns of it.
pub const COLUMNS: i64 = 8;
/// Terms that are added at once.
pub const TERMS: i64 = 16;
/// Terms of a row that lie side by side.
pub const SEGMENT: i64 = 8;

/// Blocks of sums, of which each thread of a warp has four elements.
#[derive(Clone, Debug, PartialEq)]
pub struct WarpProduct {
    /// A thread's: by block along rows, block along columns, row, column.
    pub sums: BufferId,
    /// What is multiplied: `[term // 8, row, term % 8]`, and the same of columns.
    pub tiles: [BufferId; 2],
    /// Of which it is `[row // 8, term, row % 8]`.
    pub turned: [bool; 2],
    /// The first row of a block in the left tile, and its first column in the right one.
    pub firsts: [TExpr; 2],
    /// The loops over blocks, with how many there are.
    pub blocks: [(ScalarId, i64); 2],
    /// The loops over the two rows and the two columns of a thread.
    pub own: [ScalarId; 2],
    /// The loop over terms, with their number.
    pub along: (ScalarId, i64),
    /// The number of the thread in its warp.
    pub lane: ScalarId,
}

fn scalar(id: ScalarId) -> TExpr {
    TExpr::Scalar(id)
}

fn by(op: BinOp, a: TExpr, b: i64) -> TExpr {
    TExpr::binary(op, a, TExpr::Int(b))
}

impl WarpProduct {
    /// The row of the left tile and the column of the right one to which an element of a thread belongs.
    #[must_use]
    pub fn element(&self) -> [TExpr; 2] {
        let ([r, c], [row, column]) = (self.own, &self.firsts);
        let half = by(BinOp::Mul, scalar(r), ROWS / 2);
        let row = TExpr::binary(BinOp::Add, row.clone(), half);
        let row = TExpr::binary(BinOp::Add, row, by(BinOp::FloorDiv, scalar(self.lane), 4));
        let pair = by(BinOp::Mul, by(BinOp::Mod, scalar(self.lane), 4), 2);
        let column = TExpr::binary(BinOp::Add, column.clone(), pair);
        [row, TExpr::binary(BinOp::Add, column, scalar(c))]
    }

    /// Where a sum of a thread lies.
    #[must_use]
    pub fn indices(&self) -> Vec<TExpr> {
        self.blocks.iter().map(|(var, _)| *var).chain(self.own).map(TExpr::Scalar).collect()
    }

    /// Its loops.
    #[must_use]
    pub fn written(&self, span: Span) -> Stmt {
        let (p, terms) = self.along;
        let [row, column] = self.element();
        let factor = |at: usize, line: TExpr| {
            let (across, along) = match self.turned[at] {
                true => (line, scalar(p)),
                false => (scalar(p), line),
            };
            let [segment, within] =
                [BinOp::FloorDiv, BinOp::Mod].map(|op| by(op, across.clone(), SEGMENT));
            let indices = vec![segment, along, within];
            TExpr::Cast(DType::F32, Box::new(TExpr::Load { buffer: self.tiles[at], indices }))
        };
        let value = TExpr::binary(BinOp::Mul, factor(0, row), factor(1, column));
        let (buffer, indices, update) = (self.sums, self.indices(), Some(BinOp::Add));
        let adds = Stmt { kind: StmtKind::Store { buffer, indices, update, value }, span };
        let [r, c] = self.own.map(|var| (var, 2));
        let [m, n] = self.blocks;
        let loops = [(p, terms, LoopKind::Serial)].into_iter();
        let loops = loops.chain([c, r, n, m].map(|(var, count)| (var, count, LoopKind::Unroll)));
        loops.fold(adds, |inner, (var, count, kind)| {
            let loops = vec![Loop { var, start: TExpr::Int(0), stop: TExpr::Int(count) }];
            Stmt { kind: StmtKind::For { loops, kind, body: vec![inner] }, span }
        })
    }

    /// The product that a statement is, if it has this very form.
    #[must_use]
    pub fn of(program: &TensorProgram, stmt: &Stmt) -> Option<Self> {
        let (loops, inner) = counted(stmt);
        let [m, n, (r, _), (c, _), along] = loops[..] else { return None };
        let StmtKind::Store { buffer: sums, value, .. } = &inner.kind else { return None };
        let TExpr::Binary(BinOp::Mul, factors) = value else { return None };
        let (a, (row, left)) = factor(&factors.0, along.0)?;
        let (b, (column, right)) = factor(&factors.1, along.0)?;
        let ((row, of_lane), (column, _)) = (sum(row)?, sum(column)?);
        let TExpr::Binary(BinOp::FloorDiv, quotient) = of_lane else { return None };
        let TExpr::Scalar(lane) = quotient.0 else { return None };
        let firsts = [sum(row)?.0.clone(), sum(column)?.0.clone()];
        let (sums, tiles, blocks, own) = (*sums, [a, b], [m, n], [r, c]);
        let turned = [left, right];
        let found = Self { sums, tiles, turned, firsts, blocks, own, along, lane };
        (found.written(stmt.span) == *stmt && found.is_held(program)).then_some(found)
    }

    /// Whether the matrices lie as it takes.
    fn is_held(&self, program: &TensorProgram) -> bool {
        let [a, b] = self.tiles.map(|tile| program.buffer(tile));
        let (sums, (_, terms)) = (program.buffer(self.sums), self.along);
        let is_tile = |at: usize, shape: &[Dim]| match (shape, self.turned[at]) {
            ([Dim::Int(segments), Dim::Int(_), Dim::Int(SEGMENT)], false) => {
                *segments == terms / SEGMENT
            }
            ([Dim::Int(_), Dim::Int(along), Dim::Int(SEGMENT)], true) => {
                *along >= terms && is_multiple(&self.firsts[at])
            }
            _ => false,
        };
        let [(_, m), (_, n)] = self.blocks;
        terms % TERMS == 0
            && a.dtype == b.dtype
            && matches!(a.dtype, DType::F16 | DType::BF16)
            && [a, b].iter().all(|tile| tile.scope == Scope::Shared)
            && is_tile(0, &a.shape)
            && is_tile(1, &b.shape)
            && (sums.dtype, sums.scope) == (DType::F32, Scope::Local)
            && sums.shape == [m, n, 2, 2].map(Dim::Int)
    }
}

/// Whether a number is one of whole segments, as it is written.
fn is_multiple(number: &TExpr) -> bool {
    match number {
        TExpr::Int(number) => number % SEGMENT == 0,
        TExpr::Binary(BinOp::Add, both) => is_multiple(&both.0) && is_multiple(&both.1),
        TExpr::Binary(BinOp::Mul, both) => is_multiple(&both.0) || is_multiple(&both.1),
        _ => false,
    }
}

/// Loops from 0 to a literal, one in the other, and the statement inside.
fn counted(stmt: &Stmt) -> (Vec<(ScalarId, i64)>, &Stmt) {
    let (mut loops, mut stmt) = (Vec::new(), stmt);
    while let StmtKind::For { loops: own, body, .. } = &stmt.kind
        && let [Loop { var, start: TExpr::Int(0), stop: TExpr::Int(stop) }] = own.as_slice()
        && let [inner] = body.as_slice()
    {
        loops.push((*var, *stop));
        stmt = inner;
    }
    (loops, stmt)
}

/// `f32(T[_, line, _])`, or `f32(T[line // 8, term, _])`: then it is turned.
fn factor(value: &TExpr, term: ScalarId) -> Option<(BufferId, (&TExpr, bool))> {
    let TExpr::Cast(_, load) = value else { return None };
    let TExpr::Load { buffer, indices } = load.as_ref() else { return None };
    let [segment, along, _] = indices.as_slice() else { return None };
    if *along != TExpr::Scalar(term) {
        return Some((*buffer, (along, false)));
    }
    let TExpr::Binary(BinOp::FloorDiv, line) = segment else { return None };
    Some((*buffer, (&line.0, true)))
}

fn sum(value: &TExpr) -> Option<(&TExpr, &TExpr)> {
    match value {
        TExpr::Binary(BinOp::Add, both) => Some((&both.0, &both.1)),
        _ => None,
    }
}
