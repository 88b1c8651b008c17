//! Well-formedness of a tensor program: after it, no step of a run can fail but by a defined trap.

use super::codes;
use super::kernels::Origin;
use super::typing::{Rejected, Ty, Typed, Types, reject};
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{
    Axis, BinOp, BufferId, Check, Loop, LoopKind, Param, ScalarId, Scope, Stmt, StmtKind, TExpr,
};
use relax_syntax::span::Span;
use std::collections::BTreeSet;

/// Levels of nested statements.
const DEPTH: usize = 100;

/// Everything wrong with a tensor program; nothing for a well-formed one.
#[must_use]
pub fn check(program: &TensorProgram) -> Vec<Diagnostic> {
    let mut checker = Checker::new(program);
    checker.run();
    checker.diagnostics
}

/// The types of a well-formed program, every name visible.
pub(super) fn analyse(program: &TensorProgram) -> Result<Types<'_>, Vec<Diagnostic>> {
    let mut checker = Checker::new(program);
    checker.run();
    if !checker.diagnostics.is_empty() {
        return Err(checker.diagnostics);
    }
    checker.types.scalar_visible.fill(true);
    checker.types.buffer_visible.fill(true);
    Ok(checker.types)
}

struct Checker<'p> {
    types: Types<'p>,
    /// The loops around the statement, outermost first.
    loops: Vec<&'p LoopKind>,
    /// Per buffer, how many loops stood around its allocation.
    allocated_in: Vec<usize>,
    buffer_bound: Vec<bool>,
    depth: usize,
    diagnostics: Vec<Diagnostic>,
}

impl<'p> Checker<'p> {
    fn new(program: &'p TensorProgram) -> Self {
        Self {
            types: Types {
                program,
                scalars: vec![None; program.scalars.len()],
                scalar_visible: vec![false; program.scalars.len()],
                buffer_visible: vec![false; program.buffers.len()],
                dims: BTreeSet::new(),
            },
            loops: Vec::new(),
            allocated_in: vec![0; program.buffers.len()],
            buffer_bound: vec![false; program.buffers.len()],
            depth: 0,
            diagnostics: Vec::new(),
        }
    }

