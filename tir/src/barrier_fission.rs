//! Barrier fission (loop fission at barriers): the code between two barriers becomes a nest of loops of its own, and
//! those run one after the other. That is the order in which the interpreter runs threads: each up to its next barrier,
//! in the order of the iterations, before the first goes on.
//!
//! What a thread keeps over a barrier is computed again where it loads nothing, and is kept in an array with an element a
//! thread otherwise; memory of a thread becomes an array in the same way. A loop around a barrier runs around the
//! nests where its bounds are the same for all threads. At a branch around a barrier the threads say first where they
//! go: all of them one way, or the barrier is divergent, and each runs up to where it would wait.

mod branches;

use crate::analysis::divergence::is_uniform;
use crate::barriers::has_barrier;
use crate::live_across_barriers::{LiveScalars, own_elements, uses};
use crate::unique_bindings::bind_uniquely;
use branches::Branch;
use relax_semantics::tir::Typing;
use relax_semantics::tir::walk::{accesses, visit, visit_statements};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{
    BufferId, BufferInfo, Loop, LoopKind, ScalarId, Scope, Stmt, StmtKind, TExpr,
};
use relax_syntax::span::Span;
use std::collections::{BTreeMap, BTreeSet};

/// The program without barriers, for one thread to run a block.
///
/// # Errors
/// Why there is none.
pub fn without_barriers(program: &TensorProgram) -> Result<TensorProgram, String> {
    let typing = Typing::new(program).map_err(|_| "it is not well-formed".to_owned())?;
    let mut fission = Fission { typing: &typing, buffers: program.buffers.clone() };
    let body = fission.outside(program.body.as_deref().unwrap_or(&[]))?;
    let (buffers, mut scalars) = (fission.buffers, program.scalars.clone());
    let body = Some(bind_uniquely(&body, &mut scalars));
    Ok(TensorProgram { body, buffers, scalars, ..program.clone() })
}

struct Fission<'p> {
    typing: &'p Typing<'p>,
    /// Those of the program, and those that hold what threads keep.
    buffers: Vec<BufferInfo>,
}

/// The loops over the threads of a block.
struct Threads {
    loops: Vec<Loop>,
    span: Span,
}

impl Threads {
    fn vars(&self) -> Vec<ScalarId> {
        self.loops.iter().map(|item| item.var).collect()
    }

    /// Which element of an array is a thread's.
    fn own(&self) -> Vec<TExpr> {
        self.vars().into_iter().map(TExpr::Scalar).collect()
    }

    fn extents(&self) -> Vec<Dim> {
        let extent = |item: &Loop| match &item.stop {
            TExpr::Int(value) => Dim::Int(*value),
            TExpr::Dim(name) => Dim::Var(name.clone()),
            _ => unreachable!("invariant: asked when the nest was found"),
        };
        self.loops.iter().map(extent).collect()
    }

    /// Statements of every thread, one thread after the other.
    fn nest(&self, body: Vec<Stmt>) -> Stmt {
        let kind = StmtKind::For { loops: self.loops.clone(), kind: LoopKind::Grid, body };
        Stmt { kind, span: self.span }
    }
}

/// What becomes of the statements of a thread.
struct Region<'r> {
    threads: &'r Threads,
    /// What earlier phases bound and later ones may use.
    carried: LiveScalars,
    /// Statements since the last barrier.
    phase: Vec<Stmt>,
    /// The nests so far.
    done: Vec<Stmt>,
}

impl Region<'_> {
    /// Ends a phase.
    fn close(&mut self) {
        if !self.phase.is_empty() {
            let phase = std::mem::take(&mut self.phase);
            let body = self.carried.before(phase);
            self.done.push(self.threads.nest(body));
        }
        self.carried.settle();
    }
}

fn is_thread(kind: &LoopKind) -> bool {
    matches!(kind, LoopKind::Thread(axis) if axis.starts_with("threadIdx."))
}

fn waits(stmt: &Stmt) -> bool {
    has_barrier(std::slice::from_ref(stmt))
}

