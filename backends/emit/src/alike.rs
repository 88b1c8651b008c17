//! Which programs give the bits of the interpreter when they are compiled: those that call no function which is right
//! within a unit only, and so not the same everywhere.

use relax_rewrite::patterns::visit;
use relax_rewrite::walk::{visit_own, visit_statements};
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{Intrinsic, TExpr};

/// Whether a function rounds nothing, or as IEEE 754 prescribes.
const fn is_reproducible(function: Intrinsic) -> bool {
    matches!(
        function,
        Intrinsic::Abs
            | Intrinsic::Sqrt
            | Intrinsic::Rsqrt
            | Intrinsic::Floor
            | Intrinsic::Ceil
            | Intrinsic::Round
            | Intrinsic::Trunc
            | Intrinsic::Fma
    )
}

/// Whether the C text of a program, with [`crate::Sums::Exact`], gives the interpreter's results bit for bit.
#[must_use]
pub fn computes_alike(program: &TensorProgram) -> bool {
    let mut alike = true;
    visit_statements(program.body.as_deref().unwrap_or(&[]), &mut |stmt| {
        visit_own(stmt, &mut |own| {
            visit(own, &mut |part| {
                alike &= !matches!(part, TExpr::Call(function, _) if !is_reproducible(*function));
            });
        });
    });
    alike
}
