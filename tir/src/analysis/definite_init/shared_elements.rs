//! Definite initialization of shared memory at barriers: the elements that the threads of a block stored are
//! enumerated one by one, up to a limit.

use super::{InitAnalysis, count, mentions};
use crate::launches::{reads, thread_axis};
use relax_semantics::tir::walk::{Place, Rewrite, expr, visit};
use relax_syntax::dim::{Dim, floor_div, floor_mod};
use relax_syntax::ir::tensor::{BinOp, BufferId, ScalarId, Scope, Stmt, StmtKind, TExpr};
use std::collections::{BTreeMap, BTreeSet};

/// Elements of a buffer that are looked at one by one.
const COUNTED: i64 = 1 << 13;

impl InitAnalysis<'_> {
    /// All threads have come here: what each stored on the way is there.
    pub(super) fn meet(&mut self) {
        let shared = |id: &&BufferId| self.program.buffer(**id).scope == Scope::Shared;
        let shared: Vec<BufferId> = self.known.allocated.iter().filter(shared).copied().collect();
        for buffer in shared {
            let Some((mut found, all)) = self.stored(buffer, |_| true) else { continue };
            found.extend(self.known.either.get(&buffer).into_iter().flatten().cloned());
            if i64::try_from(found.len()) == Ok(all) {
                self.known.whole.insert(buffer);
            }
            self.known.met.entry(buffer).or_default().extend(found);
        }
    }

    /// Whether each element was stored to on its own, by whoever is here.
    pub(super) fn is_listed(&self, buffer: BufferId) -> bool {
        let is_literal = |indices: &[TExpr]| indices.iter().all(|at| matches!(at, TExpr::Int(_)));
        let stored = self.stored(buffer, is_literal);
        stored.is_some_and(|(found, all)| i64::try_from(found.len()) == Ok(all))
    }

    /// The elements of a small buffer to which the known stores of all threads come, of those that count, and how many it has.
    fn stored(
        &self,
        buffer: BufferId,
        counts: impl Fn(&[TExpr]) -> bool,
    ) -> Option<(BTreeSet<Vec<i64>>, i64)> {
        let extents = self.program.buffer(buffer).shape.iter();
        let extents =
            extents.map(|dim| if let Dim::Int(extent) = dim { Some(*extent) } else { None });
        let extents = extents.collect::<Option<Vec<i64>>>()?;
        let all = extents.iter().try_fold(1_i64, |all, extent| all.checked_mul(*extent));
        let all = all.filter(|all| *all <= COUNTED)?;
        let mut found = BTreeSet::new();
        let all_wrote = self.known.elements.iter().chain(&self.known.by_first);
        let own = all_wrote.filter(|(other, _)| *other == buffer);
        for (_, indices) in own.filter(|(_, indices)| counts(indices)) {
            self.each_thread(indices, &mut |values| {
                let inside =
                    values.iter().zip(&extents).all(|(at, extent)| (0..*extent).contains(at));
                found.extend(inside.then(|| values.to_vec()));
            });
        }
        Some((found, all))
    }

    /// Whether each thread reads what some thread wrote before they met, in all iterations of the loops around.
    pub(super) fn is_met(&self, buffer: BufferId, indices: &[TExpr]) -> bool {
        let Some(met) = self.known.met.get(&buffer) else { return false };
        let around = self.known.loops.iter().filter_map(|(var, stop)| match stop {
            TExpr::Int(count) => Some((*var, *count)),
            _ => None,
        });
        let around: Vec<(ScalarId, i64)> =
            around.filter(|(var, _)| !self.known.threads.contains_key(var)).collect();
        let mut all_met = true;
        let mut seen = |values: &[i64]| all_met &= met.contains(values);
        self.each_value(indices, &around, &mut seen) && all_met
    }

    /// The values of indices for each thread; false where something else decides them.
    fn each_thread(&self, indices: &[TExpr], seen: &mut dyn FnMut(&[i64])) -> bool {
        self.each_value(indices, &[], seen)
    }

    /// The same for each value of further variables.
    fn each_value(
        &self,
        indices: &[TExpr],
        more: &[(ScalarId, i64)],
        seen: &mut dyn FnMut(&[i64]),
    ) -> bool {
        let is_used = |var: &ScalarId| indices.iter().any(|at| mentions(at, &TExpr::Scalar(*var)));
        let threads = self.known.threads.iter().map(|(var, count)| (*var, *count));
        let used: Vec<(ScalarId, i64)> =
            threads.chain(more.iter().copied()).filter(|(var, _)| is_used(var)).collect();
        let all = used.iter().try_fold(1_i64, |all, (_, count)| all.checked_mul(*count));
        let Some(all) = all.filter(|all| *all <= COUNTED) else { return false };
        for mut number in 0..all {
            let mut values = BTreeMap::new();
            for (var, count) in &used {
                values.insert(*var, number % count);
                number /= count;
            }
            let found: Option<Vec<i64>> = indices.iter().map(|at| value(at, &values)).collect();
            let Some(found) = found else { return false };
            seen(&found);
        }
        true
    }

    /// Where a condition leaves only the first threads along an axis, what they stored is there once all have met.
    pub(super) fn first_wrote(&mut self, condition: &TExpr, body: &[Stmt]) {
        let TExpr::Binary(BinOp::Equal, both) = condition else { return };
        let (TExpr::Scalar(var), TExpr::Int(0)) = (&both.0, &both.1) else { return };
        if self.known.threads.get(var).is_none_or(|count| *count <= 0) {
            return;
        }
        let mut first = First(*var);
        for stmt in body {
            if let StmtKind::Store { buffer, indices, .. } = &stmt.kind
                && indices.iter().all(|index| !reads(index))
            {
                let indices = indices.iter().map(|index| expr(index, &mut first, Place::Index));
                self.known.by_first.push((*buffer, indices.collect()));
            }
        }
    }

    /// A loop ran for all values of its variables: what each iteration stored to shared memory is there.
    pub(super) fn ran(&mut self, all: impl Iterator<Item = (ScalarId, i64)>, body: &[Stmt]) {
        let known = self.known.elements.len();
        let mut vars: Vec<(ScalarId, i64)> = all.collect();
        if vars.iter().any(|(_, count)| *count <= 0) {
            return;
        }
        self.stored_by_all(body, &mut vars);
        if self.known.elements.len() > known {
            self.known.threads.extend(vars);
        }
    }

    /// Notes what statements store that each iteration comes to, and the loops that they stand in.
    fn stored_by_all(&mut self, body: &[Stmt], vars: &mut Vec<(ScalarId, i64)>) {
        for stmt in body {
            match &stmt.kind {
                StmtKind::Store { buffer, indices, .. }
                    if self.program.buffer(*buffer).scope == Scope::Shared =>
                {
                    self.wrote(*buffer, indices);
                }
                StmtKind::For { loops, kind, body } if thread_axis(kind).is_none() => {
                    let counts: Option<Vec<i64>> = loops.iter().map(count).collect();
                    let Some(counts) = counts else { continue };
                    if counts.iter().all(|count| *count > 0) {
                        vars.extend(loops.iter().map(|item| item.var).zip(counts));
                        self.stored_by_all(body, vars);
                    }
                }
                StmtKind::If { condition, then, otherwise } => {
                    self.either_wrote(condition, [then, otherwise], vars);
                }
                _ => {}
            }
        }
    }

    /// What both branches store of shared memory, for all values of some variables, is there once all have met, where all threads take
    /// the same one.
    pub(super) fn either_wrote(
        &mut self,
        condition: &TExpr,
        branches: [&[Stmt]; 2],
        vars: &[(ScalarId, i64)],
    ) {
        let mut is_alike = true;
        visit(condition, &mut |part| {
            is_alike &= !matches!(part, TExpr::Load { .. } | TExpr::Scalar(_));
        });
        if !is_alike || branches.iter().any(|body| body.is_empty()) {
            return;
        }
        let [a, b] = branches.map(|body| self.elements_of(body, vars));
        for (buffer, found) in a {
            let Some(other) = b.get(&buffer) else { continue };
            let both = found.intersection(other).cloned();
            self.known.either.entry(buffer).or_default().extend(both);
        }
    }

    /// The elements of shared memory that all threads together store in statements.
    fn elements_of(
        &mut self,
        body: &[Stmt],
        vars: &[(ScalarId, i64)],
    ) -> BTreeMap<BufferId, BTreeSet<Vec<i64>>> {
        let outer = self.known.clone();
        self.known.elements.clear();
        self.known.by_first.clear();
        self.known.either.clear();
        self.known.threads.extend(vars.iter().copied());
        self.ran(std::iter::empty(), body);
        let buffers: BTreeSet<BufferId> =
            self.known.elements.iter().map(|(buffer, _)| *buffer).collect();
        let found = buffers
            .into_iter()
            .filter_map(|buffer| Some((buffer, self.stored(buffer, |_| true)?.0)))
            .collect();
        self.known = outer;
        found
    }
}

/// The first thread in the place of each.
struct First(ScalarId);

impl Rewrite for First {
    fn replace(&mut self, part: &TExpr, _place: Place) -> Option<TExpr> {
        (*part == TExpr::Scalar(self.0)).then_some(TExpr::Int(0))
    }
}

/// The value of an index that is made of literals and variables of threads, or of loops that run for all values.
fn value(index: &TExpr, threads: &BTreeMap<ScalarId, i64>) -> Option<i64> {
    match index {
        TExpr::Int(value) => Some(*value),
        TExpr::Scalar(var) => threads.get(var).copied(),
        TExpr::Binary(op, both) => {
            let (a, b) = (value(&both.0, threads)?, value(&both.1, threads)?);
            match op {
                BinOp::Add => a.checked_add(b),
                BinOp::Sub => a.checked_sub(b),
                BinOp::Mul => a.checked_mul(b),
                BinOp::FloorDiv => floor_div(a, b),
                BinOp::Mod => floor_mod(a, b),
                _ => None,
            }
        }
        _ => None,
    }
}
