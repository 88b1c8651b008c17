//! Buffers that tensor programs allocate for themselves become arguments, allocated by the graph, where
//! memory planning sees them (paper, §4.4 and Figure 11).
//!
//! Lifted are buffers in global memory that a program allocates once, before anything else could stop
//! it: at the top of its body. A program is changed when each of its uses is a `call_tir` whose
//! arguments tell the size.

use super::lower_call_tir::call::TirCall;
use crate::fresh::{Fresh, built_in};
use relax_rewrite::blocks::with_bindings_before;
use relax_rewrite::names::Defined;
use relax_rewrite::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::{Checked, Phase};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BufferId, Param, Scope, StmtKind};
use relax_syntax::ir::{
    Atom, Binding, Body, Callee, Definition, Expr, Module, TensorProgram, VarId,
};
use relax_tir::renumber::renumber_program;
use relax_tir::workspaces::declare_workspaces;
use std::collections::{BTreeMap, BTreeSet};

/// The record.
pub static PASS: Pass = Pass {
    name: "lift_workspaces",
    doc: "Makes the graph allocate what tensor programs allocate for themselves in global memory.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let programs = candidates(module, context.checked);
    let mut result = module.clone();
    let defined = Defined::of(module);
    let (mut workspaces, mut calls) = (0, 0);
    for definition in &mut result.definitions {
        match definition {
            Definition::Tensor(program) => {
                if let Some(candidate) = programs.get(&program.name) {
                    workspaces += candidate.workspaces.len();
                    candidate.lift(program);
                }
            }
            Definition::Graph(function) => {
                let Some(mut body) = function.lambda.body.take() else { continue };
                let annotations = &context.checked.annotations[&function.name];
                let fresh = Fresh::of(&defined, function);
                let mut lifting = Lifting { programs: &programs, annotations, fresh, calls: 0 };
                lifting.body(&mut body);
                calls += lifting.calls;
                function.vars = lifting.fresh.vars;
                function.lambda.body = Some(body);
            }
        }
    }
    context.count("lifted", workspaces, "workspaces");
    context.count("changed", calls, "calls");
    Ok(result)
}

/// A program with workspaces, all of whose uses can be changed.
struct Candidate<'m> {
    program: &'m TensorProgram,
    workspaces: Vec<BufferId>,
    /// Inputs before the first output.
    inputs: usize,
}

fn candidates<'m>(module: &'m Module, checked: &Checked) -> BTreeMap<Name, Candidate<'m>> {
    let mut found = BTreeMap::new();
    for definition in &module.definitions {
        if let Definition::Tensor(program) = definition {
            let workspaces = workspaces(program);
            if !workspaces.is_empty() {
                let candidate = Candidate { program, workspaces, inputs: usize::MAX };
                found.insert(program.name.clone(), candidate);
            }
        }
    }
    for function in module.functions() {
        let left = &checked.left_in(&function.name).vars;
        let annotations = &checked.annotations[&function.name];
        let mut uses = Uses { annotations, left, candidates: &mut found };
        if let Some(body) = &function.lambda.body {
            uses.body(body);
        }
    }
    // Nothing calls the others: there is nowhere to allocate.
    found.retain(|_, candidate| candidate.inputs != usize::MAX);
    found
}

/// Buffers in global memory that the top of the body allocates.
fn workspaces(program: &TensorProgram) -> Vec<BufferId> {
    let statements = program.body.iter().flatten();
    let leading = statements.map_while(|statement| match &statement.kind {
        StmtKind::Alloc(buffer) => Some(*buffer),
        _ => None,
    });
    leading.filter(|&buffer| program.buffer(buffer).scope == Scope::Global).collect()
}

impl Candidate<'_> {
    fn lift(&self, program: &mut TensorProgram) {
        let is_lifted = |kind: &StmtKind| match kind {
            StmtKind::Alloc(buffer) => self.workspaces.contains(buffer),
            _ => false,
        };
        program.body.iter_mut().for_each(|body| body.retain(|stmt| !is_lifted(&stmt.kind)));
        let params = self.workspaces.iter().map(|&buffer| Param::Buffer(buffer));
        program.params.splice(self.inputs..self.inputs, params);
        declare_workspaces(program, &self.workspaces);
        renumber_program(program);
    }

    /// Dims and element types of the workspaces for one call; `None` where its arguments do not tell.
    fn sizes(&self, call: &TirCall, annotations: &[Annotation]) -> Option<Vec<(Vec<Dim>, DType)>> {
        let inputs = call.inputs.iter().map(|input| dims_of(input, annotations));
        let outputs = call.outputs.iter().map(|(dims, _)| Some(dims.clone()));
        let (mut tensors, mut scalars) = (inputs.chain(outputs), call.scalars.iter());
        let mut bound: BTreeMap<Name, Dim> = BTreeMap::new();
        for param in &self.program.params {
            match param {
                Param::Buffer(buffer) => {
                    let given = tensors.next()??;
                    for (dim, given) in self.program.buffer(*buffer).shape.iter().zip(given) {
                        if let Dim::Var(name) = dim {
                            bound.entry(name.clone()).or_insert(given);
                        }
                    }
                }
                Param::Dim(name) => {
                    bound.entry(name.clone()).or_insert(scalars.next()?.clone());
                }
                Param::Scalar(_) => _ = scalars.next(),
            }
        }
        let of = |&workspace: &BufferId| {
            let info = self.program.buffer(workspace);
            let known = info.shape.iter().all(|dim| dim.vars_all(&|name| bound.contains_key(name)));
            let dims = info.shape.iter().map(|dim| dim.substitute(&bound)).collect();
            known.then_some((dims, info.dtype))
        };
        self.workspaces.iter().map(of).collect()
    }
}

