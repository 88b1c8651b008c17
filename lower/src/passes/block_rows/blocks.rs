//! The nest over blocks of rows that a run of nests becomes.

use super::{RowNest, Run};
use crate::writer::Writer;
use relax_rewrite::passes::stitch_products::BLOCK_ROWS;
use relax_semantics::tir::walk::{
    Place, Rewrite, accesses, expr, statements, stored, visit_statements,
};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{
    BinOp, BufferId, BufferInfo, Loop, LoopKind, ScalarId, Scope, Stmt, StmtKind, TExpr,
};
use relax_syntax::span::Span;
use relax_tir::dims::{as_dim, as_expr};
use relax_tir::products::mentions;
use relax_tir::renumber::renumber_program;
use std::collections::{BTreeMap, BTreeSet};

/// The program as it becomes.
pub(super) struct Blocks<'p> {
    program: &'p TensorProgram,
    writer: Writer,
    /// Loops over the axes, without rows.
    outer: Vec<Loop>,
    block: ScalarId,
    /// How many rows there are.
    rows: TExpr,
    /// How many of them a block has.
    height: Dim,
    allocations: Vec<Stmt>,
}

impl<'p> Blocks<'p> {
    pub(super) fn of(program: &'p TensorProgram, run: &Run) -> Self {
        let mut writer = Writer::of(program);
        let (rows, outer) = run.extents.split_last().expect("invariant: there are rows");
        let span = program.span;
        let outer = outer.iter().map(|stop| {
            let var = writer.scalar("i", Some(DType::I64), span);
            Loop { var, start: TExpr::Int(0), stop: stop.clone() }
        });
        let outer = outer.collect();
        let block = writer.scalar("block", Some(DType::I64), span);
        let height = match rows {
            TExpr::Int(_) => Dim::Int(BLOCK_ROWS),
            rows => {
                let rows = as_dim(rows).expect("invariant: an extent of a buffer");
                Dim::op(DimOp::Min, Dim::Int(BLOCK_ROWS), rows)
            }
        };
        let rows = rows.clone();
        Self { program, writer, outer, block, rows, height, allocations: Vec::new() }
    }

    pub(super) fn program(mut self, plain: &[Stmt], body: &[Stmt], run: &Run) -> TensorProgram {
        let span = run.nests[0].span;
        let mut within = Vec::new();
        let mut rest = run.nests.as_slice();
        while let [nest, after @ ..] = rest {
            if nest.is_product {
                self.product(nest, run, &mut within);
                rest = after;
            } else {
                let count = 1 + after.iter().take_while(|nest| !nest.is_product).count();
                within.push(self.rows(&rest[..count], run));
                rest = &rest[count..];
            }
        }
        // (rows - 1) // 64 + 1
        let last = TExpr::binary(BinOp::Sub, self.rows.clone(), TExpr::Int(1));
        let stop = match &self.rows {
            TExpr::Int(rows) => TExpr::Int((rows - 1) / BLOCK_ROWS + 1),
            _ => TExpr::binary(
                BinOp::Add,
                TExpr::binary(BinOp::FloorDiv, last, TExpr::Int(BLOCK_ROWS)),
                TExpr::Int(1),
            ),
        };
        let blocks = [Loop { var: self.block, start: TExpr::Int(0), stop }];
        let mut nest = grid(blocks.to_vec(), within, span);
        if !self.outer.is_empty() {
            nest = grid(self.outer.clone(), vec![nest], span);
        }
        let last = run.first + run.nests.len();
        let (before, after) = (&body[..run.first], &body[last..]);
        let all = plain.iter().chain(&self.allocations).chain(before).chain([&nest]).chain(after);
        let body = Some(all.cloned().collect());
        for buffer in &run.contracted {
            let place = *run.places[buffer].last().expect("invariant: rows are an axis");
            self.writer.program.buffers[buffer.0 as usize].shape[place] = self.height.clone();
        }
        let mut result = TensorProgram { body, ..self.writer.program };
        renumber_program(&mut result);
        result
    }

    /// A loop over the rows of a block.
    fn loop_over_rows(&mut self, span: Span) -> Loop {
        let var = self.writer.scalar("row", Some(DType::I64), span);
        Loop { var, start: TExpr::Int(0), stop: as_expr(&self.height) }
    }

