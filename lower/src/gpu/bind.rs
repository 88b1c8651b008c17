//! One nest of loops as a kernel: the loops whose iterations are apart become threads, the others stay in the thread.

use super::Limits;
use super::expressions::{add, ceil_divide, extent, least, multiply, thread_loop};
use super::scope_promotion::{Nearer, own_elements};
use super::storage::{Spread, spread};
use super::vectorize::{self, vectors};
use crate::passes::fuse_loops::never_stops;
use crate::writer::Writer;
use relax_semantics::tir::walk::visit;
use relax_syntax::dtype::DType;
use relax_syntax::facts::Facts;
use relax_syntax::ir::tensor::{
    BinOp, Loop, LoopKind, Param, ScalarId, Scope, Stmt, StmtKind, TExpr,
};
use relax_syntax::span::Span;
use relax_tir::analysis::dependence::loops::independent_loops;
use std::collections::BTreeSet;

/// The loops of a perfect nest, outermost first, and what they run.
struct Nest {
    loops: Vec<(Loop, LoopKind)>,
    body: Vec<Stmt>,
    span: Span,
}

impl Nest {
    fn of(stmt: &Stmt) -> Self {
        let mut nest = Nest { loops: Vec::new(), body: vec![stmt.clone()], span: stmt.span };
        while let [Stmt { kind: StmtKind::For { loops, kind, body }, .. }] = nest.body.as_slice()
            && !matches!(kind, LoopKind::Thread(_) | LoopKind::Shard { .. })
        {
            nest.loops.extend(loops.iter().map(|item| (item.clone(), kind.clone())));
            nest.body = body.clone();
        }
        nest
    }

    fn all(&self) -> Vec<Loop> {
        self.loops.iter().map(|(item, _)| item.clone()).collect()
    }
}

/// The statements in the place of a nest at the top; `None` where no loop of it can be bound. `host` are the scalars whose
/// values the host knows. Rows of whole vectors get a kernel of their own.
pub(super) fn bind(
    writer: &mut Writer,
    stmt: &Stmt,
    outside: &[Stmt],
    host: &BTreeSet<ScalarId>,
    facts: &mut dyn Facts,
    limits: Limits,
) -> Option<Vec<Stmt>> {
    let nest = Nest::of(stmt);
    let all_bound = chosen(writer, stmt, &nest, host, facts).into_iter().all(|bound| bound);
    let vectors = vectors(writer, &nest.all(), &nest.body, facts).filter(|_| all_bound);
    let Some(vectors) = vectors else {
        return bind_times(writer, (stmt, None), outside, host, facts, limits);
    };
    let wide = match &vectors.rest {
        None => nest,
        Some(_) => Nest::of(&writer.renamed(stmt)),
    };
    let mut done =
        vectorize::written(writer, (&wide.all(), &wide.body), &vectors, wide.span, limits);
    if let Some(rest) = vectors.rest {
        done.extend(bind_times(writer, (stmt, Some(rest)), outside, host, facts, limits)?);
    }
    Some(done)
}

/// The same with as many blocks as `times` says, which is 0 or 1: the host chooses by it.
pub(super) fn bind_times(
    writer: &mut Writer,
    (stmt, times): (&Stmt, Option<TExpr>),
    outside: &[Stmt],
    host: &BTreeSet<ScalarId>,
    facts: &mut dyn Facts,
    limits: Limits,
) -> Option<Vec<Stmt>> {
    let nest = Nest::of(stmt);
    let bound = chosen(writer, stmt, &nest, host, facts);
    let (threads, rest): (Vec<_>, Vec<_>) =
        nest.loops.iter().zip(&bound).partition(|(_, bound)| **bound);
    let threads: Vec<&Loop> = threads.into_iter().map(|((item, _), _)| item).collect();
    if threads.is_empty() {
        return None;
    }
    let body = rest.into_iter().rev().fold(nest.body.clone(), |body, ((item, kind), _)| {
        let kind = StmtKind::For { loops: vec![item.clone()], kind: kind.clone(), body };
        vec![Stmt { kind, span: nest.span }]
    });
    let body = with_own_elements(writer, &threads, body, outside);
    let Spread { outside, body } = spread(writer, &threads, &body)?;
    let extents = threads.iter().map(|item| extent(item)).collect();
    let kernel = flattened(writer, (&threads, extents), times, body, nest.span, limits);
    Some([outside, kernel].concat())
}

/// Sums and the like that only an iteration sees are memory of its thread.
fn with_own_elements(
    writer: &mut Writer,
    threads: &[&Loop],
    body: Vec<Stmt>,
    outside: &[Stmt],
) -> Vec<Stmt> {
    let loops: Vec<Loop> = threads.iter().map(|item| (*item).clone()).collect();
    let own = own_elements(writer, &loops, &body, outside);
    if own.is_empty() {
        return body;
    }
    let span = body.first().map_or(writer.program.span, |stmt| stmt.span);
    let mut nearer = Nearer::new(writer, &own, Scope::Local);
    [nearer.allocations(span), nearer.statements(&body)].concat()
}

