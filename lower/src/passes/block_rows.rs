//! What goes through a large workspace row by row goes through some rows of it at a time, so that the workspace has that many
//! rows only: attention keeps the scores of 64 rows in a cache instead of all of them in memory (as Dao et al. 2022, §3.1).
//!
//! Taken are nests of a tensor program that follow each other, with a product among them: the last one multiplies a
//! workspace `W[…, i, j]` by a matrix, and in all of them the loops over `…` and `i`, which is the row, stand alone at one index of every buffer that one of them writes
//! and another touches. They become one nest over `…` and blocks of rows:
//!
//! ```text
//! for b in grid(n0):
//!     for block in range((n1 - 1) // 64 + 1):
//!         for i, d in grid(min(64, n1), 8):  Q[b, i, d] = X[b, block * 64 + min(i, n1 - block * 64 - 1), d]
//!         for i, j in grid(min(64, n1), n2): S[b, i, j] = …
//!         for i, e in grid(min(64, n1), 8):  O[b, i, e] = …
//!         for i, e in grid(64, 8):
//!             if i < n1 - block * 64: Y[b, block * 64 + i, e] = O[b, i, e]
//! ```
//!
//! All blocks have the same rows: those past the end do once more what the last row does, and what they give is not stored. So
//! workspaces are written whole, and products are as they were. Each element is computed as before, so that the bits are the
//! same; as iterations change places, none may stop the program.
//!
//! The processor's threads share the loops over `…`. On a device threads share rows too, and this pass does nothing.

mod blocks;

use crate::passes::fuse_loops::{is_plain_allocation, never_stops};
use blocks::Blocks;
use relax_rewrite::pass::{Device, Exactness, Pass, PassContext};
use relax_rewrite::passes::stitch_products::BLOCK_ROWS;
use relax_semantics::check::Phase;
use relax_semantics::tir::walk::{accesses, stored, visit_statements};
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::facts::Facts;
use relax_syntax::ir::tensor::{BufferId, Loop, LoopKind, ScalarId, Stmt, StmtKind, TExpr};
use relax_syntax::ir::{Definition, Module, TensorProgram};
use relax_syntax::span::Span;
use relax_tir::analysis::definite_init::unproved;
use relax_tir::analysis::dependence::{Nest, are_independent};
use relax_tir::dims::as_expr;
use relax_tir::products::{SumOfProducts, flat, mentions, sums_products};
use relax_tir::workspaces::has_plain_extents;
use std::collections::{BTreeMap, BTreeSet};

/// The record.
pub static PASS: Pass = Pass {
    name: "block_rows",
    doc: "Goes through the rows of a workspace that a product multiplies in blocks of 64, so that it needs no more rows than \
          that. On the processor.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut result = module.clone();
    if context.settings.device != Device::Cpu {
        return Ok(result);
    }
    let (mut done, mut found) = (0, 0);
    for definition in &mut result.definitions {
        let Definition::Tensor(program) = definition else { continue };
        // Allocations of extents that always have a value come first, where they can be lifted, so that nests follow each other.
        let Some(body) = program.body.clone() else { continue };
        let is_plain = |stmt: &Stmt| is_plain_allocation(program, stmt);
        let (plain, rest): (Vec<Stmt>, Vec<Stmt>) = body.into_iter().partition(is_plain);
        let lasts = (0..rest.len()).filter(|&at| weighed(program, &rest[at]).is_some());
        let lasts: Vec<usize> = lasts.collect();
        found += usize::from(!lasts.is_empty());
        let blocked = lasts.into_iter().find_map(|last| {
            let (rest, last) = in_order(program, &rest, last, context.facts)?;
            let run = Run::of(program, &rest, last, &BTreeSet::new(), context.facts)?;
            Some(Blocks::of(program, &run).program(&plain, &rest, &run))
        });
        if let Some(blocked) = blocked {
            done += 1;
            *program = blocked;
        }
    }
    context.count_of("blocked", done, found, "tensor programs");
    Ok(result)
}

/// The workspace that a sum of products multiplies row by row, with its indices.
fn weighed<'s>(program: &'s TensorProgram, stmt: &'s Stmt) -> Option<(BufferId, &'s [TExpr])> {
    let sum = SumOfProducts::of(program, stmt)?;
    let own = sum.row_factors().find(|factor| !program.is_param(factor.buffer))?;
    Some((own.buffer, own.indices))
}

