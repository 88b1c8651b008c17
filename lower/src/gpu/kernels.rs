//! A scheduled program taken apart into kernels, each a tensor program with the parameters that it uses.

use super::outline::outline;
use super::program::has_threads;
use relax_rewrite::renumber_program;
use relax_rewrite::walk::{loaded, stored, visit, visit_own, visit_statements};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, BufferInfo, Param, ScalarId, Scope, Stmt, StmtKind, TExpr};
use std::collections::BTreeSet;

/// Kernels in the order of their launches.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// What the host allocates for a call: global memory that kernels hand on. Its dims are those of the call.
    pub temporaries: Vec<BufferInfo>,
    /// One after the other; each sees what those before it wrote.
    pub kernels: Vec<Kernel>,
}

/// One launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// A tensor program of the shape of [`super::Outline`]. Its parameters are `buffers`, then `scalars`.
    pub program: TensorProgram,
    /// What is passed for each parameter that is a buffer.
    pub buffers: Vec<BufferOf>,
    /// What is passed for each parameter that is a number.
    pub scalars: Vec<ScalarOf>,
}

/// A buffer that a kernel is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferOf {
    /// This one among the buffers that the scheduled program is passed.
    Parameter(usize),
    /// One of the temporaries.
    Temporary(usize),
}

/// A number that a kernel is passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScalarOf {
    /// This one among the numbers that the scheduled program is passed.
    Parameter(usize),
    /// A symbolic variable of the call.
    Dim(Name),
}

/// The kernels of a scheduled program.
///
/// Memory that a kernel of one thread allocates in global scope becomes a temporary: a device does not see that an element of it
/// is read before it is written, as the interpreter does.
///
/// # Errors
/// Says what is in the way: a program without a text, or thread loops within loops of the host.
pub fn split(program: &TensorProgram) -> Result<Split, String> {
    let body = program.body.as_ref().ok_or("it has no text")?;
    let mut parts = Parts { program, split: Split { temporaries: Vec::new(), kernels: Vec::new() } };
    let (mut lets, mut nearby, mut temporaries) = (Vec::new(), Vec::new(), Vec::new());
    for (at, stmt) in body.iter().enumerate() {
        match &stmt.kind {
            StmtKind::Let { .. } => lets.push(stmt.clone()),
            StmtKind::Alloc(id) if program.buffer(*id).scope == Scope::Global => {
                temporaries.push(*id);
            }
            StmtKind::Alloc(id) => {
                let users = body[at + 1..].iter().filter(|stmt| touched(stmt).contains(id));
                match users.count() {
                    0 => {}
                    1 => nearby.push(stmt.clone()),
                    _ => temporaries.push(*id),
                }
            }
            StmtKind::For { .. } if has_threads(stmt) => {
                let inner = parts.allocated_in_thread(stmt);
                temporaries.extend(inner);
                parts.add(&lets, &nearby, stmt, &temporaries)?;
            }
            _ => return Err("its threads stand within loops or branches of the host".to_owned()),
        }
    }
    parts.split.temporaries =
        temporaries.iter().map(|id| parts.program.buffer(*id).clone()).collect();
    parts.split.temporaries.iter_mut().for_each(|info| info.scope = Scope::Global);
    Ok(parts.split)
}

/// Buffers that a statement reads or writes.
fn touched(stmt: &Stmt) -> BTreeSet<BufferId> {
    let body = std::slice::from_ref(stmt);
    loaded(body).union(&stored(body)).copied().collect()
}

struct Parts<'p> {
    program: &'p TensorProgram,
    split: Split,
}