    fn program(&self) -> &'p TensorProgram {
        self.types.program
    }

    fn run(&mut self) {
        for param in &self.program().params {
            match param {
                Param::Buffer(id) => self.bind_buffer(*id, self.program().span),
                Param::Scalar(id) => {
                    let typed = Typed::index(Ty::Of(DType::I64));
                    self.bind_scalar(*id, typed, self.program().span);
                }
                Param::Dim(name) => {
                    self.types.dims.insert(name.clone());
                }
            }
        }
        self.bind_dims();
        for param in &self.program().params {
            if let Param::Buffer(id) = param
                && let Some(info) = self.program().buffers.get(id.0 as usize)
            {
                info.shape.iter().for_each(|dim| self.dim_is_bound(dim, info.span));
            }
        }
        if let Some(body) = &self.program().body {
            self.body(body);
        }
    }

    /// A variable that is itself a dim of a parameter is bound by a call.
    fn bind_dims(&mut self) {
        for param in &self.program().params {
            let Param::Buffer(id) = param else { continue };
            let Some(info) = self.program().buffers.get(id.0 as usize) else { continue };
            for dim in &info.shape {
                if let Dim::Var(name) = dim {
                    self.types.dims.insert(name.clone());
                }
            }
        }
        for dim in &self.program().dims {
            if !self.types.dims.contains(&dim.name) {
                self.unbound(&dim.name, dim.span);
            }
        }
    }

    fn unbound(&mut self, name: &str, span: Span) {
        let message = format!("no parameter binds the symbolic variable `{name}`");
        let found = Diagnostic::error(codes::UNBOUND_DIM, span, message).with_help(format!(
            "let it stand alone as a dim of some parameter, or add a parameter `{name}: int`"
        ));
        if !self.diagnostics.contains(&found) {
            self.diagnostics.push(found);
        }
    }

    fn dim_is_bound(&mut self, dim: &Dim, span: Span) {
        let mut names = Vec::new();
        dim.visit_vars(&mut |name| names.push(name));
        for name in names {
            let declared = self.program().dims.iter().any(|dim| dim.name == *name);
            // A declared one was reported at its declaration.
            if !declared && !self.types.dims.contains(name) {
                self.unbound(name, span);
            }
        }
    }

    fn report<T>(&mut self, result: Result<T, Rejected>) -> Option<T> {
        result.map_err(|rejected| self.diagnostics.push(*rejected)).ok()
    }

    fn bind_scalar(&mut self, id: ScalarId, typed: Typed, span: Span) {
        let at = id.0 as usize;
        let Some(info) = self.program().scalars.get(at) else {
            let message = "the program binds a scalar that its table lacks";
            return self.diagnostics.push(Diagnostic::error(codes::SCOPE, span, message));
        };
        if self.types.scalars[at].is_some() {
            let message = format!("the scalar `{}` is bound twice", info.name);
            return self.diagnostics.push(Diagnostic::error(codes::SCOPE, span, message));
        }
        if info.dtype.is_some_and(|declared| declared != typed.dtype()) {
            let message = format!("`{}` is declared with another dtype", info.name);
            self.diagnostics.push(Diagnostic::error(codes::MISMATCH, span, message));
        }
        self.types.scalars[at] = Some(Typed { ty: Ty::Of(typed.dtype()), ..typed });
        self.types.scalar_visible[at] = true;
    }

    fn bind_buffer(&mut self, id: BufferId, span: Span) {
        let at = id.0 as usize;
        let bound = self.buffer_bound.get(at).copied();
        if bound != Some(false) {
            let message = match bound {
                Some(_) => {
                    format!("the buffer `{}` is bound twice", self.program().buffer(id).name)
                }
                None => "the program binds a buffer that its table lacks".to_owned(),
            };
            return self.diagnostics.push(Diagnostic::error(codes::SCOPE, span, message));
        }
        self.buffer_bound[at] = true;
        self.types.buffer_visible[at] = true;
        self.allocated_in[at] = self.loops.len();
    }

    /// Statements of one body: what they bind is forgotten after it.
    fn body(&mut self, statements: &'p [Stmt]) {
        if self.depth >= DEPTH {
            let span = statements.first().map_or(self.program().span, |stmt| stmt.span);
            let message = format!("statements nest at most {DEPTH} levels");
            return self.diagnostics.push(Diagnostic::error(codes::TOO_DEEP, span, message));
        }
        self.depth += 1;
        let scalars = self.types.scalar_visible.clone();
        let buffers = self.types.buffer_visible.clone();
        statements.iter().for_each(|stmt| self.stmt(stmt));
        self.types.scalar_visible = scalars;
        self.types.buffer_visible = buffers;
        self.depth -= 1;
    }

    fn stmt(&mut self, stmt: &'p Stmt) {
        let span = stmt.span;
        match &stmt.kind {
            StmtKind::For { loops, kind, body } => self.for_loop(loops, kind, body, span),
            StmtKind::Block { axes, init, body, .. } => {
                let outside = self.types.scalar_visible.clone();
                axes.iter().for_each(|axis| self.axis(axis, span));
                self.body(init);
                self.body(body);
                self.types.scalar_visible = outside;
            }
            StmtKind::Store { buffer, indices, update, value } => {
                self.store(*buffer, indices, *update, value, span);
            }
            StmtKind::Let { var, value } => {
                let found = self.types.infer(value, span).and_then(|found| {
                    self.types.adopt(value, found, found.dtype(), span).map(|()| found)
                });
                self.uses(value, span);
                if let Some(typed) = self.report(found) {
                    self.bind_scalar(*var, typed, span);
                }
            }
            StmtKind::If { condition, then, otherwise } => {
                let result = self.types.condition(condition, "the condition of `if`", span);
                self.report(result);
                self.uses(condition, span);
                self.body(then);
                self.body(otherwise);
            }
            StmtKind::Alloc(id) => self.alloc(*id, span),
            StmtKind::Barrier => self.barrier(span),
            StmtKind::Check(check) => self.check(check, span),
        }
    }

    fn check(&mut self, check: &'p Check, span: Span) {
        let result = self.types.condition(&check.condition, "what `check` asks", span);
        self.report(result);
        self.uses(&check.condition, span);
        for value in &check.values {
            let result = self.types.integer(value, "a value of a message", span);
            self.report(result);
            self.uses(value, span);
        }
        let is_id = check.trap.split_once('/').is_some_and(|(a, b)| is_word(a) && is_word(b));
        let places = check.message.matches("{}").count();
        let (found, values) = (&check.trap, check.values.len());
        let message = match () {
            () if !is_id => format!("`{found}` is no trap id"),
            () if places != values => format!("{places} times `{{}}` for {values} values"),
            () => return,
        };
        self.diagnostics.push(Diagnostic::error(codes::CHECK, span, message));
    }

    fn for_loop(&mut self, loops: &'p [Loop], kind: &'p LoopKind, body: &'p [Stmt], span: Span) {
        for item in loops {
            for bound in [&item.start, &item.stop] {
                let result = self.types.integer(bound, "a loop bound", span);
                self.report(result);
                self.uses(bound, span);
            }
        }
        let outside = self.types.scalar_visible.clone();
        for item in loops {
            self.bind_scalar(item.var, Typed::index(Ty::Of(DType::I64)), span);
        }
        if let LoopKind::Thread(axis) = kind {
            self.thread_axis(axis, loops.len(), span);
        }
        let count = self.loops.len();
        self.loops.push(kind);
        self.body(body);
        self.loops.truncate(count);
        self.types.scalar_visible = outside;
    }

    fn thread_axis(&mut self, axis: &str, count: usize, span: Span) {
        let (level, letter) = axis.split_once('.').unwrap_or((axis, ""));
        let known = matches!(level, "blockIdx" | "threadIdx") && matches!(letter, "x" | "y" | "z");
        let repeated = count > 1
            || self.loops.iter().any(|kind| matches!(kind, LoopKind::Thread(a) if a == axis));
        let message = if !known {
            format!("`{axis}` is no thread axis")
        } else if repeated {
            format!("`{axis}` is bound twice in one nest")
        } else if level == "blockIdx" && self.thread_loops() > 0 {
            "a thread block stands inside a thread".to_owned()
        } else {
            return;
        };
        self.diagnostics.push(
            Diagnostic::error(codes::THREAD_AXIS, span, message)
                .with_help("the axes are blockIdx.x to .z, and inside them threadIdx.x to .z"),
        );
    }

    fn axis(&mut self, axis: &'p Axis, span: Span) {
        for (expr, what) in [(&axis.extent, "the extent of an axis"), (&axis.value, "an axis")] {
            let result = self.types.integer(expr, what, span);
            self.report(result);
            self.uses(expr, span);
        }
        self.bind_scalar(axis.var, Typed::index(Ty::Of(DType::I64)), span);
    }

    fn store(
        &mut self,
        buffer: BufferId,
        indices: &[TExpr],
        update: Option<BinOp>,
        value: &TExpr,
        span: Span,
    ) {
        let target = TExpr::Load { buffer, indices: indices.to_vec() };
        self.uses(&target, span);
        self.uses(value, span);
        let found = self.types.infer(&target, span);
        let Some(target) = self.report(found) else { return };
        let result = self.types.expect(value, target.dtype(), span).map_err(|mut rejected| {
            rejected.notes.push(format!(
                "`{}` has elements of {}",
                self.program().buffer(buffer).name,
                target.dtype()
            ));
            rejected
        });
        self.report(result);
        if let Some(op) = update {
            let result = self.update(op, target.dtype(), span);
            self.report(result);
        }
    }

    fn update(&self, op: BinOp, dtype: DType, span: Span) -> Result<(), Rejected> {
        let symbol = super::typing::symbol(op);
        if !matches!(op, BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div) {
            return Err(reject(codes::UPDATE, span, format!("there is no update `{symbol}=`")));
        }
        if super::kernels::binary(op, dtype, Origin::Data).is_none() {
            let message = format!("`{symbol}=` is not defined on {dtype}");
            return Err(reject(codes::UNDEFINED_OPERATION, span, message));
        }
        Ok(())
    }

    fn alloc(&mut self, id: BufferId, span: Span) {
        self.bind_buffer(id, span);
        let Some(info) = self.program().buffers.get(id.0 as usize) else { return };
        info.shape.iter().for_each(|dim| self.dim_is_bound(dim, span));
        if info.scope == Scope::Shared && self.thread_loops() > 0 {
            self.diagnostics.push(
                Diagnostic::error(
                    codes::MEMORY_SCOPE,
                    span,
                    format!("the shared buffer `{}` is allocated by a single thread", info.name),
                )
                .with_help("allocate it outside the threadIdx loops"),
            );
        }
    }

    fn thread_loops(&self) -> usize {
        self.loops.iter().filter(|kind| is_thread(kind)).count()
    }

    fn barrier(&mut self, span: Span) {
        let inside = self.loops.iter().skip_while(|kind| !is_thread(kind));
        let message = if self.thread_loops() == 0 {
            "a barrier stands outside every threadIdx loop"
        } else if inside.into_iter().any(|kind| is_concurrent(kind) && !is_thread(kind)) {
            "a parallel, vectorized or sharded loop stands around this barrier"
        } else {
            return;
        };
        self.diagnostics.push(Diagnostic::error(codes::BARRIER, span, message));
    }

    /// Whether the memory scopes of the buffers that an expression reads allow it here.
    fn uses(&mut self, expr: &TExpr, span: Span) {
        let mut found = Vec::new();
        visit_buffers(expr, 0, &mut |id| found.push(id));
        for id in found {
            self.scope_allows(id, span);
        }
    }

    fn scope_allows(&mut self, id: BufferId, span: Span) {
        let Some(info) = self.program().buffers.get(id.0 as usize) else { return };
        let since = &self.loops[self.allocated_in[id.0 as usize].min(self.loops.len())..];
        let (crossed, owner) = match info.scope {
            Scope::Global => (false, ""),
            Scope::Shared => (since.iter().any(|kind| is_block(kind)), "thread block"),
            Scope::Local => (since.iter().any(|kind| is_block(kind) || is_thread(kind)), "thread"),
        };
        if !crossed || !self.types.buffer_visible[id.0 as usize] {
            return;
        }
        let found = Diagnostic::error(
            codes::MEMORY_SCOPE,
            span,
            format!(
                "the {} buffer `{}` belongs to one {owner}, but is allocated outside of it",
                info.scope.name(),
                info.name
            ),
        )
        .with_place(info.span, "allocated here")
        .with_help("allocate it inside the thread_binding loop");
        if !self.diagnostics.contains(&found) {
            self.diagnostics.push(found);
        }
    }
}

