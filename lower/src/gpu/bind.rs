//! One nest of loops as a kernel: the loops whose iterations are apart become threads, the others stay in the thread.

use super::Limits;
use super::expressions::{
    add, binary, ceil_divide, extent, least, multiply, thread_loop,
};
use super::own::apart;
use super::program::Writer;
use super::storage::{Spread, spread};
use crate::passes::fuse_loops::never_stops;
use relax_rewrite::walk::visit;
use relax_syntax::dtype::DType;
use relax_syntax::facts::Facts;
use relax_syntax::ir::tensor::{
    BinOp, Loop, LoopKind, Param, ScalarId, Stmt, StmtKind, TExpr,
};
use relax_syntax::span::Span;
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
}

/// The statements in the place of a nest at the top; `None` where no loop of it can be bound. `host` are the scalars whose
/// values the host knows.
pub(super) fn bind(
    writer: &mut Writer,
    stmt: &Stmt,
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
    let Spread { outside, body } = spread(writer, &threads, &body)?;
    Some([outside, flattened(writer, &threads, body, nest.span, limits)].concat())
}

/// Which loops become threads: all whose iterations are apart, of a nest that may stop those before the first other one.
fn chosen(
    writer: &Writer,
    stmt: &Stmt,
    nest: &Nest,
    host: &BTreeSet<ScalarId>,
    facts: &mut dyn Facts,
) -> Vec<bool> {
    let loops: Vec<Loop> = nest.loops.iter().map(|(item, _)| item.clone()).collect();
    let mut bound = apart(&loops, std::slice::from_ref(stmt));
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
fn is_of_host(expr: &TExpr, writer: &Writer, host: &BTreeSet<ScalarId>) -> bool {
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

/// The loops as one index over blocks of threads, in the order of the text.
fn flattened(
    writer: &mut Writer,
    loops: &[&Loop],
    body: Vec<Stmt>,
    span: Span,
    limits: Limits,
) -> Vec<Stmt> {
    let extents: Vec<TExpr> = loops.iter().map(|item| extent(item)).collect();
    let product = extents.iter().cloned().reduce(multiply).unwrap_or(TExpr::Int(1));
    let (count, mut done) = named(writer, product, span);
    let threads = match count {
        TExpr::Int(count) => count.clamp(1, limits.threads),
        _ => limits.threads,
    };
    let [tx, bx, by] =
        ["tx", "bx", "by"].map(|base| writer.scalar(base, Some(DType::I64), span));
    let blocks = ceil_divide(count.clone(), threads);
    let is_one_row = matches!(blocks, TExpr::Int(blocks) if blocks <= limits.blocks);
    let block = match is_one_row {
        true => TExpr::Scalar(bx),
        false => add(multiply(TExpr::Scalar(by), TExpr::Int(limits.blocks)), TExpr::Scalar(bx)),
    };
    let at = add(multiply(block, TExpr::Int(threads)), TExpr::Scalar(tx));
    let body = indexed(writer, loops, (at, &count, &extents), body, span);
    let row = thread_loop((tx, TExpr::Int(threads)), "threadIdx.x", body, span);
    let grid = thread_loop((bx, least(blocks, limits.blocks)), "blockIdx.x", vec![row], span);
    done.push(match is_one_row {
        true => grid,
        false => {
            let rows = ceil_divide(count, threads.saturating_mul(limits.blocks));
            thread_loop((by, rows), "blockIdx.y", vec![grid], span)
        }
    });
    done
}

/// The host's name for a value, and where it is bound; what is short stays as it is.
fn named(writer: &mut Writer, value: TExpr, span: Span) -> (TExpr, Vec<Stmt>) {
    if matches!(value, TExpr::Int(_) | TExpr::Dim(_)) {
        return (value, Vec::new());
    }
    let var = writer.scalar("count", None, span);
    (TExpr::Scalar(var), vec![Stmt { kind: StmtKind::Let { var, value }, span }])
}

/// The loop variables from the index, and the body for those that there are.
fn indexed(
    writer: &mut Writer,
    loops: &[&Loop],
    (at, count, extents): (TExpr, &TExpr, &[TExpr]),
    body: Vec<Stmt>,
    span: Span,
) -> Vec<Stmt> {
    let bind = |var: ScalarId, value: TExpr| Stmt { kind: StmtKind::Let { var, value }, span };
    let var = writer.scalar("at", None, span);
    let mut parts = Vec::new();
    let mut behind = TExpr::Int(1);
    for (number, (item, extent)) in loops.iter().zip(extents).enumerate().rev() {
        let quotient = match &behind {
            TExpr::Int(1) => TExpr::Scalar(var),
            _ => binary(BinOp::FloorDiv, TExpr::Scalar(var), behind.clone()),
        };
        let part = match number {
            0 => quotient,
            _ => binary(BinOp::Mod, quotient, extent.clone()),
        };
        writer.is_bound(item.var);
        parts.push(bind(item.var, add(item.start.clone(), part)));
        behind = multiply(extent.clone(), behind);
    }
    parts.reverse();
    parts.extend(body);
    let guard = binary(BinOp::Less, TExpr::Scalar(var), count.clone());
    let guarded = StmtKind::If { condition: guard, then: parts, otherwise: Vec::new() };
    vec![bind(var, at), Stmt { kind: guarded, span }]
}