/// The body with nests that stand between those of a run before it, and where the last one of the run is then: a mask's places, or
/// a matrix that is scaled first. `None` if there is no run.
fn in_order(
    program: &TensorProgram,
    body: &[Stmt],
    last: usize,
    facts: &mut dyn Facts,
) -> Option<(Vec<Stmt>, usize)> {
    let free = (0..last).filter(|&at| is_free(program, body, at, facts)).collect();
    let run = Run::of(program, body, last, &free, facts)?;
    let between = run.skipped;
    let (first, rest): (Vec<_>, Vec<_>) =
        body.iter().enumerate().partition(|(at, _)| between.contains(at));
    let body = first.into_iter().chain(rest).map(|(_, stmt)| stmt.clone()).collect();
    Some((body, last))
}

/// Whether a nest may stand first: it never stops the program, reads parameters that nothing writes, and is the only one that
/// writes its workspaces, which nothing before it reads.
fn is_free(program: &TensorProgram, body: &[Stmt], at: usize, facts: &mut dyn Facts) -> bool {
    let nest = std::slice::from_ref(&body[at]);
    let own = stored(nest);
    let mut elsewhere = stored(&body[at + 1..]);
    accesses(&body[..at], &mut |buffer, _, _| _ = elsewhere.insert(buffer));
    let all = stored(body);
    let has_place =
        |buffer: &BufferId| !program.is_param(*buffer) && has_plain_extents(program, *buffer);
    let mut reads_params = true;
    accesses(nest, &mut |buffer, _, is_stored| {
        let is_read_only = program.is_param(buffer) && !all.contains(&buffer);
        reads_params &= is_stored || own.contains(&buffer) || is_read_only;
    });
    matches!(nest[0].kind, StmtKind::For { .. })
        && reads_params
        && own.iter().all(has_place)
        && own.is_disjoint(&elsewhere)
        && never_stops(program, &body[at], facts)
}

/// A nest of a run.
struct RowNest<'s> {
    /// Its loops over the axes, the row last.
    axes: Vec<ScalarId>,
    /// Its other loops.
    inner: Vec<Loop>,
    body: &'s [Stmt],
    span: Span,
    is_product: bool,
}

/// Nests that follow each other.
struct Run<'s> {
    first: usize,
    nests: Vec<RowNest<'s>>,
    /// How often the loops over the axes run, the row last.
    extents: Vec<TExpr>,
    /// Where the axes stand among the indices of buffers that the nests hand on.
    places: BTreeMap<BufferId, Vec<usize>>,
    /// What is the program's own of these.
    contracted: BTreeSet<BufferId>,
    /// What the nests read elsewhere than at their row: it is filled before.
    beside: BTreeSet<BufferId>,
    /// Statements between the nests that are to stand before them.
    skipped: BTreeSet<usize>,
}

impl<'s> Run<'s> {
    /// The longest run that ends with a product by a workspace.
    fn of(
        program: &'s TensorProgram,
        body: &'s [Stmt],
        last: usize,
        free: &BTreeSet<usize>,
        facts: &mut dyn Facts,
    ) -> Option<Self> {
        let (workspace, indices) = weighed(program, &body[last])?;
        let count = indices.len() - 1;
        let shape = &program.buffer(workspace).shape;
        let extents: Vec<TExpr> = shape[..count].iter().map(as_expr).collect();
        let is_large = |rows: &TExpr| !matches!(rows, TExpr::Int(..=BLOCK_ROWS));
        let places = BTreeMap::from([(workspace, (0..count).collect())]);
        let mut run = Run {
            first: last,
            nests: Vec::new(),
            extents,
            places,
            contracted: BTreeSet::new(),
            beside: BTreeSet::new(),
            skipped: BTreeSet::new(),
        };
        let mut skipped = BTreeSet::new();
        for at in (0..=last).rev() {
            if never_stops(program, &body[at], facts) && run.precede(program, &body[at]) {
                run.first = at;
            } else if free.contains(&at) {
                skipped.insert(at);
            } else {
                break;
            }
        }
        run.skipped = skipped.split_off(&run.first);
        let writes = |stmt: &Stmt| stored(std::slice::from_ref(stmt)).contains(&workspace);
        let all = &body[run.first..=last];
        // What a single product multiplies costs no more to keep than to make in blocks.
        let products = run.nests.iter().filter(|nest| nest.is_product).count();
        let fits = products > 1
            && run.extents.last().is_some_and(is_large)
            && all.iter().any(writes)
            && (!run.skipped.is_empty() || run.contracts(program, body, last));
        fits.then_some(run)
    }

