//! Which allocated buffers might be read where nothing was written: kernels watch those element by element.
//!
//! A read is known to find a value after a statement that writes every element, after a store to the same
//! indices on the way to it, and in a block whose `init` stores to the same indices at the first iteration. At a barrier
//! threads know what all of them stored to the memory that they share, and after a launch what its threads stored.

use crate::covered::{Values, When, stores_all};
use relax_rewrite::kernels;
use relax_rewrite::launches::{is_thread_loop, thread_axis};
use relax_rewrite::patterns::{initializes, visit};
use relax_rewrite::products::flat;
use relax_syntax::dim::{Dim, floor_div, floor_mod};
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{
    Axis, BinOp, BufferId, Loop, ScalarId, Scope, Stmt, StmtKind, TExpr,
};
use std::collections::{BTreeMap, BTreeSet};

/// Elements of shared memory that are looked at one by one.
const COUNTED: i64 = 1 << 13;

/// The buffers of a program with a read that is not known to find a value.
#[must_use]
pub fn unproved(program: &TensorProgram) -> BTreeSet<BufferId> {
    walked(program, Known::default())
}

/// The same with the parameters among them, as if nothing had been written to those before.
#[must_use]
pub fn unproved_with_parameters(program: &TensorProgram) -> BTreeSet<BufferId> {
    let params = program.buffer_params();
    let allocated: BTreeSet<BufferId> = params.collect();
    walked(program, Known { straight: allocated.clone(), allocated, ..Known::default() })
}

fn walked(program: &TensorProgram, known: Known) -> BTreeSet<BufferId> {
    let mut walk = Walk { program, known, unproved: BTreeSet::new() };
    walk.body(program.body.as_deref().unwrap_or(&[]));
    walk.unproved
}

/// What is known where the walk is.
#[derive(Clone, Debug, Default)]
struct Known {
    allocated: BTreeSet<BufferId>,
    /// Every element of these is written.
    whole: BTreeSet<BufferId>,
    /// These elements are.
    elements: Vec<(BufferId, Vec<TExpr>)>,
    /// Buffers whose allocation is separated from here by loops with fixed bounds only.
    straight: BTreeSet<BufferId>,
    /// Loops around.
    depth: usize,
    /// Elements of shared memory that threads wrote before they met.
    met: BTreeMap<BufferId, BTreeSet<Vec<i64>>>,
    /// Variables of loops over threads that are around, and of loops before that came to each of their stores, with their numbers.
    threads: BTreeMap<ScalarId, i64>,
    /// What names stand for.
    values: Values,
    /// Buffers of which launches wrote every element in some calls.
    chosen: Vec<(BufferId, When)>,
}

struct Walk<'p> {
    program: &'p TensorProgram,
    known: Known,
    unproved: BTreeSet<BufferId>,
}