fn visit_buffers(expr: &TExpr, depth: usize, visit: &mut dyn FnMut(BufferId)) {
    // Deeper expressions are rejected anyway.
    if depth > 200 {
        return;
    }
    let mut each = |part: &TExpr| visit_buffers(part, depth + 1, visit);
    match expr {
        TExpr::Load { buffer, indices } => {
            indices.iter().for_each(&mut each);
            visit(*buffer);
        }
        TExpr::Unary(_, operand) | TExpr::Cast(_, operand) => each(operand),
        TExpr::Binary(_, operands) => {
            each(&operands.0);
            each(&operands.1);
        }
        TExpr::Select(parts) => {
            each(&parts.0);
            each(&parts.1);
            each(&parts.2);
        }
        TExpr::Call(_, operands) => operands.iter().for_each(each),
        TExpr::Int(_) | TExpr::Float(_) | TExpr::Bool(_) | TExpr::Scalar(_) | TExpr::Dim(_) => {}
    }
}

/// Iterations of it are threads of one block.
pub(super) fn is_thread(kind: &LoopKind) -> bool {
    matches!(kind, LoopKind::Thread(axis) if axis.starts_with("threadIdx."))
}

fn is_block(kind: &LoopKind) -> bool {
    matches!(kind, LoopKind::Thread(_)) && !is_thread(kind)
}

/// Iterations of it may run at the same time.
pub(super) fn is_concurrent(kind: &LoopKind) -> bool {
    !matches!(kind, LoopKind::Grid | LoopKind::Serial | LoopKind::Unroll)
}

/// A part of a trap id: a name, with dots where it is that of an operator.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.')
}