    /// Takes a nest in front of the others, if it goes through the same rows.
    fn precede(&mut self, program: &'s TensorProgram, stmt: &'s Stmt) -> bool {
        let StmtKind::For { kind, .. } = &stmt.kind else { return false };
        let (loops, body) = flat(std::slice::from_ref(stmt));
        let mut touched: Vec<(BufferId, &[TExpr])> = Vec::new();
        accesses(std::slice::from_ref(stmt), &mut |buffer, indices, _| {
            touched.push((buffer, indices));
        });
        let known = touched.iter().find_map(|(buffer, indices)| {
            let places = self.places.get(buffer)?;
            places.iter().map(|&at| indices[at].as_scalar()).collect::<Option<Vec<ScalarId>>>()
        });
        let Some(axes) = known else { return false };
        let of = |var: &ScalarId| loops.iter().find(|item| item.var == *var);
        let whole = axes.iter().zip(&self.extents).all(|(var, extent)| {
            of(var).is_some_and(|item| item.start == TExpr::Int(0) && item.stop == *extent)
        });
        // A loop whose bounds depend on the others cannot change places with them.
        let is_free = |item: &&Loop| {
            let bounds = [item.start.clone(), item.stop.clone()];
            item.start == TExpr::Int(0) && !loops.iter().any(|other| mentions(&bounds, other.var))
        };
        let nest = Nest { vars: axes.clone(), stmt };
        if !kind.is_sequential()
            || *kind == LoopKind::Parallel
            || !whole
            || !loops.iter().all(is_free)
            || !are_independent(&[nest])
        {
            return false;
        }
        let (mut places, mut beside) = (self.places.clone(), self.beside.clone());
        let written = stored(std::slice::from_ref(stmt));
        if !written.is_disjoint(&beside) {
            return false;
        }
        for (buffer, indices) in &touched {
            let is_own = !program.is_param(*buffer);
            if !is_own && !written.contains(buffer) && !places.contains_key(buffer) {
                continue;
            }
            let at = |var: &ScalarId| {
                let mut found = (0..indices.len())
                    .filter(|&at| mentions(std::slice::from_ref(&indices[at]), *var));
                let place = found.next().filter(|&at| indices[at].as_scalar() == Some(*var))?;
                found.next().is_none().then_some(place)
            };
            let found = axes.iter().map(at).collect::<Option<Vec<usize>>>();
            let Some(found) = found.filter(|_| !beside.contains(buffer)) else {
                // What no nest of the run writes may be read anywhere.
                if written.contains(buffer) || places.contains_key(buffer) {
                    return false;
                }
                beside.insert(*buffer);
                continue;
            };
            if *places.entry(*buffer).or_insert_with(|| found.clone()) != found {
                return false;
            }
        }
        (self.places, self.beside) = (places, beside);
        let inner = loops.iter().filter(|item| !axes.contains(&item.var));
        let inner = inner.map(|item| (*item).clone()).collect();
        let is_product = sums_products(std::slice::from_ref(stmt));
        let nest = RowNest { axes, inner, body, span: stmt.span, is_product };
        self.nests.insert(0, nest);
        true
    }

    /// Finds the workspaces that need some rows only: nothing outside of the run touches them, and no read of them may meet an
    /// uninitialized element, as blocks find what the one before left. Of other buffers that the run writes it may read
    /// none and add to none, as the last row may be computed several times.
    fn contracts(&mut self, program: &TensorProgram, body: &[Stmt], last: usize) -> bool {
        let inside = self.first..=last;
        let (mut outside, mut read, mut written) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (at, stmt) in body.iter().enumerate() {
            visit_statements(std::slice::from_ref(stmt), &mut |stmt| {
                if let StmtKind::Store { buffer, update: Some(_), .. } = &stmt.kind
                    && inside.contains(&at)
                {
                    read.insert(*buffer);
                }
            });
            accesses(std::slice::from_ref(stmt), &mut |buffer, _, is_stored| {
                let all = match (inside.contains(&at), is_stored) {
                    (false, _) => &mut outside,
                    (true, true) => &mut written,
                    (true, false) => &mut read,
                };
                all.insert(buffer);
            });
        }
        let is_own = |buffer: &BufferId| !program.is_param(*buffer);
        let own: BTreeSet<BufferId> = self.places.keys().copied().filter(is_own).collect();
        self.contracted = own;
        self.contracted.is_disjoint(&outside)
            && self.contracted.is_disjoint(&unproved(program))
            && written
                .iter()
                .all(|buffer| self.contracted.contains(buffer) || !read.contains(buffer))
    }
}
