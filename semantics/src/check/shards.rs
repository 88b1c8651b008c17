//! Tensor programs on parts of distributed tensors: in a loop over the workers of a mesh axis, worker i reads and writes
//! its own part of what is cut along that axis, the rows from i * c to (i + 1) * c of n, where c = ceildiv(n, workers).
//!
//! What another worker has, `redistribute` brings. An access that is shown to leave the part is an error; one that is
//! not decided is a warning.

use super::codes;
use crate::ops::{lookup, passed};
use crate::tir::ranges::{Ranges, assume_declared};
use crate::tir::walk::{visit, visit_own};
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Distributed, Placement};
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Counterexample, Facts, Relation};
use relax_syntax::ir::tensor::{BufferId, Loop, LoopKind, Param, Stmt, StmtKind, TExpr};
use relax_syntax::ir::{Atom, Body, Callee, Expr, Module, TensorProgram};
use relax_syntax::span::Span;
use std::collections::{BTreeMap, BTreeSet};

/// The programs that graph functions call with distributed tensors, each checked once for each set of layouts.
pub(super) fn check(
    module: &Module,
    annotations: &BTreeMap<Name, Vec<Annotation>>,
    facts: &mut dyn Facts,
) -> Vec<Diagnostic> {
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for function in module.functions() {
        let (Some(body), Some(known)) = (&function.lambda.body, annotations.get(&function.name))
        else {
            continue;
        };
        // Most functions have none, and each program is searched for by name.
        if !known.iter().any(Annotation::has_layouts) {
            continue;
        }
        calls(module, body, &mut |program, operands, outputs| {
            let layouts = Layouts::of(program, operands, outputs, known);
            let name = format!("{} {:?}", program.name, layouts.of);
            if layouts.of.is_empty() || !seen.insert(name) {
                return;
            }
            facts.push();
            assume_declared(facts, &program.dims);
            let mut checker =
                Checker { program, layouts: &layouts, facts: &mut *facts, found: &mut found };
            if let Some(body) = &program.body {
                checker.body(body, &Ranges::of(program), &[]);
            }
            facts.pop();
        });
    }
    found
}

type Seen<'s, 'm> = dyn FnMut(&'m TensorProgram, &[Atom], &[Atom]) + 's;

/// Every `call_tir` of a body: the program, its operands and its outputs.
fn calls<'m>(module: &'m Module, body: &Body, seen: &mut Seen<'_, 'm>) {
    for binding in body.bindings() {
        match &binding.expr {
            Expr::If { then, otherwise, .. } => {
                calls(module, then, seen);
                calls(module, otherwise, seen);
            }
            Expr::Call { callee: Callee::Operator(name), args, attrs } => {
                let Some(row) = lookup(name).filter(|row| row.name == "call_tir") else { continue };
                let Ok(bound) = passed(row, args, attrs) else { continue };
                let [Some(Atom::Global(name)), Some(operands), Some(outputs), ..] =
                    bound.as_slice()
                else {
                    continue;
                };
                if let Some(program) = module.tensor_program(name) {
                    seen(program, items(operands), items(outputs));
                }
            }
            _ => {}
        }
    }
}

fn items(atom: &Atom) -> &[Atom] {
    match atom {
        Atom::Tuple(items) | Atom::List(items) => items,
        single => std::slice::from_ref(single),
    }
}

/// The layouts of the buffers that are distributed tensors.
struct Layouts {
    of: BTreeMap<BufferId, Distributed>,
}

impl Layouts {
    fn of(
        program: &TensorProgram,
        operands: &[Atom],
        outputs: &[Atom],
        known: &[Annotation],
    ) -> Self {
        let buffers = program.params.iter().filter_map(|param| match param {
            Param::Buffer(buffer) => Some(*buffer),
            _ => None,
        });
        let annotations = operands.iter().chain(outputs).map(|atom| match atom {
            Atom::Var(var) => known.get(var.0 as usize),
            Atom::Annotation(annotation) => Some(&**annotation),
            _ => None,
        });
        let pairs = buffers.zip(annotations).filter_map(|(buffer, annotation)| match annotation {
            Some(Annotation::DTensor(distributed)) => Some((buffer, (**distributed).clone())),
            _ => None,
        });
        Self { of: pairs.collect() }
    }
}

/// A loop over the workers of a mesh axis.
#[derive(Clone)]
struct Workers {
    mesh: Name,
    axis: usize,
    /// The number of this worker.
    own: Dim,
    number: Dim,
}

/// Where an access stands.
struct Place<'a> {
    span: Span,
    /// Whether a `select` may leave it out.
    is_guarded: bool,
    ranges: &'a Ranges,
    workers: &'a [Workers],
}

struct Checker<'a> {
    program: &'a TensorProgram,
    layouts: &'a Layouts,
    facts: &'a mut dyn Facts,
    found: &'a mut Vec<Diagnostic>,
}

