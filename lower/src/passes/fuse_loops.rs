//! Nests of one tensor program that follow each other and begin with the same loops become one: each row is
//! read again while it is still in a cache, as when softmax takes a maximum, a sum, and then divides.
//!
//! With that an iteration of the second nest comes before later ones of the first. So neither may stop the
//! program, and what one of them writes the other may touch in the same iteration only: the loops that
//! become one stand alone at the same places of all indices into such a buffer. Allocations whose dims always
//! have a value are moved to the top, so that nests follow each other.
//!
//! A product of matrices is one call on the processor where sums may have any order. So only two things are fused with one: stores
//! for each of its elements, as its epilogue, which then works on blocks that are still in a cache; and of products in a batch
//! what follows in the loops of the batch.

use relax_rewrite::pass::{Exactness, Pass, PassContext};
use relax_runtime::program::Numerics;
use relax_semantics::check::Phase;
use relax_semantics::tir::ranges::{Ranges, assume_declared, is_proved};
use relax_semantics::tir::total::Total;
use relax_semantics::tir::walk::{Rewrite, accesses, statements};
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::facts::{Claim, Facts, Relation};
use relax_syntax::ir::tensor::{BinOp, BufferId, Loop, LoopKind, ScalarId, Stmt, StmtKind, TExpr};
use relax_syntax::ir::{Definition, Module, TensorProgram};
use relax_tir::dims::as_dim;
use relax_tir::named_blocks::without_named_blocks;
use relax_tir::products::{Product, Roles, is_straight, sums_products};
use relax_tir::renumber::renumber_program;
use relax_tir::workspaces::has_plain_extents;
use std::collections::{BTreeMap, BTreeSet};

/// The record.
pub static PASS: Pass = Pass {
    name: "fuse_loops",
    doc: "Makes one nest of nests that follow each other in a tensor program and begin with the same \
          loops, if none stops the program and each iteration touches what is its own.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P22,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let (result, done, found) = fused(module, context.settings.numerics, context.facts);
    context.count_of("fused away", done, found, "nests");
    Ok(result)
}

/// The module with fewer nests, how many fewer, and of how many.
#[must_use]
pub fn fused(module: &Module, numerics: Numerics, facts: &mut dyn Facts) -> (Module, usize, usize) {
    let mut result = module.clone();
    let (mut done, mut found) = (0, 0);
    for definition in &mut result.definitions {
        let Definition::Tensor(program) = definition else { continue };
        let Some(body) = program.body.clone() else { continue };
        let nests = |body: &[Stmt]| {
            body.iter().filter(|stmt| matches!(stmt.kind, StmtKind::For { .. })).count()
        };
        let fused = fuse_all((program, numerics), body.clone(), facts);
        found += nests(&body);
        if nests(&fused) < nests(&body) {
            done += nests(&body) - nests(&fused);
            program.body = Some(fused);
            renumber_program(program);
        }
    }
    (result, done, found)
}

fn fuse_all(
    (program, numerics): (&TensorProgram, Numerics),
    body: Vec<Stmt>,
    facts: &mut dyn Facts,
) -> Vec<Stmt> {
    let (mut result, rest): (Vec<Stmt>, Vec<Stmt>) =
        body.into_iter().partition(|stmt| is_plain_allocation(program, stmt));
    for stmt in rest {
        let fused = result.last().and_then(|last| fuse((program, numerics), last, &stmt, facts));
        match fused {
            Some(both) => _ = result.pop().map(|_| result.push(both)),
            None => result.push(stmt),
        }
    }
    result
}

/// An allocation whose extents always have a value, as those of parameters do.
pub(crate) fn is_plain_allocation(program: &TensorProgram, stmt: &Stmt) -> bool {
    let StmtKind::Alloc(buffer) = stmt.kind else { return false };
    has_plain_extents(program, buffer)
}