impl Fission<'_> {
    /// Statements outside of threads.
    fn outside(&mut self, statements: &[Stmt]) -> Result<Vec<Stmt>, String> {
        let mut all = Vec::new();
        for stmt in statements {
            let kind = match &stmt.kind {
                _ if !waits(stmt) => stmt.kind.clone(),
                StmtKind::For { kind, .. } if is_thread(kind) => {
                    all.extend(self.threads(stmt)?);
                    continue;
                }
                StmtKind::For { loops, kind, body } => StmtKind::For {
                    loops: loops.clone(),
                    kind: kind.clone(),
                    body: self.outside(body)?,
                },
                StmtKind::If { condition, then, otherwise } => StmtKind::If {
                    condition: condition.clone(),
                    then: self.outside(then)?,
                    otherwise: self.outside(otherwise)?,
                },
                _ => return Err("its threads wait at a barrier in a block".to_owned()),
            };
            all.push(Stmt { kind, span: stmt.span });
        }
        Ok(all)
    }

    fn threads(&mut self, outer: &Stmt) -> Result<Vec<Stmt>, String> {
        let mut threads = Threads { loops: Vec::new(), span: outer.span };
        let mut body = std::slice::from_ref(outer);
        while let [Stmt { kind: StmtKind::For { loops, kind, body: inner }, .. }] = body
            && is_thread(kind)
        {
            threads.loops.extend(loops.iter().cloned());
            body = inner;
        }
        let plain = |item: &Loop| {
            item.start == TExpr::Int(0) && matches!(item.stop, TExpr::Int(0..) | TExpr::Dim(_))
        };
        if !threads.loops.iter().all(plain) {
            return Err("its threads wait at a barrier, and their number is computed".to_owned());
        }
        self.region(&threads, LiveScalars::default(), body, true)
    }

    /// The statements of a thread as nests. At the top what follows is the end of the thread.
    fn region(
        &mut self,
        threads: &Threads,
        carried: LiveScalars,
        statements: &[Stmt],
        is_top: bool,
    ) -> Result<Vec<Stmt>, String> {
        let statements = &self.spread(threads, statements);
        let mut region = Region { threads, carried, phase: Vec::new(), done: Vec::new() };
        for (at, stmt) in statements.iter().enumerate() {
            let rest = &statements[at + 1..];
            match &stmt.kind {
                StmtKind::Barrier => region.close(),
                StmtKind::Let { var, value } => {
                    self.bind(&mut region, (*var, value), stmt, rest)?
                }
                StmtKind::Alloc(id) if self.is_spread(threads, *id, rest) => {
                    region.done.push(stmt.clone());
                }
                _ if !waits(stmt) => region.phase.push(stmt.clone()),
                StmtKind::For { loops, kind, body } => {
                    region.close();
                    let known = region.carried.clone();
                    let body = self.repeated(threads, known, (loops, kind), body)?;
                    let (loops, kind) = (loops.clone(), kind.clone());
                    let kind = StmtKind::For { loops, kind, body };
                    region.done.push(Stmt { kind, span: stmt.span });
                }
                StmtKind::If { condition, then, otherwise } => {
                    let branch = Branch { condition, then, otherwise, span: stmt.span };
                    self.branch(&mut region, &branch, is_top.then_some(rest))?;
                }
                _ => return Err("its threads wait at a barrier in a block".to_owned()),
            }
        }
        region.close();
        Ok(region.done)
    }

    /// A loop around a barrier.
    fn repeated(
        &mut self,
        threads: &Threads,
        known: LiveScalars,
        (loops, kind): (&[Loop], &LoopKind),
        body: &[Stmt],
    ) -> Result<Vec<Stmt>, String> {
        if is_thread(kind) {
            return Err("its threads wait at a barrier, and start others on the way".to_owned());
        }
        let same = |expr: &TExpr| is_uniform(expr, &threads.vars(), &known);
        if !loops.iter().all(|item| same(&item.start) && same(&item.stop)) {
            let why =
                "its threads wait at a barrier in a loop whose bounds may differ between them";
            return Err(why.to_owned());
        }
        self.region(threads, known, body, false)
    }

    /// Binds a scalar, which later phases may use.
    fn bind(
        &mut self,
        region: &mut Region<'_>,
        (var, value): (ScalarId, &TExpr),
        stmt: &Stmt,
        rest: &[Stmt],
    ) -> Result<(), String> {
        region.phase.push(stmt.clone());
        let mut later = rest.iter().skip_while(|stmt| !waits(stmt));
        if !later.any(|stmt| uses(stmt, var)) {
            return Ok(());
        }
        if !uses_memory(value) {
            region.carried.bind(var, stmt.clone());
            return Ok(());
        }
        if rest.iter().any(begins_by_loops) {
            let why =
                "its threads wait at a barrier, and a block of theirs begins by what they keep";
            return Err(why.to_owned());
        }
        let array = self.array(region, var, self.typing.dtype(value));
        let (buffer, indices) = (array, region.threads.own());
        let load = TExpr::Load { buffer, indices: indices.clone() };
        let value = TExpr::Scalar(var);
        let keep = StmtKind::Store { buffer, indices, update: None, value };
        region.phase.push(Stmt { kind: keep, span: stmt.span });
        let again = StmtKind::Let { var, value: load };
        region.carried.bind(var, Stmt { kind: again, span: stmt.span });
        Ok(())
    }

    /// An array with an element a thread.
    fn array(&mut self, region: &mut Region<'_>, var: ScalarId, dtype: DType) -> BufferId {
        let name = Name::new(format!("kept_{}", var.0));
        let shape = region.threads.extents();
        self.fresh(region, name, shape, dtype)
    }

    fn fresh(
        &mut self,
        region: &mut Region<'_>,
        name: Name,
        shape: Vec<Dim>,
        dtype: DType,
    ) -> BufferId {
        let (span, scope) = (region.threads.span, Scope::Shared);
        let id = BufferId(u32::try_from(self.buffers.len()).unwrap_or(u32::MAX));
        self.buffers.push(BufferInfo { name, shape, dtype, scope, span });
        region.done.push(Stmt { kind: StmtKind::Alloc(id), span });
        id
    }

    /// Statements in which memory of a thread that is used after a barrier is an array with an element a thread.
    fn spread(&mut self, threads: &Threads, statements: &[Stmt]) -> Vec<Stmt> {
        let mut spread = BTreeMap::new();
        for (at, stmt) in statements.iter().enumerate() {
            let StmtKind::Alloc(id) = stmt.kind else { continue };
            let mut later = statements[at + 1..].iter().skip_while(|stmt| !waits(stmt));
            if later.any(|stmt| mentions(stmt, id)) {
                let info = &mut self.buffers[id.0 as usize];
                info.shape = [threads.extents(), std::mem::take(&mut info.shape)].concat();
                info.scope = Scope::Shared;
                spread.insert(id, threads.own());
            }
        }
        own_elements(statements, &spread)
    }

    /// Whether memory that a thread asked for is such an array now.
    fn is_spread(&self, threads: &Threads, id: BufferId, rest: &[Stmt]) -> bool {
        let shape = &self.buffers[id.0 as usize].shape;
        let mut later = rest.iter().skip_while(|stmt| !waits(stmt));
        shape.starts_with(&threads.extents()) && later.any(|stmt| mentions(stmt, id))
    }
}

fn uses_memory(value: &TExpr) -> bool {
    let mut found = false;
    visit(value, &mut |part| {
        found |= matches!(part, TExpr::Load { .. });
    });
    found
}

/// Whether a block in a statement has an `init` that runs at the first iteration of the loops around.
fn begins_by_loops(stmt: &Stmt) -> bool {
    let mut found = false;
    visit_statements(std::slice::from_ref(stmt), &mut |stmt| {
        found |= matches!(&stmt.kind, StmtKind::Block { axes, init, .. } if axes.is_empty() && !init.is_empty());
    });
    found
}

fn mentions(stmt: &Stmt, id: BufferId) -> bool {
    let mut touched = BTreeSet::new();
    accesses(std::slice::from_ref(stmt), &mut |buffer, _, _| _ = touched.insert(buffer));
    touched.contains(&id)
}
