//! A tensor program without the nest that a library computes.

use relax_semantics::tir::walk::{visit_own, visit_statements};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Param, Stmt, StmtKind, TExpr};
use relax_tir::kernel_kind::{MatrixProduct, Nest, output_of};
use relax_tir::renumber::renumber_program;
use std::collections::BTreeSet;

/// A program in two parts.
#[derive(Clone)]
pub(super) struct Split {
    /// Which inputs are multiplied.
    pub(super) left: usize,
    pub(super) right: usize,
    /// The product, over the dims of the program.
    pub(super) product: Annotation,
    /// What is left of the program, which takes the product after the inputs that it still reads; none
    /// where the product is all.
    pub(super) rest: Option<TensorProgram>,
    /// Those inputs.
    pub(super) arguments: Vec<usize>,
}

pub(super) struct Rest;

impl Rest {
    /// Splits a program; the rest gets a name. Only buffers are taken as parameters, and nothing may be
    /// declared of dims, for that would be checked elsewhere.
    pub(super) fn of(program: &TensorProgram, name: Name) -> Option<Split> {
        let body = program.body.as_ref()?;
        let params: Vec<BufferId> = program.buffer_params().collect();
        let plain =
            params.len() == program.params.len() && program.dims.iter().all(|dim| !dim.has_facts());
        let at = (0..body.len()).find(|&at| product(program, body, at).is_some())?;
        let (buffer, MatrixProduct { left, right }) = product(program, body, at)?;
        let output = output_of(program)?;
        let (inputs, position) = (&params[..params.len() - 1], |id: BufferId| {
            params.iter().position(|&param| param == id)
        });
        let is_input = |id| inputs.contains(&id);
        // Nothing else may write to what is multiplied, or touch the product before it is there.
        let quiet = !touches(&body[..at], buffer)
            && [left, right].into_iter().all(|id| is_input(id) && !writes(body, id))
            && !writes(&body[at + 1..], buffer);
        if !plain || !quiet {
            return None;
        }
        let info = program.buffer(buffer);
        let product = Annotation::tensor(info.shape.clone(), info.dtype);
        let (left, right) = (position(left)?, position(right)?);
        if buffer == output {
            return (body.len() == 1).then(|| Split {
                left,
                right,
                product,
                rest: None,
                arguments: Vec::new(),
            });
        }
        let kept = body
            .iter()
            .enumerate()
            .filter(|(other, stmt)| *other != at && stmt.kind != StmtKind::Alloc(buffer));
        let kept: Vec<Stmt> = kept.map(|(_, stmt)| stmt.clone()).collect();
        let arguments: Vec<usize> =
            (0..inputs.len()).filter(|&input| touches(&kept, inputs[input])).collect();
        let mut all: Vec<BufferId> = arguments.iter().map(|&input| inputs[input]).collect();
        all.extend([buffer, output]);
        let mut rest = program.clone();
        rest.name = name;
        rest.attrs.retain(|(key, _)| key != relax_tir::kernel_kind::ATTRIBUTE);
        rest.params = all.iter().map(|&id| Param::Buffer(id)).collect();
        keep_dims(&mut rest, &all, &kept)?;
        rest.body = Some(kept);
        renumber_program(&mut rest);
        Some(Split { left, right, product, rest: Some(rest), arguments })
    }
}

/// The buffer that a statement fills with the product of two others, whatever the dims are.
fn product(program: &TensorProgram, body: &[Stmt], at: usize) -> Option<(BufferId, MatrixProduct)> {
    let mut stored = None;
    visit_statements(&body[at..=at], &mut |stmt| {
        if let StmtKind::Store { buffer, .. } = &stmt.kind {
            stored = Some(*buffer);
        }
    });
    let nest = Nest::of_body(program, &body[at..=at], stored?)?;
    let product = nest.matrix_product(program)?;
    nest.writes_all().then_some((stored?, product))
}

/// Symbolic variables that are still bound; none where one is used that is not.
fn keep_dims(rest: &mut TensorProgram, params: &[BufferId], body: &[Stmt]) -> Option<()> {
    let mut bound = BTreeSet::new();
    for id in params {
        for dim in &rest.buffer(*id).shape {
            if let Dim::Var(name) = dim {
                bound.insert(name.clone());
            }
        }
    }
    let mut all = true;
    let mut used = |dim: &Dim| all &= dim.vars_all(&|name| bound.contains(name));
    params.iter().for_each(|id| rest.buffer(*id).shape.iter().for_each(&mut used));
    visit_statements(body, &mut |stmt| {
        if let StmtKind::Alloc(id) = &stmt.kind {
            rest.buffer(*id).shape.iter().for_each(&mut used);
        }
        visit_own(stmt, &mut |expr| {
            relax_semantics::tir::walk::visit(expr, &mut |part| {
                if let TExpr::Dim(name) = part {
                    used(&Dim::Var(name.clone()));
                }
            });
        });
    });
    rest.dims.retain(|dim| bound.contains(&dim.name));
    all.then_some(())
}

fn writes(body: &[Stmt], buffer: BufferId) -> bool {
    let mut writes = false;
    visit_statements(body, &mut |stmt| {
        writes |= matches!(&stmt.kind, StmtKind::Store { buffer: other, .. } if *other == buffer);
    });
    writes
}

/// Whether statements read a buffer or write to it.
fn touches(body: &[Stmt], buffer: BufferId) -> bool {
    let mut reads = false;
    visit_statements(body, &mut |stmt| {
        visit_own(stmt, &mut |expr| {
            relax_semantics::tir::walk::visit(expr, &mut |part| {
                reads |= matches!(part, TExpr::Load { buffer: other, .. } if *other == buffer);
            });
        });
    });
    reads || writes(body, buffer)
}