impl Parts<'_> {
    /// Global memory that threads of a kernel ask for.
    fn allocated_in_thread(&self, stmt: &Stmt) -> Vec<BufferId> {
        let mut found = Vec::new();
        visit_statements(std::slice::from_ref(stmt), &mut |stmt| {
            if let StmtKind::Alloc(id) = stmt.kind
                && self.program.buffer(id).scope == Scope::Global
            {
                found.push(id);
            }
        });
        found
    }

    fn add(
        &mut self,
        lets: &[Stmt],
        nearby: &[Stmt],
        nest: &Stmt,
        temporaries: &[BufferId],
    ) -> Result<(), String> {
        let touched = touched(nest);
        let nearby = nearby.iter().filter(
            |stmt| matches!(&stmt.kind, StmtKind::Alloc(id) if touched.contains(id)),
        );
        let nest = without_allocations(nest, temporaries);
        let mut body: Vec<Stmt> = nearby.cloned().collect();
        body.push(nest);
        let body = [used_lets(lets, &body), body].concat();
        let kernel = self.kernel(body, &touched, temporaries);
        outline(&kernel.program).ok_or("its threads stand within loops of the host")?;
        self.split.kernels.push(kernel);
        Ok(())
    }

    fn kernel(
        &self,
        body: Vec<Stmt>,
        touched: &BTreeSet<BufferId>,
        temporaries: &[BufferId],
    ) -> Kernel {
        let mut program = self.program.clone();
        let number = self.split.kernels.len();
        program.name = Name::new(format!("{}_{number}", program.name));
        program.attrs = Vec::new();
        program.params = Vec::new();
        let (mut buffers, mut scalars) = (Vec::new(), Vec::new());
        let passed = self.program.params.iter().filter_map(|param| match param {
            Param::Buffer(id) => Some(*id),
            _ => None,
        });
        let passed = passed.enumerate().map(|(at, id)| (id, BufferOf::Parameter(at)));
        let made = temporaries.iter().enumerate().map(|(at, id)| (*id, BufferOf::Temporary(at)));
        for (id, of) in passed.chain(made).filter(|(id, _)| touched.contains(id)) {
            program.buffers[id.0 as usize].scope = Scope::Global;
            program.params.push(Param::Buffer(id));
            buffers.push(of);
        }
        let used = scalars_of(&body);
        let numbers = self.program.params.iter().filter(|param| !matches!(param, Param::Buffer(_)));
        for (at, param) in numbers.enumerate() {
            if matches!(param, Param::Scalar(id) if used.contains(id)) {
                program.params.push(param.clone());
                scalars.push(ScalarOf::Parameter(at));
            }
        }
        let dims = dims_of(&program, &body);
        program.dims.retain(|dim| dims.contains(&dim.name));
        let bound = bound_dims(&program);
        for dim in program.dims.iter().filter(|dim| !bound.contains(&dim.name)) {
            program.params.push(Param::Dim(dim.name.clone()));
            scalars.push(ScalarOf::Dim(dim.name.clone()));
        }
        program.body = Some(body);
        renumber_program(&mut program);
        Kernel { program, buffers, scalars }
    }
}

/// A nest whose threads find memory that the host allocated.
fn without_allocations(stmt: &Stmt, temporaries: &[BufferId]) -> Stmt {
    fn body(statements: &[Stmt], temporaries: &[BufferId]) -> Vec<Stmt> {
        let stays = |stmt: &&Stmt| !matches!(&stmt.kind, StmtKind::Alloc(id) if temporaries.contains(id));
        let each = statements.iter().filter(stays);
        each.map(|stmt| without_allocations(stmt, temporaries)).collect()
    }
    let mut stmt = stmt.clone();
    match &mut stmt.kind {
        StmtKind::For { body: inner, .. } => *inner = body(inner, temporaries),
        StmtKind::Block { init, body: inner, .. } => {
            *init = body(init, temporaries);
            *inner = body(inner, temporaries);
        }
        StmtKind::If { then, otherwise, .. } => {
            *then = body(then, temporaries);
            *otherwise = body(otherwise, temporaries);
        }
        _ => {}
    }
    stmt
}

/// Those scalars of the host that a kernel uses, also by way of others.
fn used_lets(lets: &[Stmt], body: &[Stmt]) -> Vec<Stmt> {
    let mut used = scalars_of(body);
    let mut result = Vec::new();
    for stmt in lets.iter().rev() {
        if matches!(&stmt.kind, StmtKind::Let { var, .. } if used.contains(var)) {
            used.extend(scalars_of(std::slice::from_ref(stmt)));
            result.push(stmt.clone());
        }
    }
    result.reverse();
    result
}

fn scalars_of(body: &[Stmt]) -> BTreeSet<ScalarId> {
    let mut found = BTreeSet::new();
    let mut each = |part: &TExpr| {
        if let TExpr::Scalar(id) = part {
            found.insert(*id);
        }
    };
    visit_statements(body, &mut |stmt| visit_own(stmt, &mut |expr| visit(expr, &mut each)));
    found
}

/// Symbolic variables of the buffers and expressions of a kernel.
fn dims_of(program: &TensorProgram, body: &[Stmt]) -> BTreeSet<Name> {
    let mut found = BTreeSet::new();
    let mut shape = |id: BufferId| {
        let dims = program.buffer(id).shape.iter();
        dims.for_each(|dim| dim.visit_vars(&mut |name| _ = found.insert(name.clone())));
    };
    program.params.iter().for_each(|param| {
        if let Param::Buffer(id) = param {
            shape(*id);
        }
    });
    visit_statements(body, &mut |stmt| {
        if let StmtKind::Alloc(id) = stmt.kind {
            shape(id);
        }
    });
    let mut each = |part: &TExpr| {
        if let TExpr::Dim(name) = part {
            found.insert(name.clone());
        }
    };
    visit_statements(body, &mut |stmt| visit_own(stmt, &mut |expr| visit(expr, &mut each)));
    found
}

/// Symbolic variables that the buffers of a call bind.
fn bound_dims(program: &TensorProgram) -> BTreeSet<Name> {
    let buffers = program.params.iter().filter_map(|param| match param {
        Param::Buffer(id) => Some(&program.buffer(*id).shape),
        _ => None,
    });
    let alone = buffers.flatten().filter_map(|dim| match dim {
        Dim::Var(name) => Some(name.clone()),
        _ => None,
    });
    alone.collect()
}