impl Checker<'_> {
    fn body(&mut self, body: &[Stmt], ranges: &Ranges, workers: &[Workers]) {
        let mut ranges = ranges.clone();
        for stmt in body {
            self.own_accesses(stmt, &ranges, workers);
            match &stmt.kind {
                StmtKind::For { loops, kind, body } => {
                    self.facts.push();
                    let mut inner = ranges.clone();
                    let mut around = workers.to_vec();
                    for item in loops {
                        inner.enter(self.facts, item);
                        around.extend(shard(kind, item, &inner));
                    }
                    self.body(body, &inner, &around);
                    self.facts.pop();
                }
                StmtKind::Block { axes, init, body, .. } => {
                    let mut inner = ranges.clone();
                    axes.iter().for_each(|axis| inner.bind(axis.var, &axis.value));
                    self.body(init, &inner, workers);
                    self.body(body, &inner, workers);
                }
                StmtKind::If { condition, then, otherwise } => {
                    self.facts.push();
                    ranges.assume(self.facts, condition);
                    self.body(then, &ranges, workers);
                    self.facts.pop();
                    self.body(otherwise, &ranges, workers);
                }
                StmtKind::Let { var, value } => ranges.bind(*var, value),
                _ => {}
            }
        }
    }

    fn own_accesses(&mut self, stmt: &Stmt, ranges: &Ranges, workers: &[Workers]) {
        if workers.is_empty() {
            return;
        }
        let mut accesses = Vec::new();
        if let StmtKind::Store { buffer, indices, .. } = &stmt.kind {
            accesses.push((*buffer, indices.as_slice()));
        }
        visit_own(stmt, &mut |expr| {
            visit(expr, &mut |part| {
                if let TExpr::Load { buffer, indices } = part {
                    accesses.push((*buffer, indices));
                }
            });
        });
        let is_guarded = has_select(stmt);
        for (buffer, indices) in accesses {
            let place = Place { span: stmt.span, is_guarded, ranges, workers };
            self.access(buffer, indices, &place);
        }
    }

    fn access(&mut self, buffer: BufferId, indices: &[TExpr], place: &Place) {
        let Some(layout) = self.layouts.of.get(&buffer) else { return };
        let info = &self.program.buffers[buffer.0 as usize];
        for (mesh_axis, placement) in layout.placements.iter().enumerate() {
            let Placement::Sharded(axis) = placement else { continue };
            let of_axis = |loop_: &&Workers| loop_.mesh == layout.mesh && loop_.axis == mesh_axis;
            let Some(workers) = place.workers.iter().find(of_axis) else { continue };
            let (Some(index), Some(extent)) = (indices.get(*axis), info.shape.get(*axis)) else {
                continue;
            };
            let stays = match place.ranges.dim(index) {
                Some(index) => self.stays(&index, extent, workers),
                None => Answer::Unknown,
            };
            let name = &info.name;
            match stays {
                Answer::Proved => {}
                Answer::Refuted(example) if !place.is_guarded => {
                    let message = format!(
                        "a worker reads or writes rows of `{name}` that another worker has{}",
                        such_as(&example)
                    );
                    self.report(Diagnostic::error(codes::OTHER_PART, place.span, message));
                }
                Answer::Refuted(_) | Answer::Unknown => {
                    let message =
                        format!("cannot prove that a worker stays in its part of `{name}`");
                    let found = Diagnostic::error(codes::OTHER_PART, place.span, message);
                    self.report(found.as_warning());
                }
            }
        }
    }

    fn report(&mut self, found: Diagnostic) {
        let found = found.with_label("this access");
        self.found.push(
            found.with_help("`redistribute` the tensor first, so that each worker has these rows"),
        );
    }

    /// Whether an index lies in the part of a worker.
    fn stays(&mut self, index: &Dim, extent: &Dim, workers: &Workers) -> Answer {
        let op = |op, a: &Dim, b: Dim| Dim::op(op, a.clone(), b);
        let part = op(DimOp::CeilDiv, extent, workers.number.clone());
        let begin = op(DimOp::Mul, &workers.own, part.clone());
        let end = op(DimOp::Add, &begin, part);
        match self.facts.decide(&Claim::new(begin, Relation::AtMost, index.clone())) {
            Answer::Proved => self.facts.decide(&Claim::new(index.clone(), Relation::Less, end)),
            other => other,
        }
    }
}

fn has_select(stmt: &Stmt) -> bool {
    let mut found = false;
    visit_own(stmt, &mut |expr| {
        visit(expr, &mut |part| found |= matches!(part, TExpr::Select(_)));
    });
    found
}

fn shard(kind: &LoopKind, item: &Loop, ranges: &Ranges) -> Option<Workers> {
    let LoopKind::Shard { mesh, mesh_dim } = kind else { return None };
    let number = ranges.dim(&item.stop)?;
    let own = Dim::Var(ranges.name(item.var)?);
    Some(Workers { mesh: mesh.clone(), axis: *mesh_dim, own, number })
}

/// The symbolic variables of a counterexample.
fn such_as(example: &Counterexample) -> String {
    let of_text = example.iter().filter(|(name, _)| !name.contains(' '));
    let each: Vec<String> = of_text.map(|(name, value)| format!("{name} = {value}")).collect();
    if each.is_empty() { String::new() } else { format!(", for {}", each.join(", ")) }
}
