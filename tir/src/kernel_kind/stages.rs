//! Staged reductions: a reduction in several statements, as one nest: a buffer gets its first values, terms are combined with
//! them, and, where that is not the output already, each element of the output is made of one of its own.
//! So the programs of operators are written, which sum floats in f64.

use super::nest::{Nest, output_of};
use relax_semantics::tir::walk::visit;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Stmt, StmtKind, TExpr};

/// The nest of the terms. `None` where the program is something else.
pub(super) fn staged(program: &TensorProgram) -> Option<Nest<'_>> {
    let (body, output) = (program.body.as_ref()?, output_of(program)?);
    match body.as_slice() {
        [first, terms] => accumulation(program, first, terms, output, output),
        [alloc, first, terms, last] => {
            let StmtKind::Alloc(total) = alloc.kind else { return None };
            finishes(program, last, total, output)?;
            accumulation(program, first, terms, total, output)
        }
        _ => None,
    }
}

fn accumulation<'p>(
    program: &'p TensorProgram,
    first: &'p Stmt,
    terms: &'p Stmt,
    total: BufferId,
    output: BufferId,
) -> Option<Nest<'p>> {
    let initial = Nest::of_body(program, std::slice::from_ref(first), total)?.stored?;
    let nest = Nest::of_update(program, std::slice::from_ref(terms), total, output)?;
    let mut reads = false;
    visit(initial, &mut |part| reads |= matches!(part, TExpr::Load { .. }));
    for expr in &nest.read {
        visit(expr, &mut |part| {
            reads |= matches!(part, TExpr::Load { buffer, .. } if *buffer == total);
        });
    }
    (!reads && program.buffer(total).shape == program.buffer(output).shape).then_some(nest)
}

/// Whether a statement makes each element of the output of the one at the same place in `total`, and of
/// nothing else.
fn finishes(program: &TensorProgram, last: &Stmt, total: BufferId, output: BufferId) -> Option<()> {
    let nest = Nest::of_body(program, std::slice::from_ref(last), output)?;
    nest.stored?;
    let mut same = true;
    for expr in &nest.read {
        visit(expr, &mut |part| {
            if let TExpr::Load { buffer, indices } = part {
                same &= *buffer == total
                    && indices.iter().zip(&nest.written).all(|(index, var)| match var {
                        Some(var) => nest.scalars.lone(index) == Some(*var),
                        None => nest.scalars.is_zero(index),
                    });
            }
        });
    }
    same.then_some(())
}
