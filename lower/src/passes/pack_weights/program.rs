//! Tensor programs with products whose right matrix may come in panels, and their versions that take it so.

use super::layout::Layout;
use relax_semantics::tir::walk::{
    Place, Rewrite, expr, statements, visit, visit_own, visit_statements,
};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Loop, Param, ScalarId, StmtKind, TExpr};
use relax_tir::products::{At, Product, mentions};
use relax_tir::renumber::renumber_program;

/// The parameters of a program that may come in panels, by their places.
pub(super) fn packable(program: &TensorProgram, width: i64) -> Vec<(usize, Layout)> {
    let mut found = Vec::new();
    visit_statements(program.body.as_deref().unwrap_or(&[]), &mut |stmt| {
        let Some(product) = Product::of(program, stmt) else { return };
        if product.dtype != DType::F32 {
            return;
        }
        let Some((buffer, layout)) = right_matrix(program, &product) else { return };
        let place = program.params.iter().position(|param| *param == Param::Buffer(buffer));
        let once = uses(program, buffer) == 1;
        found.extend(place.filter(|_| once && layout.columns > width).map(|at| (at, layout)));
    });
    found
}

/// The whole matrix that a product reads by the last index of its result.
fn right_matrix(program: &TensorProgram, product: &Product) -> Option<(BufferId, Layout)> {
    let &TExpr::Scalar(last) = product.out.indices.last()? else { return None };
    let column = product.loops.iter().find(|item| item.var == last)?;
    let [a, b] = product.factors;
    let right = match (mentions(a.indices, last), mentions(b.indices, last)) {
        (false, true) => b,
        (true, false) => a,
        _ => return None,
    };
    let turned = order(right, product.along.var, last)?;
    let (terms, columns) = (extent(product.along)?, extent(column)?);
    let own = if turned { [columns, terms] } else { [terms, columns] };
    let whole = program.buffer(right.buffer).shape == own.map(Dim::Int);
    whole.then_some((right.buffer, Layout { terms, columns, turned }))
}

/// Whether the column comes first; `None` where the indices are others.
fn order(right: At, term: ScalarId, column: ScalarId) -> Option<bool> {
    match right.indices {
        [TExpr::Scalar(a), TExpr::Scalar(b)] if (*a, *b) == (term, column) => Some(false),
        [TExpr::Scalar(a), TExpr::Scalar(b)] if (*a, *b) == (column, term) => Some(true),
        _ => None,
    }
}

fn extent(item: &Loop) -> Option<i64> {
    if let TExpr::Int(extent @ 0..) = item.stop { Some(extent) } else { None }
}

/// How often the text loads from a buffer or stores to it.
fn uses(program: &TensorProgram, buffer: BufferId) -> usize {
    let mut count = 0;
    visit_statements(program.body.as_deref().unwrap_or(&[]), &mut |stmt| {
        if let StmtKind::Store { buffer: to, update, .. } = &stmt.kind {
            count += usize::from(*to == buffer) + usize::from(*to == buffer && update.is_some());
        }
        let mut seen = |part: &TExpr| {
            count += usize::from(matches!(part, TExpr::Load { buffer: of, .. } if *of == buffer));
        };
        visit_own(stmt, &mut |own| visit(own, &mut seen));
    });
    count
}

/// A program with some of its parameters in panels.
pub(super) struct Version<'a> {
    pub(super) program: &'a TensorProgram,
    pub(super) packed: &'a [(usize, Layout)],
    pub(super) width: i64,
}

impl Version<'_> {
    pub(super) fn rewrite(&self, name: Name) -> TensorProgram {
        let mut program = self.program.clone();
        program.name = name;
        let mut panels = Vec::new();
        for &(at, layout) in self.packed {
            let Param::Buffer(buffer) = program.params[at] else { continue };
            program.buffers[buffer.0 as usize].shape = layout.dims(self.width);
            panels.push((buffer, layout));
        }
        let mut rewrite = InPanels { panels, width: self.width };
        program.body = program.body.map(|body| statements(&body, &mut rewrite));
        renumber_program(&mut program);
        program
    }
}

struct InPanels {
    panels: Vec<(BufferId, Layout)>,
    width: i64,
}

impl Rewrite for InPanels {
    fn replace(&mut self, part: &TExpr, _: Place) -> Option<TExpr> {
        let TExpr::Load { buffer, indices } = part else { return None };
        let layout = self.panels.iter().find(|(other, _)| other == buffer)?.1;
        let [first, second] = indices.as_slice() else { return None };
        let [first, second] = [first, second].map(|index| expr(index, self, Place::Index));
        let (term, column) = if layout.turned { (second, first) } else { (first, second) };
        let indices = Layout::place(term, column, self.width);
        Some(TExpr::Load { buffer: *buffer, indices })
    }
}