/// Which loops become threads: all whose iterations are apart, of a nest that may stop those before the first other one.
fn chosen(
    writer: &Writer,
    stmt: &Stmt,
    nest: &Nest,
    host: &BTreeSet<ScalarId>,
    facts: &mut dyn Facts,
) -> Vec<bool> {
    let loops = nest.all();
    let mut bound = independent_loops(&loops, std::slice::from_ref(stmt));
    for (item, bound) in loops.iter().zip(&mut bound) {
        *bound &= is_of_host(&item.start, writer, host) && is_of_host(&item.stop, writer, host);
    }
    let first = bound.iter().take_while(|bound| **bound).count();
    let moves = bound[first..].iter().any(|bound| *bound);
    if moves && !never_stops(&writer.program, stmt, facts) {
        bound[first..].iter_mut().for_each(|bound| *bound = false);
    }
    bound
}

/// Whether the host can evaluate it before the launch.
pub(super) fn is_of_host(expr: &TExpr, writer: &Writer, host: &BTreeSet<ScalarId>) -> bool {
    let mut known = true;
    visit(expr, &mut |part| match part {
        TExpr::Load { .. } => known = false,
        TExpr::Scalar(id) => {
            known &= host.contains(id) || writer.program.params.contains(&Param::Scalar(*id));
        }
        _ => {}
    });
    known
}

/// The loops as one index over blocks of threads, in the order of the text; `times` is 0 where there are to be none.
pub(super) fn flattened(
    writer: &mut Writer,
    (loops, extents): (&[&Loop], Vec<TExpr>),
    times: Option<TExpr>,
    body: Vec<Stmt>,
    span: Span,
    limits: Limits,
) -> Vec<Stmt> {
    let factors = extents.iter().cloned().chain(times);
    let product = factors.reduce(multiply).unwrap_or(TExpr::Int(1));
    let (count, mut done) = named(writer, product, span);
    let threads = match count {
        TExpr::Int(count) => count.clamp(1, limits.threads),
        _ => limits.threads,
    };
    let tx = writer.scalar("tx", Some(DType::I64), span);
    let blocks = ceil_divide(count.clone(), threads);
    let rows = ceil_divide(count.clone(), threads.saturating_mul(limits.blocks));
    let grid = Grid::new(writer, blocks, rows, limits, span);
    let at = add(multiply(grid.block.clone(), TExpr::Int(threads)), TExpr::Scalar(tx));
    let body = indexed(writer, loops, (at, Some(&count), &extents), body, span);
    let row = thread_loop((tx, TExpr::Int(threads)), "threadIdx.x", body, span);
    done.push(grid.over(vec![row], span));
    done
}

/// The blocks of a grid, numbered in order: in one dim of it or, where those may be too many, in two.
pub(super) struct Grid {
    bx: ScalarId,
    blocks: TExpr,
    /// The second dim, and its extent.
    pub(super) rows: Option<(ScalarId, TExpr)>,
    /// The number of a block; too great for some where there are two dims.
    pub(super) block: TExpr,
}

impl Grid {
    pub(super) fn new(
        writer: &mut Writer,
        blocks: TExpr,
        rows: TExpr,
        limits: Limits,
        span: Span,
    ) -> Self {
        let bx = writer.scalar("bx", Some(DType::I64), span);
        let is_one_row = matches!(blocks, TExpr::Int(blocks) if blocks <= limits.blocks);
        let blocks = least(blocks, limits.blocks);
        if is_one_row {
            return Self { bx, blocks, rows: None, block: TExpr::Scalar(bx) };
        }
        let by = writer.scalar("by", Some(DType::I64), span);
        let before = multiply(TExpr::Scalar(by), TExpr::Int(limits.blocks));
        Self { bx, blocks, rows: Some((by, rows)), block: add(before, TExpr::Scalar(bx)) }
    }

    pub(super) fn over(self, body: Vec<Stmt>, span: Span) -> Stmt {
        let grid = thread_loop((self.bx, self.blocks), "blockIdx.x", body, span);
        match self.rows {
            None => grid,
            Some((by, rows)) => thread_loop((by, rows), "blockIdx.y", vec![grid], span),
        }
    }
}

/// How many iterations of `rows` there are, with a name that the host has for it; none where `times` is 0.
pub(super) fn count(
    writer: &mut Writer,
    rows: &[Loop],
    times: Option<&TExpr>,
    span: Span,
) -> (TExpr, Vec<Stmt>) {
    let factors = rows.iter().map(extent).chain(times.cloned());
    named(writer, factors.reduce(multiply).unwrap_or(TExpr::Int(1)), span)
}

