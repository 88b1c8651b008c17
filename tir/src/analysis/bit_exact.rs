//! Bit-exactness: which programs give the bits of the interpreter when they are compiled. Those do that call no function
//! whose result is only right within some units in the last place, and so differs between libraries.

use relax_semantics::tir::walk::{visit, visit_own, visit_statements};
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

/// Whether a program that is compiled without reassociation gives the interpreter's results bit for bit.
#[must_use]
pub fn is_bit_exact(program: &TensorProgram) -> bool {
    let mut exact = true;
    visit_statements(program.body.as_deref().unwrap_or(&[]), &mut |stmt| {
        visit_own(stmt, &mut |own| {
            visit(own, &mut |part| {
                exact &= !matches!(part, TExpr::Call(function, _) if !is_reproducible(*function));
            });
        });
    });
    exact
}
