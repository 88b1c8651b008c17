//! Vectorization of rows: a thread computes neighbouring elements, which a device loads and stores at once (multi-version
//! kernels: BladeDISC §5.2).
//!
//! That takes rows whose extent the width of a vector divides, as each of them has to begin where a vector may. Where the extents
//! decide, both kernels are in the text, and the host finds that one of them has no blocks; what is proved needs no second one.

use super::Limits;
use super::bind::{flattened, named};
use super::expressions::{add, extent, multiply, opposite};
use crate::writer::Writer;
use relax_semantics::tir::ranges::{assume_declared, is_proved};
use relax_semantics::tir::walk::{accesses, loaded, mentions, stored};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Facts, Relation};
use relax_syntax::ir::DimVar;
use relax_syntax::ir::tensor::{BinOp, Loop, LoopKind, ScalarId, Stmt, StmtKind, TExpr};
use relax_syntax::span::Span;
use relax_tir::dims::as_dim;
use std::collections::BTreeSet;

/// Bytes that a thread loads at once.
const BYTES: usize = 16;
/// Elements that are narrower do not fill them.
const MOST: usize = 8;

/// How rows are cut.
#[derive(Clone)]
pub(super) struct Vectors {
    /// Elements of one.
    width: i64,
    /// 1 where rows are of no whole vectors; none where they always are.
    pub(super) rest: Option<TExpr>,
}

/// The vectors of a nest that only stores, element by element; none where some element that it touches lies elsewhere, or
/// where no row is of whole ones.
pub(super) fn vectors(
    writer: &Writer,
    loops: &[Loop],
    body: &[Stmt],
    facts: &mut dyn Facts,
) -> Option<Vectors> {
    let row = loops.last().filter(|row| row.start == TExpr::Int(0))?;
    let end = as_dim(&row.stop)?;
    let body = unnamed(body);
    let is_apart = loaded(body).is_disjoint(&stored(body));
    let width = width(writer, (row.var, &end), body).filter(|_| is_apart)?;
    let rest = rest(facts, &writer.program.dims, (&extent(row), &end), width)?;
    Some(Vectors { width, rest })
}

/// Without blocks that only group.
fn unnamed(body: &[Stmt]) -> &[Stmt] {
    match body {
        [Stmt { kind: StmtKind::Block { axes, init, body, .. }, .. }]
            if axes.is_empty() && init.is_empty() =>
        {
            unnamed(body)
        }
        _ => body,
    }
}

/// As many elements as fill a vector with the widest of them, where all that depend on the row's variable lie along it.
fn width(writer: &Writer, (row, end): (ScalarId, &Dim), body: &[Stmt]) -> Option<i64> {
    let mut names = BTreeSet::from([row]);
    for stmt in body {
        match &stmt.kind {
            StmtKind::Let { var, .. } => _ = names.insert(*var),
            StmtKind::Store { update: None, .. } => {}
            _ => return None,
        }
    }
    let (mut widest, mut fits) = (0, true);
    accesses(body, &mut |buffer, indices, _| {
        if indices.iter().any(|index| mentions(index, &names)) {
            let info = writer.program.buffer(buffer);
            let (last, before) = indices.split_last().expect("invariant: one of them has a name");
            fits &= *last == TExpr::Scalar(row)
                && info.shape.last() == Some(end)
                && !before.iter().any(|index| mentions(index, &names));
            widest = widest.max(info.dtype.size());
        }
    });
    let width = BYTES.checked_div(widest)?.min(MOST);
    i64::try_from(width).ok().filter(|width| fits && *width > 1)
}

/// 1 where rows are of no whole vectors, or none where they always are. Not where they never are.
fn rest(
    facts: &mut dyn Facts,
    dims: &[DimVar],
    (count, end): (&TExpr, &Dim),
    width: i64,
) -> Option<Option<TExpr>> {
    if let TExpr::Int(count) = count {
        return (*count > 0 && count % width == 0).then_some(None);
    }
    facts.push();
    assume_declared(facts, dims);
    let always = is_proved(facts, &Claim::new(width, Relation::Divides, end.clone()));
    let left = Dim::op(DimOp::FloorMod, end.clone(), Dim::Int(width));
    let never = !always && is_proved(facts, &Claim::new(0, Relation::Less, left));
    facts.pop();
    let left = TExpr::binary(BinOp::Mod, count.clone(), TExpr::Int(width));
    let rest = TExpr::binary(BinOp::Min, left, TExpr::Int(1));
    (!never).then_some((!always).then_some(rest))
}

/// The kernel, with a thread for each vector.
pub(super) fn written(
    writer: &mut Writer,
    (loops, body): (&[Loop], &[Stmt]),
    vectors: &Vectors,
    span: Span,
    limits: Limits,
) -> Vec<Stmt> {
    let (row, outer) = loops.split_last().expect("invariant: there is a row");
    let width = TExpr::Int(vectors.width);
    let (count, mut done) = match extent(row) {
        TExpr::Int(count) => (TExpr::Int(count / vectors.width), Vec::new()),
        count => named(writer, TExpr::binary(BinOp::FloorDiv, count, width.clone()), span),
    };
    let [var, lane] = ["vector", "lane"].map(|base| writer.scalar(base, Some(DType::I64), span));
    let place = add(multiply(TExpr::Scalar(var), width.clone()), TExpr::Scalar(lane));
    writer.is_bound(row.var);
    let first = Stmt { kind: StmtKind::Let { var: row.var, value: place }, span };
    let body = [std::slice::from_ref(&first), unnamed(body)].concat();
    let lanes = vec![Loop { var: lane, start: TExpr::Int(0), stop: width }];
    let kind = StmtKind::For { loops: lanes, kind: LoopKind::Vectorized, body };
    let whole = Loop { var, start: TExpr::Int(0), stop: count.clone() };
    let loops: Vec<&Loop> = outer.iter().chain([&whole]).collect();
    let extents = outer.iter().map(extent).chain([count]).collect();
    let times = vectors.rest.as_ref().map(opposite);
    let body = vec![Stmt { kind, span }];
    done.extend(flattened(writer, (&loops, extents), times, body, span, limits));
    done
}