    /// Nests that are no products, in one loop over rows.
    fn rows(&mut self, nests: &[RowNest], run: &Run) -> Stmt {
        let span = nests[0].span;
        let item = self.loop_over_rows(span);
        let mut body = Vec::new();
        for nest in nests {
            let inner = self.moved(nest, run, item.var, None, &mut body);
            body.extend(if nest.inner.is_empty() {
                inner
            } else {
                vec![grid(nest.inner.clone(), inner, nest.span)]
            });
        }
        grid(vec![item], body, span)
    }

    /// A product, with copies of its factors' rows before it and the store of its result after it.
    fn product(&mut self, nest: &RowNest, run: &Run, within: &mut Vec<Stmt>) {
        let item = self.loop_over_rows(nest.span);
        let results: BTreeSet<BufferId> = stored(nest.body);
        let result = results.into_iter().find(|buffer| !run.contracted.contains(buffer));
        let mut behind = Vec::new();
        let mut before = Vec::new();
        let out = result.and_then(|buffer| self.result(buffer, nest, &mut behind));
        let body = self.moved(nest, run, item.var, out, &mut before);
        within.extend(before);
        let loops = std::iter::once(item).chain(nest.inner.iter().cloned()).collect();
        within.push(grid(loops, body, nest.span));
        within.extend(behind);
    }

    /// The row of the program that a row of a block stands for.
    fn row(&self, row: ScalarId) -> TExpr {
        let within = TExpr::Scalar(row);
        if self.is_even() {
            return TExpr::binary(BinOp::Add, self.start(), within);
        }
        let last = TExpr::binary(BinOp::Sub, self.left(), TExpr::Int(1));
        TExpr::binary(BinOp::Add, self.start(), TExpr::binary(BinOp::Min, within, last))
    }

    /// Whether no block has rows past the end.
    fn is_even(&self) -> bool {
        matches!(self.rows, TExpr::Int(rows) if rows % BLOCK_ROWS == 0)
    }

    /// The first row of a block.
    fn start(&self) -> TExpr {
        TExpr::binary(BinOp::Mul, TExpr::Scalar(self.block), TExpr::Int(BLOCK_ROWS))
    }

    /// How many rows there are from there on. No sum of a place and the height of a block is formed, which may leave i64.
    fn left(&self) -> TExpr {
        TExpr::binary(BinOp::Sub, self.rows.clone(), self.start())
    }

    /// A buffer for what a product gives for the rows of a block, and the nest that stores it where it belongs.
    fn result(&mut self, buffer: BufferId, nest: &RowNest, behind: &mut Vec<Stmt>) -> Option<Part> {
        let mut indices: Option<Vec<TExpr>> = None;
        accesses(nest.body, &mut |other, at, _| {
            if other == buffer {
                indices = Some(at.to_vec());
            }
        });
        let part = self.part("O", buffer, &indices?, nest)?;
        // The condition bounds it by the rows that there are; a remainder by 64 is below 64 without a proof about `n`.
        let item = Loop { stop: TExpr::Int(BLOCK_ROWS), ..self.loop_over_rows(nest.span) };
        let row = TExpr::binary(BinOp::Add, self.start(), TExpr::Scalar(item.var));
        let condition = TExpr::binary(BinOp::Less, TExpr::Scalar(item.var), self.left());
        let (loops, own, at) = self.copied(&part, nest, item, row);
        let value = TExpr::Load { buffer: part.buffer, indices: own };
        let kind = StmtKind::Store { buffer, indices: at, update: None, value };
        let mut body = vec![Stmt { kind, span: nest.span }];
        if !self.is_even() {
            let kind = StmtKind::If { condition, then: body, otherwise: Vec::new() };
            body = vec![Stmt { kind, span: nest.span }];
        }
        behind.push(grid(loops, body, nest.span));
        Some(part)
    }

