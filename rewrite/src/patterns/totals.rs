//! Which tensor programs never stop on inputs of the right shapes whose elements are all written.

use super::nest::{Nest, output_of};
use super::reads::reads_of;
use crate::kernels::extent;
use crate::programs::ranges::{Ranges, assume_declared};
use crate::programs::total::Total;
use relax_semantics::tir::walk::visit;
use relax_syntax::dim::Dim;
use relax_syntax::facts::Facts;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Loop, LoopKind, Param, Stmt, StmtKind, TExpr};

/// What is known of a program that never stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Every element of its output is written, whatever the dims are.
    pub(crate) writes_all: bool,
}

impl Totals {
    /// `None`: it may stop. Known is it of a nest whose reads are proved to be in bounds, with no operation
    /// that some operands have no value for.
    pub(crate) fn of(program: &TensorProgram, facts: &mut dyn Facts) -> Option<Self> {
        let nest = Nest::of(program)?;
        reads_of(program, &nest)?;
        let plain_dims = nest.extents.values().chain(program.buffers.iter().flat_map(|b| &b.shape));
        let only_buffers = program.params.iter().all(|param| matches!(param, Param::Buffer(_)));
        let total = only_buffers
            && program.dims.iter().all(|dim| !dim.has_facts())
            && plain_dims.into_iter().all(|dim| matches!(dim, Dim::Var(_) | Dim::Int(0..)))
            && never_stops(program, &nest, facts);
        total.then_some(Totals { writes_all: nest.writes_all() })
    }
}

/// Whether some statement of a body writes every element of a buffer, whatever the dims are.
pub(crate) fn is_covered(program: &TensorProgram, body: &[Stmt], buffer: BufferId) -> bool {
    let each = body.iter().map(std::slice::from_ref);
    let mut covers = each.map(|stmt| {
        Nest::of_body(program, stmt, buffer).is_some_and(|nest| nest.writes_all())
            || stores_each(stmt, &program.buffer(buffer).shape, buffer, &mut Vec::new())
    });
    covers.any(|covers| covers)
}

/// Whether some store stands at the variables of whole loops around it, beside which there are only such that run: with
/// others before and after it, as where a sum is formed first.
fn stores_each<'s>(
    body: &'s [Stmt],
    shape: &[Dim],
    buffer: BufferId,
    loops: &mut Vec<&'s Loop>,
) -> bool {
    body.iter().any(|stmt| match &stmt.kind {
        StmtKind::For { loops: own, kind: LoopKind::Grid | LoopKind::Serial, body } => {
            let outer = loops.len();
            loops.extend(own);
            let found = stores_each(body, shape, buffer, loops);
            loops.truncate(outer);
            found
        }
        StmtKind::Block { axes, body, .. } if axes.is_empty() => {
            stores_each(body, shape, buffer, loops)
        }
        StmtKind::Store { buffer: to, indices, update: None, .. } if *to == buffer => {
            let goes_through = |(index, dim): (&TExpr, &Dim)| match index {
                TExpr::Int(0) => *dim == Dim::Int(1),
                TExpr::Scalar(var) => loops.iter().any(|item| {
                    item.var == *var && item.start == TExpr::Int(0) && item.stop == extent(dim)
                }),
                _ => false,
            };
            let places = |item: &Loop| {
                indices.iter().filter(|index| **index == TExpr::Scalar(item.var)).count()
            };
            let runs =
                |item: &Loop| item.start == TExpr::Int(0) && matches!(item.stop, TExpr::Int(1..));
            let once = |item: &&Loop| match places(item) {
                0 => runs(item),
                count => count == 1,
            };
            indices.iter().zip(shape).all(goes_through) && loops.iter().all(once)
        }
        _ => false,
    })
}

/// Whether a statement writes every element of a buffer, whatever the dims are, and reads none of them
/// before.
#[must_use]
pub fn initializes(program: &TensorProgram, stmt: &Stmt, buffer: BufferId) -> bool {
    let Some(nest) = Nest::of_body(program, std::slice::from_ref(stmt), buffer) else {
        return false;
    };
    let mut reads = false;
    for expr in &nest.read {
        visit(expr, &mut |part| {
            reads |= matches!(part, TExpr::Load { buffer: read, .. } if *read == buffer);
        });
    }
    nest.writes_all() && !reads
}

/// Whether a program that ends has written every element of its output.
pub(crate) fn writes_output(program: &TensorProgram) -> bool {
    let Some((body, output)) = program.body.as_ref().zip(output_of(program)) else { return false };
    Nest::of(program).is_some_and(|nest| nest.writes_all()) || is_covered(program, body, output)
}

/// Whether all that a nest evaluates has a value for all of its iterations.
pub(crate) fn never_stops(program: &TensorProgram, nest: &Nest, facts: &mut dyn Facts) -> bool {
    facts.push();
    assume_declared(facts, &program.dims);
    let mut ranges = Ranges::default();
    for (&var, dim) in &nest.extents {
        ranges.enter(facts, &Loop { var, start: TExpr::Int(0), stop: extent(dim) });
    }
    for (var, value) in nest.scalars.bound() {
        ranges.bind(var, value);
    }
    let mut total = Total::new(program, facts);
    // An axis is compared with its extent, which is not looked at here.
    let never = !nest.has_axes && nest.read.iter().all(|expr| total.has_value(&ranges, expr));
    facts.pop();
    never
}
