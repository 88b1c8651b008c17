//! Slices of programs: the same program with some loops restricted to one iteration, for the interpreter. Static extents make
//! many kernels too expensive to interpret; a slice computes some of the elements in a fraction of the steps.
//!
//! A loop may be restricted where its iterations are independent and each writes elements of its own: every store in its body is
//! indexed by the loop's variable at some place, and every load of a buffer stored there has the same variable at
//! that place. Elements of other iterations stay undefined, so that a later loop which reads one traps in the interpreter.

use super::arguments::Extents;
use super::cost::value;
use relax_semantics::tir::walk::{visit, visit_own, visit_statements};
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Loop, ScalarId, Stmt, StmtKind, TExpr};
use relax_tir::named_blocks::without_named_blocks;
use std::collections::BTreeMap;

/// Iterations to which loops are restricted, counted from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Iteration {
    /// From the start; the last one where there are fewer.
    FromStart(i64),
    /// From the end; the first one where there are fewer.
    FromEnd(i64),
}

/// Both ends, both sides of vectors and tiles, and some between.
pub(super) const ITERATIONS: [Iteration; 14] = [
    Iteration::FromStart(0),
    Iteration::FromEnd(0),
    Iteration::FromEnd(1),
    Iteration::FromStart(1),
    Iteration::FromStart(15),
    Iteration::FromStart(16),
    Iteration::FromEnd(7),
    Iteration::FromStart(37),
    Iteration::FromEnd(16),
    Iteration::FromStart(8),
    Iteration::FromEnd(101),
    Iteration::FromStart(63),
    Iteration::FromStart(64),
    Iteration::FromStart(257),
];

/// Loops of fewer iterations run whole.
const SHORT: i64 = 8;

/// The program with every loop of more than a few iterations that may be restricted at one iteration; `None` where there
/// is none.
pub(super) fn slice(
    program: &TensorProgram,
    extents: &Extents,
    iteration: Iteration,
) -> Option<TensorProgram> {
    let mut slice = program.clone();
    let mut is_restricted = false;
    slice.body = Some(without_named_blocks(program.body.as_deref()?));
    for stmt in slice.body.as_mut()? {
        restrict(stmt, extents, iteration, &mut is_restricted);
    }
    is_restricted.then_some(slice)
}

fn restrict(stmt: &mut Stmt, extents: &Extents, iteration: Iteration, done: &mut bool) {
    match &mut stmt.kind {
        StmtKind::For { loops, body, .. } => {
            for each in loops.iter_mut() {
                let range = value(&each.start, extents).zip(value(&each.stop, extents));
                let long = range.filter(|(start, stop)| stop - start >= SHORT);
                if let Some(range) = long.filter(|_| is_independent(body, each.var)) {
                    restrict_loop(each, range, iteration);
                    *done = true;
                }
            }
            body.iter_mut().for_each(|stmt| restrict(stmt, extents, iteration, done));
        }
        StmtKind::If { then, otherwise, .. } => {
            let both = then.iter_mut().chain(otherwise);
            both.for_each(|stmt| restrict(stmt, extents, iteration, done));
        }
        StmtKind::Block { body, .. } => {
            body.iter_mut().for_each(|stmt| restrict(stmt, extents, iteration, done));
        }
        _ => {}
    }
}

fn restrict_loop(each: &mut Loop, (start, stop): (i64, i64), iteration: Iteration) {
    let at = match iteration {
        Iteration::FromStart(from) => (start + from).min(stop - 1),
        Iteration::FromEnd(from) => (stop - 1 - from).max(start),
    };
    (each.start, each.stop) = (TExpr::Int(at), TExpr::Int(at + 1));
}

/// Whether the iterations of a loop with this body write elements of their own and read none of each other.
fn is_independent(body: &[Stmt], var: ScalarId) -> bool {
    let Some(places) = places_of_stores(body, var) else { return false };
    let mut is_apart = true;
    visit_statements(body, &mut |stmt| {
        visit_own(stmt, &mut |own| {
            visit(own, &mut |part| {
                if let TExpr::Load { buffer, indices } = part
                    && let Some(&place) = places.get(buffer)
                {
                    is_apart &= indices.get(place) == Some(&TExpr::Scalar(var));
                }
            });
        });
    });
    is_apart
}

