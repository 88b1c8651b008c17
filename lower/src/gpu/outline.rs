//! The parts of a kernel, as a printer needs them.

use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Loop, LoopKind, ScalarId, Scope, Stmt, StmtKind, TExpr};

/// A loop over blocks or threads.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The loop variable.
    pub var: ScalarId,
    /// 0 for x, 1 for y, 2 for z.
    pub axis: usize,
    /// The first value: 0 in all that [`super::schedule`] makes.
    pub start: TExpr,
    /// One past the last value.
    pub stop: TExpr,
}

/// A kernel taken apart: `lets`, then loops over `blocks`, memory `shared` by the threads of a block, loops over `threads`, and
/// what each of them runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Outline<'p> {
    /// Scalars that the host evaluates, in order; kernels may use them as well.
    pub lets: Vec<(ScalarId, &'p TExpr)>,
    /// Loops over blocks, outermost first.
    pub blocks: Vec<Bound>,
    /// What is allocated outside of the threads; none of it global.
    pub shared: Vec<BufferId>,
    /// Loops over threads, outermost first.
    pub threads: Vec<Bound>,
    /// What a thread runs.
    pub body: &'p [Stmt],
}

/// The parts of a kernel, of which [`super::split`] makes some; `None` for what is not scheduled, or has threads in other places.
#[must_use]
pub fn outline(program: &TensorProgram) -> Option<Outline<'_>> {
    let mut found = Outline {
        lets: Vec::new(),
        blocks: Vec::new(),
        shared: Vec::new(),
        threads: Vec::new(),
        body: program.body.as_ref()?,
    };
    loop {
        match found.body {
            [Stmt { kind: StmtKind::Let { var, value }, .. }, rest @ ..]
                if found.blocks.is_empty() && found.threads.is_empty() =>
            {
                found.lets.push((*var, value));
                found.body = rest;
            }
            [Stmt { kind: StmtKind::Alloc(buffer), .. }, rest @ ..]
                if found.threads.is_empty() && program.buffer(*buffer).scope != Scope::Global =>
            {
                found.shared.push(*buffer);
                found.body = rest;
            }
            [Stmt { kind: StmtKind::For { loops, kind: LoopKind::Thread(axis), body }, .. }] => {
                let [Loop { var, start, stop }] = loops.as_slice() else { return None };
                let (level, letter) = axis.split_once('.')?;
                let number = ["x", "y", "z"].iter().position(|known| *known == letter)?;
                let (start, stop) = (start.clone(), stop.clone());
                let bound = Bound { var: *var, axis: number, start, stop };
                match level {
                    "blockIdx" => found.blocks.push(bound),
                    _ => found.threads.push(bound),
                }
                found.body = body;
            }
            _ => break,
        }
    }
    let is_kernel = !found.blocks.is_empty() || !found.threads.is_empty();
    (is_kernel && !found.body.iter().any(super::program::has_threads)).then_some(found)
}
