//! Statements to flat code.

use super::axes::{self, Sources};
use super::check::{analyse, is_concurrent, is_thread};
use super::code::{LoopCode, LoopInfo, Op, Pc, Range, Reg};
use super::typing::Types;
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{
    Axis, AxisKind, BufferId, Check, Loop, LoopKind, ScalarId, Stmt, StmtKind, TExpr,
};
use relax_syntax::span::Span;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A checked program in flat form, ready to run any number of times.
#[derive(Clone)]
pub struct Compiled {
    /// Declarations; the code has all the rest.
    pub(super) program: Arc<TensorProgram>,
    pub(super) ops: Vec<Op>,
    /// The statement that each operation is a part of.
    pub(super) spans: Vec<Span>,
    /// What a checked operation is called, for messages.
    pub(super) symbols: BTreeMap<Pc, (&'static str, DType)>,
    /// Registers of indices.
    pub(super) operands: Vec<Reg>,
    pub(super) loops: Vec<LoopInfo>,
    /// Names of block axes.
    pub(super) axes: Vec<Name>,
    /// Trap ids and messages of `check` statements.
    pub(super) checks: Vec<(Name, Name)>,
    /// The registers as they are before anything runs: constants.
    pub(super) initial: Vec<u64>,
    /// Where the symbolic variables go, and the scalars, which follow them.
    pub(super) dims: BTreeMap<Name, Reg>,
}

impl Compiled {
    /// Checks and compiles.
    ///
    /// # Errors
    /// What [`super::check`] finds; one finding for an external program.
    pub fn new(program: &TensorProgram) -> Result<Self, Vec<Diagnostic>> {
        let types = analyse(program)?;
        let dims: BTreeMap<Name, Reg> = types.dims.iter().cloned().zip(0..).collect();
        let scalars = dims.len() + program.scalars.len();
        let code = Compiled {
            program: Arc::new(program.clone()),
            ops: Vec::new(),
            spans: Vec::new(),
            symbols: BTreeMap::new(),
            operands: Vec::new(),
            loops: Vec::new(),
            axes: Vec::new(),
            checks: Vec::new(),
            initial: vec![0; scalars],
            dims,
        };
        let mut compiler = Compiler {
            code,
            types,
            sources: Sources::default(),
            bounds: BTreeMap::new(),
            constants: BTreeMap::new(),
            span: program.span,
        };
        compiler.body(program.body.as_deref().unwrap_or(&[]));
        compiler.emit(Op::Halt);
        Ok(compiler.code)
    }

    /// For each buffer of the parameters, whether a statement of the program writes to it.
    #[must_use]
    pub fn writes(&self) -> Vec<bool> {
        let stores = |buffer: u32| {
            self.ops.iter().any(|op| matches!(op, Op::Store { buffer: to, .. } if *to == buffer))
        };
        self.program.buffer_params().map(|id| stores(id.0)).collect()
    }

    /// The register of a scalar.
    pub(super) fn scalar(&self, id: ScalarId) -> Reg {
        index(self.dims.len()) + id.0
    }
}

/// Sizes of a program's parts are far below the limit of 32 bits.
pub(super) fn index(at: usize) -> u32 {
    u32::try_from(at).expect("invariant: a program has fewer than 2^32 parts")
}

pub(super) struct Compiler<'p> {
    pub(super) code: Compiled,
    pub(super) types: Types<'p>,
    sources: Sources,
    /// The first value of each loop variable.
    bounds: BTreeMap<ScalarId, Reg>,
    pub(super) constants: BTreeMap<u64, Reg>,
    pub(super) span: Span,
}

