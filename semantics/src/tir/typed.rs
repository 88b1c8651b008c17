//! What a backend asks of a well-formed program: the dtype of each expression, and whether it is index
//! arithmetic, which is checked where other integers wrap.

use super::check::analyse;
use super::compile_expr::compared;
use super::kernels::Origin;
use super::typing::{Typed, Types, cast_source};
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::TExpr;

/// The types of one program.
pub struct Typing<'p>(Types<'p>);

impl<'p> Typing<'p> {
    /// Checks a program.
    ///
    /// # Errors
    /// What [`super::check`] finds.
    pub fn new(program: &'p TensorProgram) -> Result<Self, Vec<Diagnostic>> {
        analyse(program).map(Self)
    }

    fn typed(&self, expr: &TExpr) -> Typed {
        let span = self.0.program.span;
        self.0.infer(expr, span).expect("invariant: the checker accepted this expression")
    }

    /// The dtype of an expression that nothing else gives one.
    #[must_use]
    pub fn dtype(&self, expr: &TExpr) -> DType {
        self.typed(expr).dtype()
    }

    /// Whether an integer comes from loop variables, dims, parameters and literals alone.
    #[must_use]
    pub fn is_index(&self, expr: &TExpr) -> bool {
        self.typed(expr).origin == Origin::Index
    }

    /// The dtype in which two operands are compared.
    #[must_use]
    pub fn compared(&self, left: &TExpr, right: &TExpr) -> DType {
        compared(self.typed(left), self.typed(right))
    }

    /// The dtype in which the operand of a cast is computed.
    #[must_use]
    pub fn cast_source(&self, operand: &TExpr, target: DType) -> DType {
        cast_source(self.typed(operand).ty, target)
    }
}
