//! Tensor programs of f32 tensors that compute in f64 between them compute in f32: for devices whose f64 is slow, where sums may have any
//! order. Each operation then rounds to f32, so that a sum of `k` terms whose magnitudes sum to `s` is off by `k * 2^-24 * s` at most,
//! and one that leaves the range of f32 is infinite (LANGUAGE, "Reassociation").
//!
//! A program stays as it is where a narrower value could decide something: an f64 is compared, becomes an integer, a boolean or a
//! half, or comes from one; where a literal is not in the range of f32; and where one of its own tensors is f64.

use relax_rewrite::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_semantics::tir::Typing;
use relax_semantics::tir::walk::{
    Place, Rewrite, expr, statements, visit, visit_own, visit_statements,
};
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, BufferId, Intrinsic, StmtKind, TExpr, UnOp};
use relax_syntax::ir::{Definition, Module, TensorProgram};
use relax_tir::products::is_in_f32_range;

/// The record of the pass, as it stands in the table of passes.
pub static PASS: Pass = Pass {
    name: "narrow_floats",
    doc: "Computes in f32 what tensor programs of f32 compute in f64 between their tensors.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P22,
    exactness: Exactness::Rounded(DType::F32),
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut result = module.clone();
    let mut done = 0;
    for definition in &mut result.definitions {
        let Definition::Tensor(program) = definition else { continue };
        if let Some(narrower) = narrowed(program) {
            *program = narrower;
            done += 1;
        }
    }
    context.count("narrowed", done, "tensor programs");
    Ok(result)
}

/// The program in f32; none where that may not be, or where it computes nothing in f64.
fn narrowed(program: &TensorProgram) -> Option<TensorProgram> {
    let body = program.body.as_deref()?;
    let typing = Typing::new(program).ok()?;
    let is_wide = |buffer: BufferId| program.buffer(buffer).dtype == DType::F64;
    if program.buffer_params().any(is_wide) {
        return None;
    }
    let mut parts = Parts { typing: &typing, is_narrow: true, is_wide: false };
    visit_statements(body, &mut |stmt| {
        if let StmtKind::Store { buffer, value, .. } = &stmt.kind
            && is_wide(*buffer)
        {
            parts.value(value);
        }
        if let StmtKind::Let { value, .. } = &stmt.kind {
            parts.is_narrow &= typing.dtype(value) != DType::F64;
        }
        visit_own(stmt, &mut |own| parts.see(own));
    });
    if !(parts.is_narrow && parts.is_wide) {
        return None;
    }
    let body = statements(body, &mut Narrower { typing: &typing });
    let mut result = TensorProgram { body: Some(body), ..program.clone() };
    for info in result.buffers.iter_mut().filter(|info| info.dtype == DType::F64) {
        info.dtype = DType::F32;
    }
    Some(result)
}

/// What is in f64 among the expressions of a program.
struct Parts<'t, 'p> {
    typing: &'t Typing<'p>,
    /// Whether all of it may be in f32.
    is_narrow: bool,
    /// Whether there is any.
    is_wide: bool,
}

impl Parts<'_, '_> {
    /// An expression that stands for itself; what of it is in f64 is looked at where it becomes something else.
    fn see(&mut self, whole: &TExpr) {
        visit(whole, &mut |part| match part {
            // What f64 becomes; a comparison of two is none of the forms of `value`.
            TExpr::Cast(to, inner) if self.typing.dtype(inner) == DType::F64 => {
                self.is_narrow &= *to == DType::F32;
                self.value(inner);
            }
            TExpr::Binary(
                BinOp::Equal
                | BinOp::NotEqual
                | BinOp::Less
                | BinOp::LessEqual
                | BinOp::Greater
                | BinOp::GreaterEqual,
                both,
            ) => {
                let is_wide = |side: &TExpr| self.typing.dtype(side) == DType::F64;
                self.is_narrow &= !is_wide(&both.0) && !is_wide(&both.1);
            }
            _ => {}
        });
    }

    /// A value of f64, which may be in f32 if all of its parts may.
    fn value(&mut self, value: &TExpr) {
        self.is_wide = true;
        match value {
            TExpr::Float(number) => self.is_narrow &= is_in_f32_range(*number),
            TExpr::Load { .. } => {}
            TExpr::Cast(DType::F64, inner) => {
                let from = self.typing.dtype(inner);
                self.is_narrow &= from == DType::F32 || self.typing.is_index(inner);
            }
            TExpr::Unary(UnOp::Negate, inner) => self.value(inner),
            TExpr::Binary(
                BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div | BinOp::Min | BinOp::Max,
                both,
            ) => {
                self.value(&both.0);
                self.value(&both.1);
            }
            TExpr::Select(parts) => {
                self.value(&parts.1);
                self.value(&parts.2);
            }
            TExpr::Call(
                Intrinsic::Exp
                | Intrinsic::Tanh
                | Intrinsic::Sigmoid
                | Intrinsic::Sqrt
                | Intrinsic::Rsqrt
                | Intrinsic::Erf
                | Intrinsic::Erfc
                | Intrinsic::Abs,
                operands,
            ) => operands.iter().for_each(|operand| self.value(operand)),
            _ => self.is_narrow = false,
        }
    }
}

struct Narrower<'t, 'p> {
    typing: &'t Typing<'p>,
}

impl Rewrite for Narrower<'_, '_> {
    fn replace(&mut self, part: &TExpr, place: Place) -> Option<TExpr> {
        let TExpr::Cast(to, inner) = part else { return None };
        let (from, narrower) = (self.typing.dtype(inner), expr(inner, self, place));
        match (from, to) {
            (DType::F64, DType::F32) | (DType::F32, DType::F64) => Some(narrower),
            (_, DType::F64) => Some(TExpr::Cast(DType::F32, Box::new(narrower))),
            _ => None,
        }
    }
}
