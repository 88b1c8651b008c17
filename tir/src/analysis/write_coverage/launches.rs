//! Write coverage of launches: whether the threads of a launch store to every element of a buffer, so that later
//! launches find values there.
//!
//! Scheduled nests count their iterations: a number is taken from blocks and threads, and loop variables from the number by
//! quotients and remainders. So every combination of these comes up, and an index which is made of some of them, of loops and of
//! threads, each times the extents of those before it, takes every value. Where the host chooses one of two launches by a
//! factor of their extents, both together store to everything.

use crate::launches::{block_axis, reads, thread_axis};
use crate::mixed_radix::{Counted, Factors, Linear, is_ceiling, linear};
use relax_syntax::dim::Dim;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BinOp, BufferId, Loop, ScalarId, Stmt, StmtKind, TExpr, UnOp};
use std::collections::{BTreeMap, BTreeSet};

/// In which calls all elements are stored to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum When {
    Always,
    /// Where an integer is at least 1.
    Positive(String),
    /// Where it is at most 0.
    Otherwise(String),
}

impl When {
    /// Whether one of two holds in every call.
    pub(crate) fn completes(&self, other: &Self) -> bool {
        matches!((self, other),
            (Self::Positive(a), Self::Otherwise(b)) | (Self::Otherwise(a), Self::Positive(b)) if a == b)
    }
}

/// Names of values that read no memory.
pub(crate) type ScalarValues = BTreeMap<ScalarId, TExpr>;

/// Whether an extent is declared to be a multiple of a width.
type Divides<'d> = dyn Fn(i64, &TExpr) -> bool + 'd;

/// What is around a store.
#[derive(Clone)]
struct Path {
    values: ScalarValues,
    loops: Vec<(Loop, Level)>,
    conditions: Vec<TExpr>,
}

/// What a loop is bound to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Block,
    Thread,
    Own,
}

/// In which calls a statement stores to every element of a buffer, as far as can be told.
pub(crate) fn stores_all(
    program: &TensorProgram,
    values: &ScalarValues,
    stmt: &Stmt,
    buffer: BufferId,
) -> Option<When> {
    let path = Path { values: values.clone(), loops: Vec::new(), conditions: Vec::new() };
    let mut found = BTreeSet::new();
    path.search(program, std::slice::from_ref(stmt), buffer, &mut found);
    found.into_iter().next()
}

/// What holds in every call in which a launch has blocks.
pub(crate) fn blocks_where(values: &ScalarValues, stmt: &Stmt) -> Vec<When> {
    let StmtKind::For { loops, kind, .. } = &stmt.kind else { return Vec::new() };
    if block_axis(kind).is_none() {
        return Vec::new();
    }
    let counts = loops.iter().filter_map(|item| counted(&item.stop));
    let factors = counts.filter_map(|count| Factors::of(values.get(&count)?, values));
    factors.filter_map(|factors| factors.only_open()).map(|factor| when(&factor)).collect()
}