impl Walk<'_> {
    /// What a body makes known holds to its end only; in the outer body it may not have run. Gives what is whole at its end.
    fn body(&mut self, body: &[Stmt]) -> BTreeSet<BufferId> {
        let outer = self.known.clone();
        for stmt in body {
            self.stmt(stmt);
            let whole: Vec<BufferId> = self.known.allocated.iter().copied().collect();
            for buffer in whole {
                if initializes(self.program, stmt, buffer) || covers(self.program, stmt, buffer) {
                    self.known.whole.insert(buffer);
                }
            }
            if is_thread_loop(stmt) && self.known.threads.is_empty() {
                self.launched(stmt);
            }
        }
        std::mem::replace(&mut self.known, outer).whole
    }

    /// What the threads of a launch stored is there for the next one.
    fn launched(&mut self, stmt: &Stmt) {
        let open = self.known.allocated.difference(&self.known.whole);
        let open: Vec<BufferId> = open.copied().collect();
        for buffer in open {
            let Some(when) = stores_all(self.program, &self.known.values, stmt, buffer) else {
                continue;
            };
            let completes =
                |(other, at): &(BufferId, When)| *other == buffer && at.completes(&when);
            if when == When::Always || self.known.chosen.iter().any(completes) {
                self.known.whole.insert(buffer);
            } else {
                self.known.chosen.push((buffer, when));
            }
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::For { loops, kind, body } => {
                let outer = (self.known.straight.clone(), self.known.depth);
                self.known.depth += loops.len();
                for item in loops {
                    self.read(&item.start);
                    self.read(&item.stop);
                    if !is_fixed(&item.start) || !is_fixed(&item.stop) {
                        self.known.straight.clear();
                    }
                }
                let counts: Option<Vec<i64>> = loops.iter().map(count).collect();
                let threads = self.known.threads.clone();
                if let ([item], Some([count])) = (loops.as_slice(), counts.as_deref())
                    && thread_axis(kind).is_some()
                {
                    self.known.threads.insert(item.var, *count);
                }
                let whole = self.body(body);
                if counts.as_ref().is_some_and(|counts| counts.iter().all(|count| *count > 0)) {
                    self.known.whole.extend(whole.intersection(&self.known.allocated));
                }
                self.known.threads = threads;
                if let Some(counts) = counts.filter(|_| !is_thread_loop(stmt)) {
                    self.ran(loops.iter().map(|item| item.var).zip(counts), body);
                }
                (self.known.straight, self.known.depth) = outer;
            }
            StmtKind::Block { axes, init, body, .. } => self.block(axes, init, body),
            StmtKind::Store { buffer, indices, update, value } => {
                indices.iter().for_each(|index| self.read(index));
                self.read(value);
                if update.is_some() {
                    self.load(*buffer, indices);
                }
                self.wrote(*buffer, indices);
            }
            StmtKind::Let { var, value } => {
                self.read(value);
                if !loads(value) {
                    self.known.values.insert(*var, value.clone());
                }
            }
            StmtKind::If { condition, then, otherwise } => {
                self.read(condition);
                let straight = std::mem::take(&mut self.known.straight);
                self.body(then);
                self.body(otherwise);
                self.known.straight = straight;
            }
            StmtKind::Alloc(buffer) => self.fresh(*buffer),
            StmtKind::Barrier => self.meet(),
            StmtKind::Check(check) => self.read(&check.condition),
        }
    }

    /// All threads have come here: what each stored on the way is there.
    fn meet(&mut self) {
        let shared = |id: &&BufferId| self.program.buffer(**id).scope == Scope::Shared;
        let shared: Vec<BufferId> = self.known.allocated.iter().filter(shared).copied().collect();
        for buffer in shared {
            let Some((found, all)) = self.stored_by_all(buffer) else { continue };
            if i64::try_from(found.len()) == Ok(all) {
                self.known.whole.insert(buffer);
            }
            self.known.met.entry(buffer).or_default().extend(found);
        }
    }

    /// The elements of shared memory to which the stores of all threads come, and how many it has.
    fn stored_by_all(&self, buffer: BufferId) -> Option<(BTreeSet<Vec<i64>>, i64)> {
        let extents = self.program.buffer(buffer).shape.iter();
        let extents =
            extents.map(|dim| if let Dim::Int(extent) = dim { Some(*extent) } else { None });
        let extents = extents.collect::<Option<Vec<i64>>>()?;
        let all = extents.iter().try_fold(1_i64, |all, extent| all.checked_mul(*extent));
        let all = all.filter(|all| *all <= COUNTED)?;
        let mut found = BTreeSet::new();
        for (_, indices) in self.known.elements.iter().filter(|(other, _)| *other == buffer) {
            self.each_thread(indices, &mut |values| {
                let inside =
                    values.iter().zip(&extents).all(|(at, extent)| (0..*extent).contains(at));
                found.extend(inside.then(|| values.to_vec()));
            });
        }
        Some((found, all))
    }

    /// Whether each thread reads what some thread wrote before they met.
    fn is_met(&self, buffer: BufferId, indices: &[TExpr]) -> bool {
        let Some(met) = self.known.met.get(&buffer) else { return false };
        let mut all_met = true;
        self.each_thread(indices, &mut |values| all_met &= met.contains(values)) && all_met
    }

    /// The values of indices for each thread; false where something else decides them.
    fn each_thread(&self, indices: &[TExpr], seen: &mut dyn FnMut(&[i64])) -> bool {
        let is_used = |var: &ScalarId| indices.iter().any(|at| mentions(at, &TExpr::Scalar(*var)));
        let used: Vec<(ScalarId, i64)> = self
            .known
            .threads
            .iter()
            .map(|(var, count)| (*var, *count))
            .filter(|(var, _)| is_used(var))
            .collect();
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

    fn fresh(&mut self, buffer: BufferId) {
        self.known.allocated.insert(buffer);
        // In a loop that the block reduces along, it would be another buffer in each iteration.
        if self.known.depth == 0 {
            self.known.straight.insert(buffer);
        }
        self.known.whole.remove(&buffer);
        self.known.met.remove(&buffer);
        self.known.elements.retain(|(other, _)| *other != buffer);
        self.known.chosen.retain(|(other, _)| *other != buffer);
    }

    fn wrote(&mut self, buffer: BufferId, indices: &[TExpr]) {
        if indices.iter().all(|index| !loads(index)) {
            self.known.elements.push((buffer, indices.to_vec()));
        }
    }

    /// A loop ran for all values of its variables: what each iteration stored to shared memory is there.
    fn ran(&mut self, all: impl Iterator<Item = (ScalarId, i64)>, body: &[Stmt]) {
        let known = self.known.elements.len();
        for stmt in body {
            if let StmtKind::Store { buffer, indices, .. } = &stmt.kind
                && self.program.buffer(*buffer).scope == Scope::Shared
            {
                self.wrote(*buffer, indices);
            }
        }
        if self.known.elements.len() > known {
            self.known.threads.extend(all);
        }
    }

    /// With implicit axes, `init` runs at the first iteration for each element: the loops between the
    /// allocation and the block are the same for all of them.
    fn block(&mut self, axes: &[Axis], init: &[Stmt], body: &[Stmt]) {
        for axis in axes {
            self.read(&axis.extent);
            self.read(&axis.value);
        }
        let outer = self.known.clone();
        self.body(init);
        if axes.is_empty() {
            for stmt in init {
                if let StmtKind::Store { buffer, indices, .. } = &stmt.kind
                    && self.known.straight.contains(buffer)
                {
                    self.wrote(*buffer, indices);
                }
            }
        }
        self.body(body);
        self.known = outer;
        // A block is no loop: its plain stores have run when it ends.
        for stmt in body {
            if let StmtKind::Store { buffer, indices, .. } = &stmt.kind {
                let own_axes = axes.iter().any(|axis| {
                    indices.iter().any(|index| mentions(index, &TExpr::Scalar(axis.var)))
                });
                if !own_axes {
                    self.wrote(*buffer, indices);
                }
            }
        }
    }

    fn read(&mut self, expr: &TExpr) {
        visit(expr, &mut |part| {
            if let TExpr::Load { buffer, indices } = part {
                self.load(*buffer, indices);
            }
        });
    }

    fn load(&mut self, buffer: BufferId, indices: &[TExpr]) {
        let known = &self.known;
        let found = !known.allocated.contains(&buffer)
            || known.whole.contains(&buffer)
            || known.elements.iter().any(|(other, at)| *other == buffer && at == indices)
            || self.is_met(buffer, indices);
        if !found {
            self.unproved.insert(buffer);
        }
    }
}

