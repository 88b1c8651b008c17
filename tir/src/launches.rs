//! Kernel launches: a tensor program whose loops are bound to blocks and threads, taken apart into what a device is asked for: memory that the
//! host finds, scalars that the host knows, and launches, one after the other in the order of the text.
//!
//! A nest at the top that binds loops to threads is a launch for itself, for the end of a launch is the only synchronisation
//! of a whole grid. Statements without threads that follow each other are one, of a single thread. From a scalar on that is
//! read from memory, everything is one launch of one block: only there it is known.

use relax_semantics::tir::walk::{visit, visit_statements};
use relax_syntax::ir::tensor::{BufferId, Loop, LoopKind, ScalarId, Stmt, StmtKind, TExpr};

/// What a device is asked for.
#[derive(Debug, Default)]
pub struct Launches<'p> {
    /// Buffers at the top, which the host finds before it launches anything.
    pub memory: Vec<BufferId>,
    /// One after the other; each sees what those before it wrote.
    pub launches: Vec<Launch<'p>>,
}

/// One launch.
#[derive(Debug, Default)]
pub struct Launch<'p> {
    /// Scalars that are bound before it and read no memory: host and threads compute them.
    pub scalars: Vec<&'p Stmt>,
    /// Loops over blocks that are around all of it, outermost first, with their axes.
    pub blocks: Vec<(usize, &'p Loop)>,
    /// What each block runs.
    pub body: Vec<&'p Stmt>,
    /// Whether loops are bound to threads or blocks; else one thread is all there is.
    pub has_threads: bool,
}

impl<'p> Launch<'p> {
    /// Its scalars and their values.
    pub fn values(&self) -> impl Iterator<Item = (ScalarId, &'p TExpr)> + '_ {
        self.scalars.iter().filter_map(|stmt| match &stmt.kind {
            StmtKind::Let { var, value } => Some((*var, value)),
            _ => None,
        })
    }
}

/// The launches of a program, in the order of its text.
#[must_use]
pub fn launches(body: &[Stmt]) -> Launches<'_> {
    let mut found = Launches::default();
    let mut scalars = Vec::new();
    for (at, stmt) in body.iter().enumerate() {
        match &stmt.kind {
            StmtKind::Alloc(buffer) => found.memory.push(*buffer),
            StmtKind::Let { value, .. } if reads(value) => {
                found.serial(&scalars, &body[at..]);
                break;
            }
            StmtKind::Let { .. } => scalars.push(stmt),
            _ if has_threads(std::slice::from_ref(stmt)) => {
                let (blocks, body) = grid(stmt);
                let scalars = scalars.clone();
                found.launches.push(Launch { scalars, blocks, body, has_threads: true });
            }
            _ => found.serial(&scalars, std::slice::from_ref(stmt)),
        }
    }
    found
}

/// All of it by one thread, in the order of the text, whatever its loops are bound to.
#[must_use]
pub fn by_one_thread(body: &[Stmt]) -> Launches<'_> {
    let mut found = Launches::default();
    found.serial(&[], body);
    found.launches.iter_mut().for_each(|launch| launch.has_threads = false);
    found
}

impl<'p> Launches<'p> {
    /// Adds statements that one block runs: to the launch before, where that is of one thread, as they are, and knows the same scalars.
    fn serial(&mut self, scalars: &[&'p Stmt], body: &'p [Stmt]) {
        let is_memory = |stmt: &&Stmt| matches!(stmt.kind, StmtKind::Alloc(_));
        let (memory, body): (Vec<&Stmt>, Vec<&Stmt>) = body.iter().partition(is_memory);
        self.memory.extend(memory.iter().filter_map(|stmt| match stmt.kind {
            StmtKind::Alloc(buffer) => Some(buffer),
            _ => None,
        }));
        let starts = body.iter().any(|stmt| has_threads(std::slice::from_ref(*stmt)));
        match self.launches.last_mut() {
            Some(last) if !last.has_threads && !starts && last.scalars == scalars => {
                last.body.extend(body);
            }
            _ => {
                let (scalars, blocks) = (scalars.to_vec(), Vec::new());
                self.launches.push(Launch { scalars, blocks, body, has_threads: starts });
            }
        }
    }
}

/// The loops over blocks that begin a statement, one for each axis, and what stands in them. Further ones are loops of each block.
fn grid(stmt: &Stmt) -> (Vec<(usize, &Loop)>, Vec<&Stmt>) {
    let mut blocks = Vec::new();
    let mut body = std::slice::from_ref(stmt);
    while let [Stmt { kind: StmtKind::For { loops, kind, body: inner }, .. }] = body
        && let Some(axis) = block_axis(kind)
        && let [item] = loops.as_slice()
        && blocks.iter().all(|(taken, _)| *taken != axis)
    {
        blocks.push((axis, item));
        body = inner;
    }
    (blocks, body.iter().collect())
}

fn axis(kind: &LoopKind, level: &str) -> Option<usize> {
    let LoopKind::Thread(name) = kind else { return None };
    let (found, letter) = name.split_once('.')?;
    let number = ["x", "y", "z"].iter().position(|axis| *axis == letter)?;
    (found == level).then_some(number)
}

/// The axis of a loop over the threads of a block: 0 for x, 1 for y, 2 for z.
#[must_use]
pub fn thread_axis(kind: &LoopKind) -> Option<usize> {
    axis(kind, "threadIdx")
}

/// The axis of a loop over blocks.
#[must_use]
pub fn block_axis(kind: &LoopKind) -> Option<usize> {
    axis(kind, "blockIdx")
}

/// Whether a statement is a loop over blocks or threads.
#[must_use]
pub fn is_thread_loop(stmt: &Stmt) -> bool {
    matches!(&stmt.kind, StmtKind::For { kind, .. }
        if thread_axis(kind).is_some() || block_axis(kind).is_some())
}

/// Whether a loop over blocks or threads stands among statements, at any depth.
#[must_use]
pub fn has_threads(body: &[Stmt]) -> bool {
    let mut found = false;
    visit_statements(body, &mut |stmt| found |= is_thread_loop(stmt));
    found
}

/// Whether an expression reads memory.
#[must_use]
pub fn reads(expr: &TExpr) -> bool {
    let mut found = false;
    visit(expr, &mut |part| found |= matches!(part, TExpr::Load { .. }));
    found
}