fn dims_of(input: &Atom, annotations: &[Annotation]) -> Option<Vec<Dim>> {
    match input {
        Atom::Var(var) => Some(annotations[var.0 as usize].dims()?.to_vec()),
        Atom::External(external) => Some(external.annotation.dims()?.to_vec()),
        Atom::Constant(constant) => Some(relax_syntax::resolve::constant::constant_dims(constant)),
        _ => None,
    }
}

/// Goes through the uses of programs, and strikes those that a use forbids.
struct Uses<'a, 'm> {
    annotations: &'a [Annotation],
    left: &'a BTreeSet<VarId>,
    candidates: &'a mut BTreeMap<Name, Candidate<'m>>,
}

impl Uses<'_, '_> {
    fn body(&mut self, body: &Body) {
        for binding in body.bindings() {
            match &binding.expr {
                Expr::If { then, otherwise, .. } => {
                    self.body(then);
                    self.body(otherwise);
                }
                Expr::Call { callee, args, attrs } => {
                    if self.call(binding) {
                        continue;
                    }
                    if let Callee::Global(name) = callee {
                        self.candidates.remove(name);
                    }
                    args.iter()
                        .chain(attrs.iter().map(|(_, atom)| atom))
                        .for_each(|a| self.atom(a));
                }
                Expr::Atom(atom) | Expr::Get(atom, _) | Expr::MatchCast(atom, _) => self.atom(atom),
                Expr::Closure(lambda) => lambda.body.iter().for_each(|body| self.body(body)),
            }
        }
        self.atom(&body.result);
    }

    /// Whether it is a call that can be changed.
    fn call(&mut self, binding: &Binding) -> bool {
        let Some(call) = call_tir(binding, self.annotations) else { return false };
        let Some(candidate) = self.candidates.get_mut(&call.program) else { return true };
        let agrees = candidate.inputs == usize::MAX || candidate.inputs == call.inputs.len();
        candidate.inputs = call.inputs.len();
        let known = candidate.sizes(&call, self.annotations).is_some();
        agrees && known && !self.left.contains(&binding.var)
    }

    fn atom(&mut self, atom: &Atom) {
        match atom {
            Atom::Global(name) => _ = self.candidates.remove(name),
            Atom::Tuple(items) | Atom::List(items) => items.iter().for_each(|item| self.atom(item)),
            _ => {}
        }
    }
}

fn call_tir(binding: &Binding, annotations: &[Annotation]) -> Option<TirCall> {
    let call = TirCall::read(binding, annotations)?;
    call.in_place.is_empty().then_some(call)
}

struct Lifting<'a, 'm> {
    programs: &'a BTreeMap<Name, Candidate<'m>>,
    annotations: &'a [Annotation],
    fresh: Fresh,
    calls: usize,
}

impl Lifting<'_, '_> {
    fn body(&mut self, body: &mut Body) {
        with_bindings_before(body, &mut |binding, before| {
            if let Expr::If { then, otherwise, .. } = &mut binding.expr {
                self.body(then);
                self.body(otherwise);
            }
            self.call(binding, before);
        });
    }

    fn call(&mut self, binding: &mut Binding, out: &mut Vec<Binding>) {
        let Some(call) = call_tir(binding, self.annotations) else { return };
        let Some(candidate) = self.programs.get(&call.program) else { return };
        let sizes = candidate.sizes(&call, self.annotations);
        let sizes = sizes.expect("invariant: every use of a candidate tells the sizes");
        let span = self.fresh.vars[binding.var.0 as usize].span;
        let mut inputs = call.inputs;
        for (dims, dtype) in sizes {
            let storage = self.fresh.var("workspace_storage", None, span);
            let workspace = self.fresh.var("workspace", None, span);
            let (shape, dtype) = (Atom::Shape(dims), Atom::Str(Name::new(dtype.name())));
            out.push(built_in(storage, "memory.alloc_storage", vec![shape.clone(), dtype.clone()]));
            let args = vec![Atom::Var(storage), shape, dtype];
            out.push(built_in(workspace, "memory.alloc_tensor", args));
            inputs.push(Atom::Var(workspace));
        }
        if let Expr::Call { args, attrs, .. } = &mut binding.expr {
            let given = args.get_mut(1);
            let named = attrs.iter_mut().find(|(name, _)| name == "args").map(|(_, atom)| atom);
            if let Some(list) = given.or(named) {
                *list = Atom::List(inputs);
                self.calls += 1;
            }
        }
    }
}