impl Compiler<'_> {
    pub(super) fn emit(&mut self, op: Op) -> Pc {
        self.code.ops.push(op);
        self.code.spans.push(self.span);
        index(self.code.ops.len() - 1)
    }

    pub(super) fn here(&self) -> Pc {
        index(self.code.ops.len())
    }

    /// Lets a jump emitted before go to the next operation.
    pub(super) fn land(&mut self, jump: Pc) {
        let here = self.here();
        match &mut self.code.ops[jump as usize] {
            Op::Jump { to }
            | Op::JumpUnless { to, .. }
            | Op::JumpIf { to, .. }
            | Op::JumpUnlessEqual { to, .. }
            | Op::Branch { otherwise: to, .. }
            | Op::Enter { end: to, .. }
            | Op::Fork { end: to, .. } => *to = here,
            _ => unreachable!("invariant: only jumps land"),
        }
    }

    fn body(&mut self, statements: &[Stmt]) {
        for stmt in statements {
            self.span = stmt.span;
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::For { loops, kind, body } => self.for_loop(loops, kind, body),
            StmtKind::Block { axes, init, body, .. } => self.block(axes, init, body),
            StmtKind::Store { buffer, indices, update, value } => {
                let dtype = self.code.program.buffer(*buffer).dtype;
                let at = self.indices(indices);
                let mut from = self.expr(value, dtype);
                if let Some(op) = update {
                    let old = self.fresh();
                    self.emit(Op::Load { to: old, buffer: buffer.0, at });
                    from = self.operation(*op, dtype, super::kernels::Origin::Data, old, from);
                }
                self.emit(Op::Store { from, buffer: buffer.0, at });
            }
            StmtKind::Let { var, value } => {
                let dtype = self.dtype(value);
                let from = self.expr(value, dtype);
                let to = self.code.scalar(*var);
                self.emit(Op::Move { to, from });
                self.sources.bind(*var, value);
            }
            StmtKind::If { condition, then, otherwise } => self.branch(condition, then, otherwise),
            StmtKind::Alloc(BufferId(buffer)) => {
                self.emit(Op::Alloc { buffer: *buffer });
            }
            StmtKind::Barrier => {
                self.emit(Op::Barrier);
            }
            StmtKind::Check(check) => self.check(check),
        }
    }

    /// What the message says is computed where the check fails only.
    fn check(&mut self, check: &Check) {
        let condition = self.expr(&check.condition, DType::Bool);
        let holds = self.emit(Op::JumpIf { condition, to: 0 });
        let values = self.indices(&check.values);
        self.code.checks.push((check.trap.clone(), check.message.clone()));
        let failed = index(self.code.checks.len() - 1);
        self.emit(Op::Fail { check: failed, values });
        self.land(holds);
    }

    pub(super) fn indices(&mut self, indices: &[TExpr]) -> Range {
        let registers: Vec<Reg> = indices.iter().map(|expr| self.as_index(expr)).collect();
        let first = index(self.code.operands.len());
        self.code.operands.extend(&registers);
        Range { first, count: index(registers.len()) }
    }

    fn branch(&mut self, condition: &TExpr, then: &[Stmt], otherwise: &[Stmt]) {
        let condition = self.expr(condition, DType::Bool);
        let branch = self.emit(Op::Branch { condition, otherwise: 0 });
        self.body(then);
        if otherwise.is_empty() {
            return self.land(branch);
        }
        let jump = self.emit(Op::Jump { to: 0 });
        self.land(branch);
        self.body(otherwise);
        self.land(jump);
    }

    /// All bounds are computed before the first loop is entered: they cannot use its variables.
    fn for_loop(&mut self, loops: &[Loop], kind: &LoopKind, body: &[Stmt]) {
        let threads = is_thread(kind);
        let forks = threads && has_barrier(body);
        let mut nest = Vec::new();
        for item in loops {
            let start = self.as_index(&item.start);
            let stop = self.as_index(&item.stop);
            let (start, stop) = (self.copy(start), self.copy(stop));
            self.code.loops.push(LoopInfo {
                name: self.code.program.scalar(item.var).name.clone(),
                concurrent: is_concurrent(kind),
                threads,
            });
            let info = index(self.code.loops.len() - 1);
            self.sources.bind_loop(item);
            self.bounds.insert(item.var, start);
            nest.push(LoopCode { var: self.code.scalar(item.var), start, stop, info });
        }
        let span = self.span;
        let entries: Vec<Pc> = nest
            .iter()
            .map(|&of| {
                let enter = if forks { Op::Fork { of, end: 0 } } else { Op::Enter { of, end: 0 } };
                self.emit(enter)
            })
            .collect();
        self.body(body);
        self.span = span;
        for (&of, &entry) in nest.iter().zip(&entries).rev() {
            let leave = if forks { Op::Exit } else { Op::Next { of, body: entry + 1 } };
            self.emit(leave);
            self.land(entry);
        }
    }

    fn block(&mut self, axes: &[Axis], init: &[Stmt], body: &[Stmt]) {
        let span = self.span;
        let mut skips = Vec::new();
        let zero = self.constant(0);
        for axis in axes {
            let (extent, value) = (self.as_index(&axis.extent), self.as_index(&axis.value));
            self.code.axes.push(self.code.program.scalar(axis.var).name.clone());
            let name = index(self.code.axes.len() - 1);
            self.emit(Op::AxisInRange { value, extent, axis: name });
            let to = self.code.scalar(axis.var);
            self.emit(Op::Move { to, from: value });
        }
        if !init.is_empty() {
            let firsts: Vec<(Reg, Reg)> = if axes.is_empty() {
                let vars = axes::reductions(&self.sources, init, body);
                vars.iter().map(|var| (self.code.scalar(*var), self.bounds[var])).collect()
            } else {
                let reduced = axes.iter().filter(|axis| axis.kind == AxisKind::Reduce);
                reduced.map(|axis| (self.code.scalar(axis.var), zero)).collect()
            };
            for (a, b) in firsts {
                skips.push(self.emit(Op::JumpUnlessEqual { a, b, to: 0 }));
            }
        }
        self.sources.bind_axes(axes);
        self.body(init);
        skips.into_iter().for_each(|skip| self.land(skip));
        self.body(body);
        self.span = span;
    }
}

/// Whether a barrier stands among statements, at any depth.
fn has_barrier(statements: &[Stmt]) -> bool {
    statements.iter().any(|stmt| match &stmt.kind {
        StmtKind::Barrier => true,
        StmtKind::For { body, .. } => has_barrier(body),
        StmtKind::Block { init, body, .. } => has_barrier(init) || has_barrier(body),
        StmtKind::If { then, otherwise, .. } => has_barrier(then) || has_barrier(otherwise),
        StmtKind::Store { .. } | StmtKind::Let { .. } | StmtKind::Alloc(_) | StmtKind::Check(_) => {
            false
        }
    })
}
