//! Rows of f32 that routines of the prelude read as a whole, where sums may be formed in any order: the greatest of one,
//! and the exponentials of one with their sum, as in softmax.

use crate::printer::Printer;
use relax_runtime::program::Numerics;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, Intrinsic, Loop, ScalarId, TExpr};
use relax_tir::products::mentions;

impl Printer<'_, '_> {
    /// Where a row begins whose elements are the values of an expression, one after the other as a loop runs: the
    /// element of a buffer at which its variable is the last index.
    fn row(&mut self, value: &TExpr, var: ScalarId) -> Option<String> {
        let TExpr::Load { buffer, indices } = value else { return None };
        let (last, before) = indices.split_last()?;
        let dtype = self.program.buffer(*buffer).dtype;
        let fits = dtype == DType::F32 && *last == TExpr::Scalar(var) && !mentions(before, var);
        if !fits || self.is_cuda() || self.sums != Numerics::Reassociated {
            return None;
        }
        let text = self.expr(value, DType::F32);
        // What stands for the element may be a variable.
        let element =
            text.starts_with(&format!("{}[", self.buffers[buffer])) && text.ends_with(']');
        element.then(|| format!("&{text}"))
    }

    /// `most` becomes the greatest of the values of a loop, or NaN, if they are a row.
    pub(crate) fn greatest(
        &mut self,
        item: &Loop,
        (start, stop): (&str, &str),
        value: &TExpr,
        most: &str,
    ) -> Option<Vec<String>> {
        let row = self.row(value, item.var)?;
        self.rows = true;
        let var = &self.scalars[&item.var];
        Some(vec![
            format!("float {most} = -INFINITY;"),
            format!(
                "for (int64_t {var} = {start}; {var} < {stop}; {var} = {stop}) {most} = rx_greatest({row}, {stop} - {var});"
            ),
        ])
    }

    /// `exp(x - c)` where `x` is a row and `c` the same for all of it: the row, and `c`.
    pub(crate) fn exponential(&mut self, term: &TExpr, var: ScalarId) -> Option<(String, String)> {
        let TExpr::Call(Intrinsic::Exp, operands) = term else { return None };
        let [TExpr::Binary(BinOp::Sub, both)] = operands.as_slice() else { return None };
        let TExpr::Cast(DType::F64, from) = &both.0 else { return None };
        if mentions(std::slice::from_ref(&both.1), var) || !self.is_narrow(&both.1) {
            return None;
        }
        let row = self.row(from, var)?;
        let less = self.narrow(&both.1);
        self.rows = true;
        Some((row, less))
    }
}