/// For each stored buffer the place of its indices that is the variable; `None` where a store has none.
fn places_of_stores(body: &[Stmt], var: ScalarId) -> Option<BTreeMap<BufferId, usize>> {
    let mut places = BTreeMap::new();
    let mut is_known = true;
    visit_statements(body, &mut |stmt| match &stmt.kind {
        StmtKind::Store { buffer, indices, .. } => {
            let place = indices.iter().position(|index| *index == TExpr::Scalar(var));
            is_known &= place.is_some_and(|place| *places.entry(*buffer).or_insert(place) == place);
        }
        StmtKind::Alloc(_) | StmtKind::Barrier => is_known = false,
        _ => {}
    });
    is_known.then_some(places)
}

#[cfg(test)]
mod tests {
    use super::super::arguments::extents_to_try;
    use super::*;
    use relax_program::frontend::Program;
    use relax_syntax::ir::Definition;
    use relax_syntax::span::Source;

    /// The program of some statements on `X` and `Y`, of shape `(9, 100)`.
    fn program(body: &str) -> TensorProgram {
        let text = format!(
            "@tensorir_function\ndef p(X: Buffer((9, 100), \"f32\"), Y: Buffer((9, 100), \"f32\")):\n{body}"
        );
        let loaded = Program::load(Source::new("slices", text));
        assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
        match loaded.module.definitions.into_iter().next() {
            Some(Definition::Tensor(program)) => program,
            other => panic!("{other:?}"),
        }
    }

    /// The first and last iteration of each loop of a slice.
    fn ranges(program: &TensorProgram, iteration: Iteration) -> Option<Vec<(i64, i64)>> {
        let extents = extents_to_try(program).remove(0);
        let slice = slice(program, &extents, iteration)?;
        let mut ranges = Vec::new();
        visit_statements(slice.body.as_deref()?, &mut |stmt| {
            if let StmtKind::For { loops, .. } = &stmt.kind {
                let end = |expr| value(expr, &extents).expect("bounds are numbers");
                ranges.extend(loops.iter().map(|each| (end(&each.start), end(&each.stop) - 1)));
            }
        });
        Some(ranges)
    }

    const COPY: &str =
        "    for i in range(9):\n        for j in range(3, 100):\n            Y[i, j] = X[i, j]\n";

    #[test]
    fn loops_are_restricted_at_both_ends() {
        let copy = program(COPY);
        let at = |i, j| Some(vec![(i, i), (j, j)]);
        use Iteration::{FromEnd, FromStart};
        assert_eq!(ranges(&copy, FromStart(0)), at(0, 3));
        assert_eq!(ranges(&copy, FromStart(1)), at(1, 4));
        assert_eq!(ranges(&copy, FromStart(37)), at(8, 40), "the last one where there are fewer");
        assert_eq!(ranges(&copy, FromEnd(0)), at(8, 99));
        assert_eq!(ranges(&copy, FromEnd(7)), at(1, 92));
        assert_eq!(ranges(&copy, FromEnd(16)), at(0, 83), "the first one where there are fewer");
        let ends = [FromStart(0), FromEnd(0)];
        assert!(ends.iter().all(|end| ITERATIONS.contains(end)), "the check tries both ends");
    }

    /// Loops whose iterations need others, or are few, run whole.
    #[test]
    fn only_independent_loops_are_restricted() {
        let first = Iteration::FromStart(0);
        let of = |from: &str, to: &str| ranges(&program(&COPY.replacen(from, to, 1)), first);
        assert_eq!(of("range(9)", "range(7)"), Some(vec![(0, 6), (3, 3)]));
        assert_eq!(of("range(9)", "range(8)"), Some(vec![(0, 0), (3, 3)]));
        assert_eq!(of("X[i, j]", "Y[i, j] + X[i, 0]"), Some(vec![(0, 0), (3, 3)]));
        // Each reads what the one before it wrote.
        assert_eq!(of("X[i, j]", "X[i, j] + Y[i, j - 1]"), Some(vec![(0, 0), (3, 99)]));
        assert_eq!(of("X[i, j]", "X[i, j] + Y[8 - i, j]"), Some(vec![(0, 8), (3, 3)]));
        assert_eq!(of("X[i, j]", "Y[8 - i, j - 3]"), None);
        // Each writes to the same elements.
        assert_eq!(of("Y[i, j]", "Y[i, 0]"), Some(vec![(0, 0), (3, 99)]));
        assert_eq!(of("Y[i, j]", "Y[i, j]  = X[0, 0]\n            Y[j % 9, i]"), None);
    }
}