/// Whether a nest stores to every element of a buffer: its loops are those over the extents, and each
/// iteration comes to such a store.
fn covers(program: &TensorProgram, stmt: &Stmt, buffer: BufferId) -> bool {
    let (loops, body) = flat(std::slice::from_ref(stmt));
    let shape = &program.buffer(buffer).shape;
    let whole = |index: &TExpr, extent: &Dim| {
        loops.iter().any(|item| {
            *index == TExpr::Scalar(item.var)
                && item.start == TExpr::Int(0)
                && item.stop == kernels::extent(extent)
        })
    };
    loops.len() == shape.len()
        && body.iter().any(|stmt| match &stmt.kind {
            StmtKind::Store { buffer: to, indices, .. } => {
                let places: BTreeSet<_> = indices
                    .iter()
                    .filter_map(
                        |index| if let TExpr::Scalar(var) = index { Some(*var) } else { None },
                    )
                    .collect();
                *to == buffer
                    && places.len() == shape.len()
                    && indices.iter().zip(shape).all(|(index, extent)| whole(index, extent))
            }
            _ => false,
        })
}

/// How often a loop runs, where the text has it.
fn count(item: &Loop) -> Option<i64> {
    match (&item.start, &item.stop) {
        (TExpr::Int(start), TExpr::Int(stop)) => stop.checked_sub(*start).filter(|_| *start == 0),
        _ => None,
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

/// Whether a bound is the same in every iteration of all loops.
fn is_fixed(bound: &TExpr) -> bool {
    let mut fixed = true;
    visit(bound, &mut |part| fixed &= !matches!(part, TExpr::Scalar(_) | TExpr::Load { .. }));
    fixed
}

pub(crate) fn loads(expr: &TExpr) -> bool {
    let mut found = false;
    visit(expr, &mut |part| found |= matches!(part, TExpr::Load { .. }));
    found
}

fn mentions(expr: &TExpr, scalar: &TExpr) -> bool {
    let mut found = false;
    visit(expr, &mut |part| found |= part == scalar);
    found
}

#[cfg(test)]
mod tests {
    use super::unproved;
    use relax_corpus::pipeline::Program;
    use relax_syntax::ir::Definition;
    use relax_syntax::span::Source;

    /// Names of the buffers that are watched in a block of four threads.
    fn watched(body: &str) -> Vec<String> {
        let lines: String = body.lines().map(|line| format!("            {line}\n")).collect();
        let text = format!(
            "@tensorir_function\n\
             def f(X: Buffer((8,), \"f32\"), Y: Buffer((8,), \"f32\")):\n    \
                 for b in thread_binding(1, \"blockIdx.x\"):\n        \
                     S = alloc_buffer((8,), \"f32\", \"shared\")\n        \
                     for t in thread_binding(4, \"threadIdx.x\"):\n{lines}"
        );
        let module = Program::load(Source::new("shared", text)).module;
        let program = module.definitions.iter().find_map(|definition| match definition {
            Definition::Tensor(program) => Some(program),
            Definition::Graph(_) => None,
        });
        let program = program.expect("the text has one");
        assert!(program.body.is_some());
        let found = unproved(program);
        found.into_iter().map(|id| program.buffer(id).name.to_string()).collect()
    }

    #[test]
    fn what_all_threads_stored_is_there_at_a_barrier() {
        let both = "S[t] = X[t]\nS[t + 4] = X[t + 4]\n";
        assert_eq!(watched(&format!("{both}barrier()\nY[t] = S[7 - t]\n")), [""; 0]);
        assert_eq!(watched(&format!("{both}Y[t] = S[7 - t]\n")), ["S"]);
        let after = "barrier()\nS[t] = X[t]\nS[t + 4] = X[t + 4]\nY[t] = S[7 - t]\n";
        assert_eq!(watched(after), ["S"]);
        assert_eq!(watched("S[t] = X[t]\nbarrier()\nY[t] = S[7 - t]\n"), ["S"]);
        assert_eq!(watched("S[t] = X[t]\nS[t + 3] = X[t]\nbarrier()\nY[t] = S[7 - t]\n"), ["S"]);
    }

    #[test]
    fn what_threads_read_of_a_part_that_all_stored_is_there() {
        assert_eq!(watched("S[t] = X[t]\nbarrier()\nY[t] = S[3 - t]\n"), [""; 0]);
        assert_eq!(watched("S[t] = X[t]\nbarrier()\nY[t] = S[t + 1]\n"), ["S"]);
        assert_eq!(watched("S[t] = X[t]\nY[t] = S[3 - t]\n"), ["S"]);
    }

    #[test]
    fn what_only_some_iterations_store_is_not() {
        let some =
            "for i in grid(4):\n    S[t * 2] = X[t]\n    S[t * 2 + 1] = X[t]\n    barrier()\n";
        assert_eq!(watched(&format!("{some}Y[t] = S[7 - t]\n")), [""; 0]);
        let none = some.replace("grid(4)", "range(t)");
        assert_eq!(watched(&format!("{none}Y[t] = S[7 - t]\n")), ["S"]);
        let behind = "if t < 2:\n    S[t] = X[t]\n    S[t + 4] = X[t]\nbarrier()\nY[t] = S[t]\n";
        assert_eq!(watched(behind), ["S"]);
    }
}