/// Two nests as one.
fn fuse(
    (program, numerics): (&TensorProgram, Numerics),
    first: &Stmt,
    second: &Stmt,
    facts: &mut dyn Facts,
) -> Option<Stmt> {
    let ((a, kind, body_a), (b, kind_b, body_b)) = (nest(first)?, nest(second)?);
    // With another kind, races of a `parallel` loop would no longer be found.
    if kind != kind_b {
        return None;
    }
    let same = a.iter().zip(b).take_while(|(a, b)| is_same(program, a, b, facts));
    let multiplies = sums_products(body_a) || sums_products(body_b);
    let count = match multiplies {
        false => same.count(),
        true if numerics == Numerics::Exact => return None,
        true => loops_of_products(program, first, second).filter(|count| *count <= same.count())?,
    };
    let shared: Vec<ScalarId> = a[..count].iter().map(|item| item.var).collect();
    let names = b[..count].iter().map(|item| item.var).zip(shared.iter().copied());
    let mut renamed = Renamed { names: names.collect() };
    let body_b = statements(body_b, &mut renamed);
    let rests =
        [rest((a, &kind), count, body_a.to_vec(), first), rest((b, &kind), count, body_b, second)];
    let binds = |body: &[Stmt]| body.iter().any(|stmt| matches!(stmt.kind, StmtKind::Let { .. }));
    let allowed = count > 0
        && !rests.iter().any(|rest| binds(rest))
        && is_apart(&rests, &shared)
        && [first, second].iter().all(|stmt| never_stops(program, stmt, facts));
    // The epilogue of a product stands beside its sum.
    let body = if multiplies { without_named_blocks(&rests.concat()) } else { rests.concat() };
    let kind = StmtKind::For { loops: a[..count].to_vec(), kind, body };
    allowed.then_some(Stmt { kind, span: first.span })
}

/// How many loops a nest of products shares with what follows it, if anything may be fused with it.
fn loops_of_products(program: &TensorProgram, first: &Stmt, second: &Stmt) -> Option<usize> {
    let ((a, _, body_a), (b, _, body_b)) = (nest(first)?, nest(second)?);
    if !sums_products(body_a) {
        return None;
    }
    let Some(product) = Product::of(program, first) else {
        // Products of a batch, with what was fused with them.
        let is_batch =
            body_a.len() > 1 && body_a.iter().any(|stmt| Product::of(program, stmt).is_some());
        return is_batch.then_some(a.len());
    };
    let roles = Roles::of(program, &Ranges::of(program), &product)?;
    match roles.leading(&product)? {
        0 => {
            let is_epilogue = is_straight(&without_named_blocks(body_b))
                && a.len() == b.len()
                && !product.only_with_terms;
            (is_epilogue && product.loops.len() == a.len()).then_some(a.len())
        }
        batch => (batch < a.len()).then_some(batch),
    }
}

/// A nest of sequential loops. Fused loops are `parallel` or `grid`, so a nest has one of these kinds here.
fn nest(stmt: &Stmt) -> Option<(&[Loop], LoopKind, &[Stmt])> {
    match &stmt.kind {
        StmtKind::For { loops, kind, body } if kind.is_sequential() => {
            let kind =
                if *kind == LoopKind::Parallel { LoopKind::Parallel } else { LoopKind::Grid };
            Some((loops, kind, body))
        }
        _ => None,
    }
}

/// Whether two loops go from 0 to the same end, one of literals and dims alone: `a * 512 * 2` is `a * 1024`.
fn is_same(program: &TensorProgram, a: &Loop, b: &Loop, facts: &mut dyn Facts) -> bool {
    let zero = TExpr::Int(0);
    let (true, true, Some(stop), Some(other)) =
        (a.start == zero, b.start == zero, as_dim(&a.stop), as_dim(&b.stop))
    else {
        return false;
    };
    if stop == other {
        return true;
    }
    facts.push();
    assume_declared(facts, &program.dims);
    let same = is_proved(facts, &Claim::new(stop, Relation::Equal, other));
    facts.pop();
    same
}

/// What stays of a nest within its first loops.
fn rest(
    (loops, kind): (&[Loop], &LoopKind),
    count: usize,
    body: Vec<Stmt>,
    stmt: &Stmt,
) -> Vec<Stmt> {
    if loops.len() == count {
        return body;
    }
    let kind = StmtKind::For { loops: loops[count..].to_vec(), kind: kind.clone(), body };
    vec![Stmt { kind, span: stmt.span }]
}

