//! What becomes one function on a device: a nest of `blockIdx` loops, or statements that one block runs.

use super::barriers::{reads, threads_meet};
use super::launch::Extent;
use super::threads::{Nest, is_block, is_thread, nests};
use relax_rewrite::walk::visit_statements;
use relax_syntax::ir::tensor::{Loop, ScalarId, Stmt, StmtKind, TExpr};
use std::collections::BTreeMap;

/// The statements of one function.
#[derive(Debug)]
pub(crate) struct Group<'s> {
    /// Loops over blocks, outermost first, with their axes.
    pub(crate) blocks: Vec<(usize, &'s Loop)>,
    /// Scalars that every function computes anew: they read no memory.
    pub(crate) scalars: Vec<&'s Stmt>,
    /// What each block runs.
    pub(crate) body: Vec<&'s Stmt>,
    /// The threads of a block, by axis.
    extents: [Vec<Extent>; 3],
    waits: bool,
    /// Whether one thread is all there is.
    pub(crate) is_alone: bool,
}

impl<'s> Group<'s> {
    /// All statements, by one thread.
    pub(crate) fn alone(body: &'s [Stmt]) -> Self {
        let body = body.iter().filter(|stmt| !is_allocation(stmt)).collect();
        let extents = [const { Vec::new() }; 3];
        let (blocks, scalars) = (Vec::new(), Vec::new());
        Self { blocks, scalars, body, extents, waits: false, is_alone: true }
    }

    fn of(
        blocks: Vec<(usize, &'s Loop)>,
        scalars: &[&'s Stmt],
        body: Vec<&'s Stmt>,
    ) -> Result<Self, String> {
        let mut found = Vec::new();
        body.iter().for_each(|stmt| nests(stmt, &mut found));
        threads_meet(&found)?;
        let (extents, waits) = extents(&found)?;
        let scalars = scalars.to_vec();
        Ok(Self { blocks, scalars, body, extents, waits, is_alone: found.is_empty() })
    }

    /// What its scalars are.
    pub(crate) fn values(&self) -> Vec<(ScalarId, TExpr)> {
        let value = |stmt: &&Stmt| match &stmt.kind {
            StmtKind::Let { var, value } => Some((*var, value.clone())),
            _ => None,
        };
        self.scalars.iter().filter_map(value).collect()
    }

    pub(crate) fn statements(&self) -> &[&'s Stmt] {
        &self.body
    }

    /// Blocks by axis.
    pub(crate) fn grid(&self) -> [Vec<Extent>; 3] {
        let mut grid = [const { Vec::new() }; 3];
        for (axis, item) in &self.blocks {
            grid[*axis].push(Extent::of(item));
        }
        grid
    }

    pub(crate) fn block(&self) -> [Vec<Extent>; 3] {
        self.extents.clone()
    }

    /// Whether the number of threads is told by threads that wait for each other.
    pub(crate) fn waits(&self) -> bool {
        self.waits
    }
}

/// Memory of the whole program, which the host finds before it launches anything.
pub(crate) fn is_allocation(stmt: &Stmt) -> bool {
    matches!(stmt.kind, StmtKind::Alloc(_))
}

/// The functions of a program.
pub(crate) fn groups(body: &[Stmt]) -> Result<Vec<Group<'_>>, String> {
    let keeps =
        body.iter().any(|stmt| matches!(&stmt.kind, StmtKind::Let { value, .. } if reads(value)));
    let mut all = Vec::new();
    let mut scalars: Vec<&Stmt> = Vec::new();
    let mut between: Vec<&Stmt> = Vec::new();
    for stmt in body.iter().filter(|stmt| !is_allocation(stmt)) {
        let (blocks, inner) = grid_of(stmt);
        let is_scalar = matches!(stmt.kind, StmtKind::Let { .. });
        if keeps || (blocks.is_empty() && !is_scalar) {
            between.push(stmt);
            continue;
        }
        if !between.is_empty() {
            all.push(Group::of(Vec::new(), &scalars, std::mem::take(&mut between))?);
        }
        if is_scalar {
            scalars.push(stmt);
        } else {
            all.push(Group::of(blocks, &scalars, inner.iter().collect())?);
        }
    }
    if !between.is_empty() {
        all.push(Group::of(Vec::new(), &scalars, between)?);
    }
    Ok(all)
}

/// The loops over blocks that begin a statement, and what stands in them.
fn grid_of(stmt: &Stmt) -> (Vec<(usize, &Loop)>, &[Stmt]) {
    let mut blocks = Vec::new();
    let mut body = std::slice::from_ref(stmt);
    while let [Stmt { kind: StmtKind::For { loops, kind, body: inner }, .. }] = body
        && let Some(axis) = is_block(kind)
        && let [item] = loops.as_slice()
    {
        blocks.push((axis, item));
        body = inner;
    }
    (blocks, body)
}

type Extents = ([Vec<Extent>; 3], bool);

/// How many threads a block has: as many as wait for each other, else as many as the largest nest has.
fn extents(nests: &[Nest<'_>]) -> Result<Extents, String> {
    let mut waiting: Option<BTreeMap<usize, Extent>> = None;
    let mut all = [const { Vec::new() }; 3];
    for nest in nests {
        let own: BTreeMap<usize, Extent> =
            nest.loops.iter().map(|(axis, item)| (*axis, Extent::of(item))).collect();
        if nest.waits {
            if waiting.as_ref().is_some_and(|known| *known != own) {
                return Err("threads of different numbers wait at barriers".to_owned());
            }
            waiting = Some(own);
        } else {
            own.into_iter().for_each(|(axis, extent)| all[axis].push(extent));
        }
    }
    let Some(own) = waiting else { return Ok((all, false)) };
    if !own.values().all(Extent::is_of_host) {
        return Err("the number of threads that wait at barriers is computed on the way".to_owned());
    }
    let known: Option<i64> =
        own.values().try_fold(1_i64, |product, extent| product.checked_mul(extent.constant()?));
    let deep = own.get(&2).and_then(Extent::constant).is_some_and(|extent| extent > 64);
    if deep || known.is_some_and(|product| product > super::launch::MOST_THREADS) {
        return Err("more threads wait at barriers than a block may have".to_owned());
    }
    let mut exact = [const { Vec::new() }; 3];
    own.into_iter().for_each(|(axis, extent)| exact[axis].push(extent));
    Ok((exact, true))
}

/// Whether threads start in a statement.
pub(crate) fn has_threads(stmt: &Stmt) -> bool {
    let mut found = false;
    visit_statements(std::slice::from_ref(stmt), &mut |stmt| {
        found |= matches!(&stmt.kind, StmtKind::For { kind, .. } if is_thread(kind).is_some());
    });
    found
}