/// The number that is at least 1 where an expression is.
fn counted(expr: &TExpr) -> Option<ScalarId> {
    match expr {
        TExpr::Scalar(var) => Some(*var),
        TExpr::Binary(BinOp::Min, both) => match &both.1 {
            TExpr::Int(1..) => counted(&both.0),
            _ => None,
        },
        TExpr::Unary(UnOp::Negate, inner) => match &**inner {
            TExpr::Binary(BinOp::FloorDiv, both) => match (&both.0, &both.1) {
                (TExpr::Unary(UnOp::Negate, inner), TExpr::Int(1..)) => counted(inner),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

impl Path {
    fn search(
        mut self,
        program: &TensorProgram,
        body: &[Stmt],
        buffer: BufferId,
        found: &mut BTreeSet<When>,
    ) {
        for stmt in body {
            match &stmt.kind {
                StmtKind::Let { var, value } if !reads(value) => {
                    self.values.insert(*var, value.clone());
                }
                StmtKind::For { loops, kind, body } => {
                    let level = match (block_axis(kind), thread_axis(kind)) {
                        (Some(_), _) => Level::Block,
                        (_, Some(_)) => Level::Thread,
                        _ => Level::Own,
                    };
                    let mut inner = self.clone();
                    inner.loops.extend(loops.iter().map(|item| (item.clone(), level)));
                    inner.search(program, body, buffer, found);
                }
                StmtKind::If { condition, then, .. } => {
                    let mut inner = self.clone();
                    conjuncts(condition, &mut inner.conditions);
                    inner.search(program, then, buffer, found);
                }
                StmtKind::Block { axes, body, .. } if axes.is_empty() => {
                    self.clone().search(program, body, buffer, found);
                }
                StmtKind::Store { buffer: to, indices, .. } if *to == buffer => {
                    found.extend(self.judge(program, buffer, indices));
                }
                _ => {}
            }
        }
    }

    fn judge(&self, program: &TensorProgram, buffer: BufferId, indices: &[TExpr]) -> Option<When> {
        let number = self.number();
        let shape = &program.buffer(buffer).shape;
        let extents = shape.iter().map(plain).collect::<Option<Vec<TExpr>>>()?;
        let axes = indices.iter().map(|index| linear(index, &self.values, number));
        let axes = axes.collect::<Option<Vec<Linear>>>()?;
        let mut count = None;
        let mut resting = BTreeSet::new();
        for condition in &self.conditions {
            let TExpr::Binary(op, both) = condition else { return None };
            match (op, &both.0, &both.1) {
                (BinOp::Less, TExpr::Scalar(at), stop) if Some(*at) == number => {
                    count = Some(stop.clone());
                }
                (BinOp::Less, index, stop) => {
                    let index = linear(index, &self.values, number)?;
                    let at = axes.iter().position(|axis| *axis == index)?;
                    (extents[at] == *stop).then_some(())?;
                }
                (BinOp::Equal, TExpr::Scalar(var), TExpr::Int(0)) => _ = resting.insert(*var),
                _ => return None,
            }
        }
        let mut extent_of = self.own_extents(&axes, &resting)?;
        extent_of.extend(self.divided_extents(&axes, (number, &resting))?);
        let counted = Counted::of(&axes, number)?;
        match (number, count) {
            (None, None) if counted.is_empty() && self.blocks().next().is_none() => {}
            (Some(at), count) => {
                let all = self.all_numbers(at, count.as_ref(), &resting)?;
                extent_of.extend(counted.extents(&all, &self.values)?);
            }
            _ => return None,
        }
        let divides = |width: i64, extent: &TExpr| {
            let mut declared = program.dims.iter();
            let of = declared.find(|dim| *extent == TExpr::Dim(dim.name.clone()));
            of.and_then(|dim| dim.multiple_of).is_some_and(|of| of % width == 0)
        };
        self.all_indices(&axes, &extents, (&extent_of, &divides))
    }

    /// The scalar that numbers the blocks, or the threads of all blocks.
    fn number(&self) -> Option<ScalarId> {
        let is_of_blocks = |value: &TExpr| {
            let Some(terms) = linear(value, &ScalarValues::new(), None) else { return false };
            terms.scalars().any(|var| self.level(var) == Some(Level::Block))
        };
        self.values.iter().find(|(_, value)| is_of_blocks(value)).map(|(var, _)| *var)
    }

    fn level(&self, var: ScalarId) -> Option<Level> {
        self.loops.iter().find(|(item, _)| item.var == var).map(|(_, level)| *level)
    }

    fn stop(&self, var: ScalarId) -> Option<&TExpr> {
        let (item, _) = self.loops.iter().find(|(item, _)| item.var == var)?;
        (item.start == TExpr::Int(0)).then_some(&item.stop)
    }

    /// The extents of the loops that indices are made of. All others have an iteration, and where only the first thread
    /// stores, no index needs another one.
    fn own_extents(
        &self,
        axes: &[Linear],
        resting: &BTreeSet<ScalarId>,
    ) -> Option<BTreeMap<String, Factors>> {
        let used: BTreeSet<ScalarId> = axes.iter().flat_map(Linear::scalars).collect();
        used.is_disjoint(resting).then_some(())?;
        let mut found = BTreeMap::new();
        for (item, level) in &self.loops {
            if used.contains(&item.var) {
                let stop = self.stop(item.var)?;
                (*level != Level::Block).then_some(())?;
                let name = Linear::name(&TExpr::Scalar(item.var));
                found.insert(name, Factors::of(stop, &self.values)?);
            } else if *level != Level::Block {
                matches!(self.stop(item.var), Some(TExpr::Int(1..))).then_some(())?;
            }
        }
        // What rests is a thread.
        resting.iter().all(|var| self.level(*var) == Some(Level::Thread)).then_some(found)
    }

    /// The extents of quotients and remainders of loop variables: where a literal divides the number of iterations, every one of
    /// the former comes up with every one of the latter.
    fn divided_extents(
        &self,
        axes: &[Linear],
        (number, resting): (Option<ScalarId>, &BTreeSet<ScalarId>),
    ) -> Option<BTreeMap<String, Factors>> {
        let whole: BTreeSet<ScalarId> = axes.iter().flat_map(Linear::scalars).collect();
        let (mut found, mut divisors) = (BTreeMap::new(), BTreeMap::new());
        for part in axes.iter().flat_map(Linear::divided) {
            if Some(part.var) == number {
                continue;
            }
            let Some(&TExpr::Int(stop @ 1..)) = self.stop(part.var) else { return None };
            let fits = stop % part.divisor == 0
                && self.level(part.var) != Some(Level::Block)
                && *divisors.entry(part.var).or_insert(part.divisor) == part.divisor
                && !whole.contains(&part.var)
                && !resting.contains(&part.var);
            fits.then_some(())?;
            let extent = if part.is_quotient { stop / part.divisor } else { part.divisor };
            found.insert(part.name, Factors::of(&TExpr::Int(extent), &self.values)?);
        }
        Some(found)
    }

    fn blocks(&self) -> impl Iterator<Item = ScalarId> + '_ {
        let of_blocks = self.loops.iter().filter(|(_, level)| *level == Level::Block);
        of_blocks.map(|(item, _)| item.var)
    }

    /// How many numbers come up, from 0 on: those below `count`, or all that blocks and threads make.
    fn all_numbers(
        &self,
        at: ScalarId,
        count: Option<&TExpr>,
        resting: &BTreeSet<ScalarId>,
    ) -> Option<Factors> {
        let mut terms = linear(self.values.get(&at)?, &ScalarValues::new(), None)?.sorted()?;
        let used: BTreeSet<ScalarId> = terms.iter().map(|(_, var)| *var).collect();
        let fits = self.blocks().all(|var| used.contains(&var)) && used.is_disjoint(resting);
        fits.then_some(())?;
        let mut threads = 1;
        if let Some((1, var)) = terms.first().copied()
            && self.level(var) == Some(Level::Thread)
        {
            let Some(TExpr::Int(stop @ 1..)) = self.stop(var) else { return None };
            threads = *stop;
            terms.remove(0);
        }
        let stop = |var: ScalarId| self.stop(var).filter(|_| self.level(var) == Some(Level::Block));
        let Some(count) = count else {
            let [(step, var)] = *terms else { return None };
            (step == threads).then_some(())?;
            return Factors::of(stop(var)?, &self.values)?.times(threads);
        };
        let is_all = match *terms {
            [(step, x)] => step == threads && is_ceiling(stop(x)?, count, threads),
            [(step, x), (wide, y)] => {
                let most = wide.checked_div(threads)?;
                step == threads
                    && most.checked_mul(threads) == Some(wide)
                    && is_ceiling(stop(y)?, count, wide)
                    && is_at_most(stop(x)?, count, (threads, most))
            }
            _ => false,
        };
        is_all.then_some(())?;
        Factors::of(count, &self.values)
    }

    /// Whether the index of each axis takes every value below its extent, and each part of an index is in one alone.
    fn all_indices(
        &self,
        axes: &[Linear],
        extents: &[TExpr],
        (extent_of, divides): (&BTreeMap<String, Factors>, &Divides<'_>),
    ) -> Option<When> {
        let mut seen = BTreeSet::new();
        let mut chosen = When::Always;
        for (axis, extent) in axes.iter().zip(extents) {
            let terms = axis.by_weight()?;
            terms.iter().all(|(_, name)| seen.insert(name.clone())).then_some(())?;
            let Some(((step, last), before)) = terms.split_last() else {
                (*extent == TExpr::Int(1)).then_some(())?;
                continue;
            };
            let mut next = 1_i64;
            for (weight, name) in before {
                (*weight == next).then_some(())?;
                next = next.checked_mul(extent_of.get(name)?.literal()?)?;
            }
            (*step == next).then_some(())?;
            let divides = divides(next, extent);
            let Some(factor) =
                extent_of.get(last)?.reaches(extent, (next, divides), &self.values)?
            else {
                continue;
            };
            let when = when(&factor);
            (chosen == When::Always || chosen == when).then_some(())?;
            chosen = when;
        }
        Some(chosen)
    }
}

/// Where a factor of an extent is at least 1.
fn when(factor: &TExpr) -> When {
    match factor {
        TExpr::Binary(BinOp::Sub, both) if both.0 == TExpr::Int(1) => {
            When::Otherwise(Linear::name(&both.1))
        }
        _ => When::Positive(Linear::name(factor)),
    }
}

/// Whether an extent is the least of the blocks for `count` and the most that there are: 0 only where there is nothing to count.
fn is_at_most(stop: &TExpr, count: &TExpr, (threads, most): (i64, i64)) -> bool {
    match stop {
        TExpr::Binary(BinOp::Min, both) => {
            both.1 == TExpr::Int(most) && is_ceiling(&both.0, count, threads)
        }
        TExpr::Int(stop) => *stop >= most || is_ceiling(&TExpr::Int(*stop), count, threads),
        _ => false,
    }
}

fn conjuncts(condition: &TExpr, found: &mut Vec<TExpr>) {
    match condition {
        TExpr::Binary(BinOp::And, both) => {
            conjuncts(&both.0, found);
            conjuncts(&both.1, found);
        }
        _ => found.push(condition.clone()),
    }
}

fn plain(dim: &Dim) -> Option<TExpr> {
    match dim {
        Dim::Int(value) => Some(TExpr::Int(*value)),
        Dim::Var(name) => Some(TExpr::Dim(name.clone())),
        Dim::Op(..) => None,
    }
}

#[cfg(test)]
mod tests;