/// A block for each iteration of `rows`, with its shared memory and its threads; none where `times` is 0.
pub(super) fn rows_grid(
    writer: &mut Writer,
    (rows, times): (&[Loop], Option<&TExpr>),
    (tx, threads): (ScalarId, i64),
    (shared, body): (Vec<Stmt>, Vec<Stmt>),
    limits: Limits,
) -> Vec<Stmt> {
    let span = writer.program.scalar(tx).span;
    let extents: Vec<TExpr> = rows.iter().map(extent).collect();
    let (count, mut done) = count(writer, rows, times, span);
    let second = ceil_divide(count.clone(), limits.blocks);
    let grid = Grid::new(writer, count.clone(), second, limits, span);
    let rows: Vec<&Loop> = rows.iter().collect();
    let guard = grid.rows.is_some().then_some(&count);
    let body = match rows.is_empty() {
        true => body,
        false => indexed(writer, &rows, (grid.block.clone(), guard, &extents), body, span),
    };
    let threads = thread_loop((tx, TExpr::Int(threads)), "threadIdx.x", body, span);
    done.push(grid.over([shared, vec![threads]].concat(), span));
    done
}

/// A block for as many neighbouring rows as it has places; all its threads come to the whole body, where `row` is the number of theirs.
pub(super) fn rows_together_grid(
    writer: &mut Writer,
    [(ty, high), (tx, wide)]: [(ScalarId, i64); 2],
    (place, width): (ScalarId, i64),
    (row, count): (ScalarId, TExpr),
    (shared, body): (Vec<Stmt>, Vec<Stmt>),
    limits: Limits,
) -> Vec<Stmt> {
    let span = writer.program.scalar(tx).span;
    let blocks = ceil_divide(count.clone(), width);
    let second = ceil_divide(count, width.saturating_mul(limits.blocks));
    let grid = Grid::new(writer, blocks, second, limits, span);
    let at = add(multiply(grid.block.clone(), TExpr::Int(width)), TExpr::Scalar(place));
    let mut all = vec![Stmt { kind: StmtKind::Let { var: row, value: at }, span }];
    all.extend(body);
    let inner = thread_loop((tx, TExpr::Int(wide)), "threadIdx.x", all, span);
    let threads = thread_loop((ty, TExpr::Int(high)), "threadIdx.y", vec![inner], span);
    vec![grid.over([shared, vec![threads]].concat(), span)]
}

/// The host's name for a value, and where it is bound; what is short stays as it is.
pub(super) fn named(writer: &mut Writer, value: TExpr, span: Span) -> (TExpr, Vec<Stmt>) {
    if matches!(value, TExpr::Int(_) | TExpr::Dim(_)) {
        return (value, Vec::new());
    }
    let var = writer.scalar("count", None, span);
    (TExpr::Scalar(var), vec![Stmt { kind: StmtKind::Let { var, value }, span }])
}

/// The loop variables from the index, and the body: behind a guard where an index may be none below `count`.
pub(super) fn indexed(
    writer: &mut Writer,
    loops: &[&Loop],
    (at, count, extents): (TExpr, Option<&TExpr>, &[TExpr]),
    body: Vec<Stmt>,
    span: Span,
) -> Vec<Stmt> {
    let var = writer.scalar("at", None, span);
    let mut parts = taken_apart(writer, loops, var, extents, span);
    parts.extend(body);
    let first = Stmt { kind: StmtKind::Let { var, value: at }, span };
    let Some(count) = count else { return [vec![first], parts].concat() };
    let condition = TExpr::binary(BinOp::Less, TExpr::Scalar(var), count.clone());
    let guarded = StmtKind::If { condition, then: parts, otherwise: Vec::new() };
    vec![first, Stmt { kind: guarded, span }]
}

/// The loop variables from their number.
pub(super) fn taken_apart(
    writer: &mut Writer,
    loops: &[&Loop],
    var: ScalarId,
    extents: &[TExpr],
    span: Span,
) -> Vec<Stmt> {
    let mut parts = Vec::new();
    let mut behind = TExpr::Int(1);
    for (number, (item, extent)) in loops.iter().zip(extents).enumerate().rev() {
        let quotient = match &behind {
            TExpr::Int(1) => TExpr::Scalar(var),
            _ => TExpr::binary(BinOp::FloorDiv, TExpr::Scalar(var), behind.clone()),
        };
        let part = match number {
            0 => quotient,
            _ => TExpr::binary(BinOp::Mod, quotient, extent.clone()),
        };
        writer.is_bound(item.var);
        let kind = StmtKind::Let { var: item.var, value: add(item.start.clone(), part) };
        parts.push(Stmt { kind, span });
        behind = multiply(extent.clone(), behind);
    }
    parts.reverse();
    parts
}