    /// A buffer with the rows of a block: the axes first, then what else an access goes through.
    fn part(
        &mut self,
        base: &str,
        of: BufferId,
        indices: &[TExpr],
        nest: &RowNest,
    ) -> Option<Part> {
        let (row, outer) = nest.axes.split_last()?;
        let mut along = Vec::new();
        visit_loops(nest, &mut |item| along.push(item.clone()));
        let mut rest = Vec::new();
        for index in indices {
            match index.as_scalar() {
                Some(var) if var == *row || outer.contains(&var) => {}
                Some(var) => {
                    let item = along.iter().find(|item| item.var == var)?;
                    let is_whole = item.start == TExpr::Int(0) && !rest.contains(item);
                    rest.push(item.clone());
                    if !is_whole || as_dim(&item.stop).is_none() {
                        return None;
                    }
                }
                // Some place that the loops around tell, as the head that several share.
                None => {
                    let inner = along.iter().map(|item| item.var).chain([*row]);
                    if inner.into_iter().any(|var| mentions(std::slice::from_ref(index), var)) {
                        return None;
                    }
                }
            }
        }
        let extents = self.outer.iter().map(|item| as_dim(&item.stop));
        let rows = [Some(self.height.clone())];
        let shape = extents.chain(rows).chain(rest.iter().map(|item| as_dim(&item.stop)));
        let shape = shape.collect::<Option<Vec<Dim>>>()?;
        let info = self.program.buffer(of).clone();
        let info = BufferInfo { shape, scope: Scope::Global, ..info };
        let buffer = self.writer.buffer(base, info);
        self.allocations.push(Stmt { kind: StmtKind::Alloc(buffer), span: nest.span });
        Some(Part { buffer, of, indices: indices.to_vec(), rest })
    }

    /// Loops over the rows of a part, its own indices, and those of what it is a part of.
    fn copied(
        &mut self,
        part: &Part,
        nest: &RowNest,
        item: Loop,
        row: TExpr,
    ) -> (Vec<Loop>, Vec<TExpr>, Vec<TExpr>) {
        let fresh = part.rest.iter().map(|item| {
            let name = self.program.scalar(item.var).name.clone();
            let var = self.writer.scalar(name.as_str(), Some(DType::I64), nest.span);
            Loop { var, ..item.clone() }
        });
        let fresh: Vec<Loop> = fresh.collect();
        let mut scalars = self.names_of_axes(nest);
        scalars
            .extend(part.rest.iter().map(|item| item.var).zip(fresh.iter().map(|item| item.var)));
        let mut names = Names { scalars, row: (row_of(nest), row) };
        let at = part.indices.iter().map(|index| expr(index, &mut names, Place::Index)).collect();
        let own = part.own(&self.outer, item.var);
        let own = own.iter().map(|index| expr(index, &mut names, Place::Index)).collect();
        let loops = std::iter::once(item).chain(fresh).collect();
        (loops, own, at)
    }

    /// The axes of a nest but the row as the loops around the blocks.
    fn names_of_axes(&self, nest: &RowNest) -> BTreeMap<ScalarId, ScalarId> {
        nest.axes.iter().zip(&self.outer).map(|(own, item)| (*own, item.var)).collect()
    }

    /// The body of a nest for a row of a block. Of a product the rows of what is given are copied before.
    fn moved(
        &mut self,
        nest: &RowNest,
        run: &Run,
        row: ScalarId,
        out: Option<Part>,
        before: &mut Vec<Stmt>,
    ) -> Vec<Stmt> {
        let mut parts: Vec<Part> = out.into_iter().collect();
        let given = if nest.is_product { given(nest, run) } else { Vec::new() };
        for (buffer, indices) in given {
            let Some(part) = self.part("Q", buffer, &indices, nest) else { continue };
            let item = self.loop_over_rows(nest.span);
            let at = self.row(item.var);
            let (loops, own, at) = self.copied(&part, nest, item, at);
            let value = TExpr::Load { buffer, indices: at };
            let kind = StmtKind::Store { buffer: part.buffer, indices: own, update: None, value };
            before.push(grid(loops, vec![Stmt { kind, span: nest.span }], nest.span));
            parts.push(part);
        }
        let names = Names { scalars: self.names_of_axes(nest), row: (row_of(nest), self.row(row)) };
        let contracted = &run.contracted;
        let mut moved = Moved { contracted, names, own: row, parts: &parts, outer: &self.outer };
        statements(nest.body, &mut moved)
    }
}

