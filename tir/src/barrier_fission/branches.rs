//! Barrier fission of branches. Where the condition is uniform, all threads go one way. Else the threads say
//! first where they go: all one way, or the barrier is divergent, and each runs up to where it would wait or
//! end, as one of them may stop before.

use super::{Fission, Region, Threads, waits};
use crate::analysis::divergence::is_uniform;
use crate::live_across_barriers::LiveScalars;
use relax_semantics::tir::walk::visit_statements;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, Check, Stmt, StmtKind, TExpr};
use relax_syntax::span::Span;

/// `if` around a barrier.
pub(super) struct Branch<'b> {
    pub(super) condition: &'b TExpr,
    pub(super) then: &'b [Stmt],
    pub(super) otherwise: &'b [Stmt],
    pub(super) span: Span,
}

impl Fission<'_> {
    pub(super) fn branch(
        &mut self,
        region: &mut Region<'_>,
        branch: &Branch<'_>,
        rest: Option<&[Stmt]>,
    ) -> Result<(), String> {
        let threads = region.threads;
        if is_uniform(branch.condition, &threads.vars(), &region.carried) {
            region.close();
            let kind = self.both(threads, &region.carried, branch, branch.condition.clone())?;
            region.done.push(Stmt { kind, span: branch.span });
            return Ok(());
        }
        let apart =
            rest.and_then(|rest| Some((path(branch.then, rest)?, path(branch.otherwise, rest)?)));
        let Some(((then, here), (otherwise, there))) = apart else {
            let why = "its threads wait at a barrier in a branch that only some may take";
            return Err(why.to_owned());
        };
        let at = |kind: StmtKind| Stmt { kind, span: branch.span };
        let flag = self.fresh(region, "taken".into(), threads.extents(), DType::Bool);
        let counts = self.fresh(region, "ways".into(), vec![Dim::Int(2)], DType::I64);
        let count = |way: i64| TExpr::Load { buffer: counts, indices: vec![TExpr::Int(way)] };
        let store = |way: i64, update: Option<BinOp>, value: i64| {
            let (indices, value) = (vec![TExpr::Int(way)], TExpr::Int(value));
            at(StmtKind::Store { buffer: counts, indices, update, value })
        };
        region.done.extend([store(0, None, 0), store(1, None, 0)]);
        let (indices, value) = (threads.own(), branch.condition.clone());
        region.phase.push(at(StmtKind::Store { buffer: flag, indices, update: None, value }));
        let taken = || TExpr::Load { buffer: flag, indices: threads.own() };
        region.phase.push(at(StmtKind::If {
            condition: taken(),
            then: vec![store(0, Some(BinOp::Add), 1)],
            otherwise: vec![store(1, Some(BinOp::Add), 1)],
        }));
        region.close();
        let split = at(StmtKind::If { condition: taken(), then, otherwise });
        let mut diverge = vec![threads.nest(region.carried.before(vec![split]))];
        // The trap is where the first thread waits of those that do.
        let first = TExpr::Load { buffer: flag, indices: vec![TExpr::Int(0); threads.own().len()] };
        diverge.push(match (here, there) {
            (Some(here), Some(there)) => at(StmtKind::If {
                condition: first,
                then: vec![diverges(here)],
                otherwise: vec![diverges(there)],
            }),
            (place, other) => diverges(place.or(other).unwrap_or(branch.span)),
        });
        let none = |way| TExpr::Binary(BinOp::Equal, Box::new((count(way), TExpr::Int(0))));
        let alike = self.both(threads, &region.carried, branch, none(1))?;
        let unlike = TExpr::Binary(
            BinOp::And,
            Box::new((
                TExpr::Binary(BinOp::NotEqual, Box::new((count(0), TExpr::Int(0)))),
                TExpr::Binary(BinOp::NotEqual, Box::new((count(1), TExpr::Int(0)))),
            )),
        );
        let kind = StmtKind::If { condition: unlike, then: diverge, otherwise: vec![at(alike)] };
        region.done.push(at(kind));
        Ok(())
    }

    /// Both ways of a branch, of which all threads take the same.
    fn both(
        &mut self,
        threads: &Threads,
        known: &LiveScalars,
        branch: &Branch<'_>,
        condition: TExpr,
    ) -> Result<StmtKind, String> {
        let then = self.region(threads, known.clone(), branch.then, false)?;
        let otherwise = self.region(threads, known.clone(), branch.otherwise, false)?;
        Ok(StmtKind::If { condition, then, otherwise })
    }
}

/// The trap of threads that do not meet, at the barrier where one of them waits.
fn diverges(span: Span) -> Stmt {
    let check = Check {
        condition: TExpr::Bool(false),
        trap: "tir/divergent_barrier".into(),
        message: "a thread waits at a barrier that another does not reach".into(),
        values: Vec::new(),
    };
    Stmt { kind: StmtKind::Check(Box::new(check)), span }
}

/// What a thread runs that takes a branch, up to where it waits, which is told, or ends; `None` where that is within
/// something else. It stands there a second time, so that it has no memory of its own.
fn path(branch: &[Stmt], rest: &[Stmt]) -> Option<(Vec<Stmt>, Option<Span>)> {
    let all: Vec<Stmt> = branch.iter().chain(rest).cloned().collect();
    let end = all.iter().position(waits).unwrap_or(all.len());
    let waits_here = all.get(end).is_none_or(|stmt| stmt.kind == StmtKind::Barrier);
    let mut allocates = false;
    visit_statements(&all[..end], &mut |stmt| {
        allocates |= matches!(stmt.kind, StmtKind::Alloc(_));
    });
    let place = all.get(end).map(|barrier| barrier.span);
    (waits_here && !allocates).then(|| (all[..end].to_vec(), place))
}