struct Renamed {
    names: BTreeMap<ScalarId, ScalarId>,
}

impl Rewrite for Renamed {
    fn scalar(&mut self, id: ScalarId) -> ScalarId {
        self.names.get(&id).copied().unwrap_or(id)
    }
}

/// Whether iterations that change places touch different elements of what either nest writes.
fn is_apart(rests: &[Vec<Stmt>; 2], shared: &[ScalarId]) -> bool {
    let [a, b] = rests.each_ref().map(|rest| {
        let mut found = Vec::new();
        accesses(rest, &mut |buffer, indices, is_stored| found.push((buffer, indices, is_stored)));
        found
    });
    let buffers = |accesses: &[(BufferId, &[TExpr], bool)]| -> BTreeSet<BufferId> {
        accesses.iter().map(|(buffer, ..)| *buffer).collect()
    };
    let (in_a, in_b) = (buffers(&a), buffers(&b));
    let all: Vec<_> = a.into_iter().chain(b).collect();
    in_a.intersection(&in_b).all(|buffer| {
        let own: Vec<_> = all.iter().filter(|(other, ..)| other == buffer).collect();
        let written = own.iter().any(|(_, _, written)| *written);
        let stands = |var: &ScalarId| {
            let rank = own.first().map_or(0, |(_, indices, _)| indices.len());
            (0..rank).any(|at| own.iter().all(|(_, at_, _)| at_[at] == TExpr::Scalar(*var)))
        };
        !written || shared.iter().all(stands)
    })
}

/// Whether nothing in a nest traps, but for reads of what nothing has written, which trap alike.
pub(crate) fn never_stops(program: &TensorProgram, stmt: &Stmt, facts: &mut dyn Facts) -> bool {
    never_stops_where(program, &TExpr::Bool(true), stmt, facts)
}

/// The same of a condition, and of the nest where it holds.
pub(crate) fn never_stops_where(
    program: &TensorProgram,
    condition: &TExpr,
    stmt: &Stmt,
    facts: &mut dyn Facts,
) -> bool {
    facts.push();
    assume_declared(facts, &program.dims);
    let ranges = Ranges::of(program);
    let has_value = Total::new(program, facts).has_value(&ranges, condition);
    ranges.assume(facts, condition);
    let never = has_value
        && all_have_values(std::slice::from_ref(stmt), &mut Total::new(program, facts), &ranges);
    facts.pop();
    never
}

fn all_have_values(body: &[Stmt], total: &mut Total, ranges: &Ranges) -> bool {
    let mut ranges = ranges.clone();
    total.facts.push();
    let all = body.iter().all(|stmt| match &stmt.kind {
        StmtKind::For { loops, body, .. } => {
            let fine = loops.iter().all(|item| {
                let bounds = [&item.start, &item.stop];
                bounds.iter().all(|bound| total.has_value(&ranges, bound))
            });
            total.facts.push();
            let mut inner = ranges.clone();
            loops.iter().for_each(|item| inner.enter(total.facts, item));
            let all = fine && all_have_values(body, total, &inner);
            total.facts.pop();
            all
        }
        StmtKind::Block { axes, init, body, .. } => {
            axes.is_empty()
                && all_have_values(init, total, &ranges)
                && all_have_values(body, total, &ranges)
        }
        StmtKind::Store { buffer, indices, update, value } => {
            let place = TExpr::Load { buffer: *buffer, indices: indices.clone() };
            let whole = !matches!(update, Some(BinOp::FloorDiv | BinOp::Mod));
            whole && total.has_value(&ranges, &place) && total.has_value(&ranges, value)
        }
        StmtKind::Let { var, value } => {
            let fine = total.has_value(&ranges, value);
            ranges.bind(*var, value);
            fine
        }
        StmtKind::If { condition, then, otherwise } => {
            total.has_value(&ranges, condition)
                && all_have_values(then, total, &ranges)
                && all_have_values(otherwise, total, &ranges)
        }
        StmtKind::Alloc(_) | StmtKind::Barrier | StmtKind::Check(_) => false,
    });
    total.facts.pop();
    all
}