/// What a product multiplies that no nest of the run writes, at the row itself.
fn given(nest: &RowNest, run: &Run) -> Vec<(BufferId, Vec<TExpr>)> {
    let mut found: Vec<(BufferId, Vec<TExpr>)> = Vec::new();
    visit_statements(nest.body, &mut |stmt| {
        if !matches!(stmt.kind, StmtKind::Store { update: Some(BinOp::Add), .. }) {
            return;
        }
        accesses(std::slice::from_ref(stmt), &mut |buffer, indices, is_stored| {
            let is_row = indices.iter().any(|at| at.as_scalar() == Some(row_of(nest)));
            let is_new = !found.iter().any(|(other, at)| *other == buffer && at == indices);
            if !is_stored && is_row && is_new && !run.contracted.contains(&buffer) {
                found.push((buffer, indices.to_vec()));
            }
        });
    });
    found
}

fn row_of(nest: &RowNest) -> ScalarId {
    *nest.axes.last().expect("invariant: rows are an axis")
}

/// Every loop of a nest but those over the axes.
fn visit_loops<'s>(nest: &'s RowNest, seen: &mut dyn FnMut(&'s Loop)) {
    nest.inner.iter().for_each(&mut *seen);
    visit_statements(nest.body, &mut |stmt| {
        if let StmtKind::For { loops, .. } = &stmt.kind {
            loops.iter().for_each(&mut *seen);
        }
    });
}

/// The rows of a block of a buffer, in a buffer of their own.
struct Part {
    buffer: BufferId,
    of: BufferId,
    /// The access that it stands for.
    indices: Vec<TExpr>,
    /// Loops behind the row.
    rest: Vec<Loop>,
}

impl Part {
    /// Its own indices.
    fn own(&self, outer: &[Loop], row: ScalarId) -> Vec<TExpr> {
        let vars = |loops: &[Loop]| loops.iter().map(|item| item.var).collect::<Vec<ScalarId>>();
        let all = [vars(outer), vec![row], vars(&self.rest)];
        all.concat().into_iter().map(TExpr::Scalar).collect()
    }
}

/// Scalars by other names, and a row as an expression.
struct Names {
    scalars: BTreeMap<ScalarId, ScalarId>,
    row: (ScalarId, TExpr),
}

impl Rewrite for Names {
    fn scalar(&mut self, id: ScalarId) -> ScalarId {
        self.scalars.get(&id).copied().unwrap_or(id)
    }

    fn replace(&mut self, expr: &TExpr, _: Place) -> Option<TExpr> {
        (*expr == TExpr::Scalar(self.row.0)).then(|| self.row.1.clone())
    }
}

/// What a nest does with a row, on its way into a block.
struct Moved<'a> {
    contracted: &'a BTreeSet<BufferId>,
    names: Names,
    /// The row of the block.
    own: ScalarId,
    parts: &'a [Part],
    outer: &'a [Loop],
}

impl Moved<'_> {
    /// An element of what has the rows of a block.
    fn place(&mut self, buffer: BufferId, indices: &[TExpr]) -> Option<(BufferId, Vec<TExpr>)> {
        if self.contracted.contains(&buffer) {
            let own = indices.iter().map(|index| match index.as_scalar() {
                Some(var) if var == self.names.row.0 => TExpr::Scalar(self.own),
                _ => expr(index, self, Place::Index),
            });
            return Some((buffer, own.collect()));
        }
        let mut parts = self.parts.iter();
        let part = parts.find(|part| part.of == buffer && part.indices == indices)?;
        Some((part.buffer, part.own(self.outer, self.own)))
    }
}

impl Rewrite for Moved<'_> {
    fn replace_statement(&mut self, stmt: &Stmt) -> Option<StmtKind> {
        let StmtKind::Store { buffer, indices, update, value } = &stmt.kind else { return None };
        let (buffer, indices) = self.place(*buffer, indices)?;
        let value = expr(value, self, Place::Value);
        Some(StmtKind::Store { buffer, indices, update: *update, value })
    }

    fn scalar(&mut self, id: ScalarId) -> ScalarId {
        self.names.scalar(id)
    }

    fn replace(&mut self, expr: &TExpr, place: Place) -> Option<TExpr> {
        let TExpr::Load { buffer, indices } = expr else { return self.names.replace(expr, place) };
        let (buffer, indices) = self.place(*buffer, indices)?;
        Some(TExpr::Load { buffer, indices })
    }
}

fn grid(loops: Vec<Loop>, body: Vec<Stmt>, span: Span) -> Stmt {
    Stmt { kind: StmtKind::For { loops, kind: LoopKind::Grid, body }, span }
}
